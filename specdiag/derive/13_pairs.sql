-- Runs beside each other.

CREATE TEMP TABLE beside AS
SELECT c.run, c.against, c.against IN (SELECT run FROM stated) AND c.run NOT IN (SELECT run FROM stated) AS declared,
    c.run IN (SELECT run FROM stated) AND c.against NOT IN (SELECT run FROM stated) AS reversed
FROM (
    FROM alike
    UNION SELECT r.run, s.run FROM run r JOIN stated s ON s.run <> r.run
    UNION SELECT s.run, r.run FROM run r JOIN stated s ON s.run <> r.run
) c JOIN run a ON a.run = c.run JOIN run b ON b.run = c.against
WHERE declared OR reversed OR a.model IS NOT DISTINCT FROM b.model;

-- What a run was started with, the last word on each key. A whole that is listed in parts as well is
-- left out, and so is what cannot matter.
CREATE TEMP TABLE told AS
WITH command_line AS (  -- llama.cpp prints its arguments as they were typed
    SELECT run, source, line, unnest(regexp_extract_all(detail, ' --?([a-zA-Z][a-zA-Z0-9-]*)', 1)) AS key,
        unnest(regexp_extract_all(detail, ' --?[a-zA-Z][a-zA-Z0-9-]*(?:[ =](-?[0-9][^ ]*|[^- ][^ ]*))?', 1)) AS value
    FROM event WHERE kind = 'arguments' AND detail IS NOT NULL
),
said AS (
    SELECT run, lower(key) AS key, arg_max(value, (source, line)) AS value
    FROM (SELECT run, source, line, key, value FROM config
          UNION ALL SELECT run, source, line, replace(key, '-', '_'), coalesce(nullif(value, ''), 'true') FROM command_line)
    WHERE run IN (SELECT run FROM beside) GROUP BY run, lower(key)
)
SELECT run, key,
    CASE WHEN lower(value) IN ('none', 'null', '', '[]', '{}') THEN NULL WHEN lower(value) IN ('true', 'false') THEN lower(value)
         ELSE regexp_replace(regexp_replace(value, '^torch\.', ''), '^(-?[0-9]+)\.0+$', '\1') END AS value
FROM said s
WHERE NOT EXISTS (FROM said part WHERE part.run = s.run AND starts_with(part.key, s.key || '.'))
    AND NOT regexp_matches(key, '(?:^|_)(?:host|port|ports|addr|address|ip|url|urls|seed|key|keys|timeout|dir|folder|socket|buckets|token|pid|uuid|(?:gpu|worker|node|run|request|session)_id|time|ts|date|name)$')
    AND NOT regexp_matches(key, '^(?:_|log_|ssl_|otlp_|trace_|metrics|uvicorn|grpc|http|file_storage|watchdog|watermark|warmups|crash_|debug_|enable_metrics|enable_trace|enable_log|enable_request|disable_log|disable_uvicorn|max_log|show_time|collect_|export_|stat_loggers|gc_|bucket_|tokenizer_metrics|extra_metric|startup_|launch_|internal_|free_gb|served_|model_tag|weight_version|api_|admin_|allow_|chat_template|tool_|reasoning_parser|stream_interval|node_rank|base_gpu|nccl_port|dist_|status|record$|schema$|run$|clock$|requested|effective|detail)')
    AND NOT (key = 'tokenizer_path' OR key = 'tokenizer');

-- The versions of what was running, however they are told.
CREATE TEMP TABLE version AS
WITH named AS (
    SELECT run, lower(key) AS key, arg_max(value, (source, line)) AS value FROM config
    WHERE regexp_matches(lower(key), '^(?:version|code_version|sglang|vllm|torch|sgl.kernel|sgl_kernel|flashinfer.*|triton|transformers|xgrammar|cuda.*version|nvidia.*|driver.*)$')
        AND regexp_matches(value, '^v?[0-9]') GROUP BY run, lower(key)
    UNION ALL
    SELECT run, 'version', any_value(version) FROM benchmark WHERE version IS NOT NULL GROUP BY run
)
SELECT run, key, any_value(value) AS value, list_transform(regexp_extract_all(any_value(value), '[0-9]+')[:4], lambda n: TRY_CAST(n AS BIGINT)) AS number
FROM named GROUP BY run, key;

INSERT INTO difference
WITH size AS (SELECT run, count(*) AS keys FROM told GROUP BY run),
varied AS (  -- keys with one value in every run cannot differ
    SELECT key FROM told GROUP BY key
    HAVING count(DISTINCT coalesce(value, '')) > 1 OR count(*) < (SELECT count(*) FROM size)
),
few AS (SELECT * FROM told WHERE key IN (SELECT key FROM varied)),
-- A list of all arguments has whatever its version knows: what is missing there says nothing but that
-- the versions differ. A list of those that were given says that the rest was left as it is.
usual(key, value) AS (  -- what an engine that prints more than it was given says of the rest
    VALUES ('tensor_parallel_size', '1'), ('pipeline_parallel_size', '1'), ('data_parallel_size', '1'), ('kv_cache_dtype', 'auto'), ('enforce_eager', 'false'), ('dtype', 'bfloat16'), ('device', 'cuda')
),
compared AS (
    SELECT b.run, b.against, x.key, x.value, y.value AS other
    FROM beside b JOIN few x ON x.run = b.run JOIN few y ON y.run = b.against AND y.key = x.key
    WHERE x.value IS DISTINCT FROM y.value
    UNION ALL
    SELECT b.run, b.against, x.key, x.value, NULL
    FROM beside b JOIN few x ON x.run = b.run JOIN size s ON s.run = b.run JOIN size o ON o.run = b.against
    LEFT JOIN few y ON y.run = b.against AND y.key = x.key
    WHERE y.run IS NULL AND x.value IS NOT NULL AND s.keys < 40 AND o.keys < 40 AND (x.key, x.value) NOT IN (FROM usual)
    UNION ALL
    SELECT b.run, b.against, y.key, NULL, y.value
    FROM beside b JOIN few y ON y.run = b.against JOIN size s ON s.run = b.run JOIN size o ON o.run = b.against
    LEFT JOIN few x ON x.run = b.run AND x.key = y.key
    WHERE x.run IS NULL AND y.value IS NOT NULL AND s.keys < 40 AND o.keys < 40 AND (y.key, y.value) NOT IN (FROM usual)
),
-- What a server prints of itself; other sources list other things beside the arguments.
printed AS (SELECT DISTINCT run, lower(key) AS key FROM config JOIN source USING (source) WHERE format LIKE '%\_server' ESCAPE '\'),
full_list AS (SELECT run FROM printed GROUP BY run HAVING count(*) >= 40),
options AS (
    SELECT b.run, b.against,
        list_sort(list(x.key) FILTER (NOT EXISTS (FROM printed y WHERE y.run = b.against AND y.key = x.key))) AS only_here
    FROM beside b JOIN told x ON x.run = b.run JOIN printed p ON p.run = x.run AND p.key = x.key
    WHERE b.run IN (FROM full_list) AND b.against IN (FROM full_list)
    GROUP BY b.run, b.against
)
SELECT run, against, key, value, other,
    CASE
        WHEN regexp_matches(key, '^(?:version|code_version|sglang|vllm|torch|sgl.kernel|flashinfer.*|triton|transformers|xgrammar|nvidia.*|cuda.*version|driver.*)$') THEN 'version'
        WHEN regexp_matches(key, '^(?:m|model|model_path|target|revision|load_format|json_model_override.*|hf_overrides.*|context_length|max_model_len)$') THEN 'model'
        WHEN regexp_matches(key, 'quant|^dtype$|kv_cache_dtype|_precision$') AND NOT regexp_matches(key, 'spec|draft') THEN 'quantisation'
        WHEN regexp_matches(key, '^(?:tp|pp|dp|ep|cp|dcp|attn_[a-z]+|moe_[a-z]+)_size$|parallel|dp_attention|dp_lm_head|disaggregation_mode|^nnodes$|a2a|deepep_mode|two_batch_overlap') THEN 'layout'
        WHEN regexp_matches(key, '^(?:md|cd|ngld|devd)$|spec|draft|^method$|^algorithm$|^budget$|^top_k$|^block$|^depth_|^mask_id$|^tap_|^window|eagle') THEN 'draft'
        WHEN regexp_matches(key, '^temp$|temperature|top_p|min_p|sampling|generation_config|accept_rule|penalty|deterministic') THEN 'sampling'
        WHEN regexp_matches(key, 'backend|graph|eager|compile|overlap|kernel|fusion') THEN 'kernel'
        WHEN regexp_matches(key, 'mem_|memory|max_|_tokens|page_size|chunked|schedule|radix|prefix_cach|num_seqs|block_size|cache|^(?:c|ctx_size|np|b|ub|ngl|n_gpu_layers|t|threads)$') THEN 'capacity'
        ELSE 'other'
    END
FROM compared
UNION ALL
SELECT b.run, b.against, x.key, x.value, y.value, 'version'
FROM beside b JOIN version x ON x.run = b.run JOIN version y ON y.run = b.against AND y.key = x.key
WHERE x.value <> y.value AND x.key NOT IN (SELECT key FROM told)
UNION ALL
SELECT b.run, b.against, 'options', array_to_string(x.only_here[:3], ', '), array_to_string(y.only_here[:3], ', '), 'version'
FROM beside b JOIN options x USING (run, against) JOIN options y ON y.run = b.against AND y.against = b.run
WHERE len(x.only_here) > 0 OR len(y.only_here) > 0
UNION ALL
SELECT b.run, b.against, 'definition of accept rate', x.rate_formula, y.rate_formula, 'version'
FROM beside b JOIN run x ON x.run = b.run JOIN run y ON y.run = b.against WHERE x.rate_formula <> y.rate_formula;

-- Prompts, as far as a run shows them: their texts, or how many and how long they are. A start-up
-- request of a few tokens is none.
INSERT INTO pairing
WITH prompt AS (
    SELECT run, 'prefill' AS seen, new_tokens + coalesce(cached_tokens, 0) AS tokens, new_requests AS prompts, NULL AS text FROM prefill WHERE new_requests > 0 AND new_tokens + coalesce(cached_tokens, 0) > 12
    UNION ALL
    SELECT run, 'request', prompt_tokens, 1, NULL FROM request WHERE prompt_tokens > 0
    UNION ALL
    SELECT run, 'text', NULL, 1, prompt FROM request WHERE prompt IS NOT NULL
    UNION ALL
    SELECT run, 'step', min(ctx_len), 1, NULL FROM step WHERE request IS NOT NULL AND NOT coalesce(warmup, false) GROUP BY run, request HAVING min(ctx_len) > 0
    UNION ALL
    SELECT run, 'benchmark', input_tokens, completed, NULL FROM benchmark WHERE input_tokens > 0 AND completed > 0
),
counted AS (SELECT run, seen, coalesce(text, tokens::VARCHAR) AS what, sum(prompts) AS prompts, sum(tokens) AS tokens FROM prompt WHERE run IN (SELECT run FROM beside) GROUP BY ALL),
total AS (SELECT run, seen, sum(prompts) AS prompts, sum(tokens) / sum(prompts) AS length FROM counted GROUP BY run, seen),
-- Where each prompt is seen for itself, other prompts that are as long on average are told apart.
lengths AS (
    SELECT run, seen, max(prompts) = 1 AS single, quantile_cont(tokens, [0.25, 0.5, 0.75]) AS quartiles
    FROM prompt WHERE tokens IS NOT NULL AND run IN (SELECT run FROM beside) GROUP BY run, seen
),
asked AS MATERIALIZED (  -- or prompts of all runs would be compared with each other first
    SELECT b.run, b.against, x.seen, x.what, x.prompts FROM beside b JOIN counted x ON x.run = b.run
),
shared AS (
    SELECT x.run, x.against, x.seen, sum(least(x.prompts, y.prompts)) AS prompts
    FROM asked x JOIN counted y ON y.run = x.against AND y.seen = x.seen AND y.what = x.what GROUP BY ALL
),
judged AS (
    SELECT b.run, b.against, x.seen,
        CASE
            WHEN x.seen = 'text' THEN coalesce(s.prompts, 0) >= 0.8 * least(x.prompts, y.prompts)
            WHEN least(x.prompts, y.prompts) < 3 AND x.seen <> 'step' THEN NULL
            WHEN greatest(x.length, y.length) <= 1.02 * least(x.length, y.length) AND greatest(x.prompts, y.prompts) <= 1.1 * least(x.prompts, y.prompts)
                AND coalesce(NOT (p.single AND q.single) OR list_bool_and(list_transform(list_zip(p.quartiles, q.quartiles), lambda one: greatest(one[1], one[2]) <= 1.05 * least(one[1], one[2]))), true) THEN true
            WHEN coalesce(s.prompts, 0) >= 0.5 * least(x.prompts, y.prompts) AND greatest(x.length, y.length) <= 1.1 * least(x.length, y.length) THEN true
            WHEN coalesce(s.prompts, 0) < 0.5 * least(x.prompts, y.prompts) AND greatest(x.length, y.length) > 1.1 * least(x.length, y.length) THEN false
        END AS same
    FROM beside b JOIN total x ON x.run = b.run JOIN total y ON y.run = b.against AND y.seen = x.seen
    LEFT JOIN shared s ON s.run = b.run AND s.against = b.against AND s.seen = x.seen
    LEFT JOIN lengths p ON p.run = b.run AND p.seen = x.seen LEFT JOIN lengths q ON q.run = b.against AND q.seen = x.seen
),
best AS (  -- texts say more than lengths, lengths of requests more than those of batches
    SELECT run, against, arg_min(same, list_position(['text', 'request', 'step', 'benchmark', 'prefill'], seen)) FILTER (same IS NOT NULL) AS same_prompts
    FROM judged GROUP BY run, against
),
aged AS (
    SELECT b.run, b.against, arg_min(sign(CASE WHEN x.number > y.number THEN 1 WHEN x.number < y.number THEN -1 ELSE 0 END),
        list_position(['version', 'code_version', 'sglang', 'vllm', 'sgl-kernel', 'torch'], x.key)) FILTER (x.number <> y.number) AS order_of_versions
    FROM beside b JOIN version x ON x.run = b.run JOIN version y ON y.run = b.against AND y.key = x.key GROUP BY b.run, b.against
)
SELECT b.run, b.against, b.declared,
    CASE
        WHEN b.declared THEN true WHEN b.reversed THEN false
        WHEN a.order_of_versions <> 0 THEN a.order_of_versions > 0
        WHEN x.rate_formula <> y.rate_formula THEN x.rate_formula = 'drafts_per_proposed'
        WHEN x.started <> y.started THEN x.started > y.started
    END,
    m.same_prompts
FROM beside b JOIN run x ON x.run = b.run JOIN run y ON y.run = b.against
LEFT JOIN best m ON m.run = b.run AND m.against = b.against
LEFT JOIN aged a ON a.run = b.run AND a.against = b.against;

INSERT INTO hindrance
WITH hardware AS (
    SELECT run, string_agg(DISTINCT value, ', ' ORDER BY value) FILTER (key = 'device_name') AS card,
        max(value) FILTER (key = 'device') AS device,
        max(TRY_CAST(value AS DOUBLE)) FILTER (key = 'free_gb_at_start') AS free_gb
    FROM config WHERE key IN ('device_name', 'device', 'free_gb_at_start') GROUP BY run
),
program AS (
    SELECT run, max(regexp_extract(format, '^(.*)_server$', 1)) AS program FROM (SELECT DISTINCT run, source FROM part) JOIN source USING (source)
    WHERE format LIKE '%\_server' ESCAPE '\' GROUP BY run HAVING count(DISTINCT format) = 1
),
measured AS (
    SELECT run, 'request' AS seen, avg(completion_tokens) AS tokens, count(*) AS answers FROM request WHERE completion_tokens > 0 GROUP BY run
    UNION ALL
    SELECT run, 'benchmark', sum(output_tokens) / sum(completed), sum(completed) FROM benchmark WHERE output_tokens > 0 AND completed > 0 GROUP BY run
),
dataset AS (SELECT run, string_agg(DISTINCT dataset, ', ' ORDER BY dataset) AS dataset FROM benchmark WHERE dataset IS NOT NULL GROUP BY run)
SELECT p.run, p.against, 'model', x.model, y.model
FROM pairing p JOIN run x ON x.run = p.run JOIN run y ON y.run = p.against
WHERE regexp_extract(lower(x.model), '[^/\\]+$') <> regexp_extract(lower(y.model), '[^/\\]+$')
UNION ALL
SELECT p.run, p.against, 'hardware',
    CASE WHEN x.card <> y.card THEN x.card WHEN x.device <> y.device THEN x.device ELSE format('{:.1f} GB free at start', x.free_gb) END,
    CASE WHEN x.card <> y.card THEN y.card WHEN x.device <> y.device THEN y.device ELSE format('{:.1f} GB free at start', y.free_gb) END
FROM pairing p JOIN hardware x ON x.run = p.run JOIN hardware y ON y.run = p.against
WHERE x.card <> y.card OR x.device <> y.device
    OR (coalesce(x.card = y.card, false) IS false AND greatest(x.free_gb, y.free_gb) > 1.25 * least(x.free_gb, y.free_gb))
UNION ALL
SELECT p.run, p.against, 'server', x.program, y.program
FROM pairing p JOIN program x ON x.run = p.run JOIN program y ON y.run = p.against WHERE x.program <> y.program
UNION ALL
SELECT p.run, p.against, 'prompts', x.dataset, y.dataset
FROM pairing p LEFT JOIN dataset x ON x.run = p.run LEFT JOIN dataset y ON y.run = p.against
WHERE x.dataset <> y.dataset OR p.same_prompts IS false
UNION ALL
SELECT p.run, p.against, 'length', format('{:,.0f} tokens an answer', x.tokens), format('{:,.0f}', y.tokens)
FROM pairing p JOIN measured x ON x.run = p.run JOIN measured y ON y.run = p.against AND y.seen = x.seen
WHERE greatest(x.tokens, y.tokens) > 1.5 * least(x.tokens, y.tokens) AND least(x.answers, y.answers) >= 5
QUALIFY row_number() OVER (PARTITION BY p.run, p.against ORDER BY x.seen DESC) = 1;

DROP TABLE alike;
DROP TABLE beside;
DROP TABLE told;
DROP TABLE version;
