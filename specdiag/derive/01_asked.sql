-- From the rows as parsed (schema raw) to the tables of schema.sql: every convention is converted
-- here, once. `part` says which run a (source, life, arm) belongs to; `place` orders its files.

-- What a run was asked to do, from its own arguments and from the first things it says.
CREATE TEMP TABLE asked AS
WITH argument AS (
    SELECT run, key, arg_max(value, line) AS value
    FROM config WHERE value NOT IN ('None', 'null', '') GROUP BY run, key
),
-- llama.cpp's arguments are its command line; a draft model without a type is drafted with as it is.
commanded AS (
    SELECT run, regexp_extract(detail, '--spec-type[ =]+(?:draft-)?([a-z0-9]+)', 1) AS type, regexp_matches(detail, ' (?:-md|--model-draft|--spec-draft-model|-hfr?d|--hf-repo-draft|--spec-draft-hf)[ =]') AS drafts
    FROM event WHERE kind = 'arguments' AND detail LIKE '%llama%'
),
drafting AS (
    SELECT run, any_value(CASE WHEN type NOT IN ('', 'simple', 'draft') THEN upper(type) WHEN drafts OR type <> '' THEN 'DRAFT_MODEL' END) AS algorithm FROM commanded GROUP BY run
),
hint AS (
    SELECT run, 'draft_tokens' AS what, max("after") AS value FROM event
    WHERE kind = 'draft_tokens' AND "after" IS NOT NULL GROUP BY run
    UNION ALL
    SELECT run, 'overridden', 1 FROM event
    WHERE kind = 'draft_tokens' AND detail LIKE '%adjusted to speculative_num_steps + 1%' GROUP BY run
    UNION ALL
    SELECT run, 'verify_width', max("after") FROM event
    WHERE kind = 'capture_begin' AND name = 'target verify' GROUP BY run
    UNION ALL
    SELECT run, 'block', max(value) FROM event WHERE kind = 'hook' AND detail = 'initialized' GROUP BY run
    UNION ALL
    SELECT run, 'budget', max("after") FROM event WHERE kind = 'hook' AND detail = 'initialized' GROUP BY run
)
SELECT
    run,
    bool_or(a.key IS NOT NULL) AS configured,
    coalesce(max(upper(a.value)) FILTER (a.key IN ('speculative_algorithm', 'method', 'algorithm')), any_value(d.algorithm)) AS algorithm,
    bool_or(a.key SIMILAR TO '.*(shadow_linear|shadow-linear).*' AND a.value ILIKE 'true') AS shadow,
    bool_or(a.key SIMILAR TO '.*(ddtree|tree).*' AND a.key LIKE 'spec%' AND a.value NOT ILIKE 'false') AS tree_flag,
    max(a.value) FILTER (a.key IN ('model_path', 'model', 'target')) AS model,
    max(a.value) FILTER (a.key IN ('speculative_draft_model_path', 'speculative_model', 'draft_model', 'drafter')) AS draft_model,
    -- SGLang verifies of a chain as many as it drafts, and the root, whatever was asked for, and says so.
    CASE WHEN bool_or(h.what = 'overridden') THEN TRY_CAST(max(a.value) FILTER (a.key = 'speculative_num_steps') AS INTEGER) + 1
         ELSE TRY_CAST(max(a.value) FILTER (a.key = 'speculative_num_draft_tokens') AS INTEGER) END AS draft_tokens,
    TRY_CAST(max(a.value) FILTER (a.key = 'num_speculative_tokens') AS INTEGER) + 1 AS drafted_plus_one,
    TRY_CAST(max(a.value) FILTER (a.key = 'speculative_num_steps') AS INTEGER) AS draft_steps,
    TRY_CAST(max(a.value) FILTER (a.key SIMILAR TO 'spec.*(topk|top_k)' OR a.key = 'top_k') AS INTEGER) AS top_k,
    TRY_CAST(max(a.value) FILTER (a.key SIMILAR TO 'spec.*(tree_budget|ddtree_budget)' OR a.key = 'budget') AS INTEGER) AS budget,
    TRY_CAST(max(a.value) FILTER (a.key IN ('speculative_dflash_block_size', 'block')) AS INTEGER) AS block,
    TRY_CAST(max(a.value) FILTER (a.key = 'page_size') AS INTEGER) AS page_size,
    TRY_CAST(max(a.value) FILTER (a.key = 'decode_log_interval') AS INTEGER) AS log_interval,
    TRY_CAST(max(h.value) FILTER (h.what = 'draft_tokens') AS INTEGER) AS hinted_draft_tokens,
    TRY_CAST(max(h.value) FILTER (h.what = 'verify_width') AS INTEGER) AS verify_width,
    TRY_CAST(max(h.value) FILTER (h.what = 'block') AS INTEGER) AS hinted_block,
    TRY_CAST(max(h.value) FILTER (h.what = 'budget') AS INTEGER) AS hinted_budget
FROM (SELECT DISTINCT run FROM part)
LEFT JOIN argument a USING (run)
LEFT JOIN hint h USING (run)
LEFT JOIN drafting d USING (run)
GROUP BY run;

-- Who asks for a synthetic acceptance (vLLM, llama.cpp) measures a setting.
INSERT INTO event BY NAME
SELECT run, source, min(line) AS line, any_value(time) AS time, 'simulated' AS kind, 'synthetic' AS name, string_agg(value, ' ') AS detail,
    max(TRY_CAST(value AS DOUBLE)) FILTER (key LIKE '%length') AS value
FROM config WHERE (regexp_matches(key, 'synthetic_acceptance_(length|rates?)$') AND value NOT IN ('None', 'null', '')) OR (key LIKE '%rejection_sample_method' AND value = 'synthetic')
GROUP BY run, source
UNION ALL BY NAME
SELECT run, source, line, time, 'simulated' AS kind, 'synthetic' AS name, asked AS detail,
    TRY_CAST(regexp_extract(asked, 'length[ =]+([0-9.]+)', 1) AS DOUBLE) AS value
FROM (SELECT *, regexp_extract(detail, '--spec-synthetic-acceptance-(?:length|rates)[ =]+\S+') AS asked FROM event WHERE kind = 'arguments') WHERE asked <> '';
