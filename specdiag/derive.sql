-- From the rows as parsed (schema raw) to the tables of schema.sql: every convention is converted
-- here, once. `part` says which run a (source, life, arm) belongs to; `place` orders its files.

-- What a run was asked to do, from its own arguments and from the first things it says.
CREATE TEMP TABLE asked AS
WITH argument AS (
    SELECT run, key, arg_max(value, line) AS value
    FROM config WHERE value NOT IN ('None', 'null', '') GROUP BY run, key
),
hint AS (
    SELECT run, 'draft_tokens' AS what, max("after") AS value FROM event
    WHERE kind = 'draft_tokens' AND "after" IS NOT NULL GROUP BY run
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
    max(upper(a.value)) FILTER (a.key IN ('speculative_algorithm', 'method', 'algorithm')) AS algorithm,
    bool_or(a.key SIMILAR TO '.*(shadow_linear|shadow-linear).*' AND a.value ILIKE 'true') AS shadow,
    bool_or(a.key SIMILAR TO '.*(ddtree|tree).*' AND a.key LIKE 'spec%' AND a.value NOT ILIKE 'false') AS tree_flag,
    max(a.value) FILTER (a.key IN ('model_path', 'model', 'target')) AS model,
    max(a.value) FILTER (a.key IN ('speculative_draft_model_path', 'speculative_model', 'draft_model', 'drafter')) AS draft_model,
    TRY_CAST(max(a.value) FILTER (a.key = 'speculative_num_draft_tokens') AS INTEGER) AS draft_tokens,
    TRY_CAST(max(a.value) FILTER (a.key = 'num_speculative_tokens') AS INTEGER) + 1 AS drafted_plus_one,
    TRY_CAST(max(a.value) FILTER (a.key = 'speculative_num_steps') AS INTEGER) AS draft_steps,
    TRY_CAST(max(a.value) FILTER (a.key SIMILAR TO 'spec.*(topk|top_k)' OR a.key = 'top_k') AS INTEGER) AS top_k,
    TRY_CAST(max(a.value) FILTER (a.key SIMILAR TO 'spec.*(tree_budget|ddtree_budget)' OR a.key = 'budget') AS INTEGER) AS budget,
    TRY_CAST(max(a.value) FILTER (a.key IN ('speculative_dflash_block_size', 'block')) AS INTEGER) AS block,
    TRY_CAST(max(a.value) FILTER (a.key = 'page_size') AS INTEGER) AS page_size,
    TRY_CAST(max(a.value) FILTER (a.key = 'decode_log_interval') AS INTEGER) AS log_interval,
    max(h.value) FILTER (h.what = 'draft_tokens')::INTEGER AS hinted_draft_tokens,
    max(h.value) FILTER (h.what = 'verify_width')::INTEGER AS verify_width,
    max(h.value) FILTER (h.what = 'block')::INTEGER AS hinted_block,
    max(h.value) FILTER (h.what = 'budget')::INTEGER AS hinted_budget
FROM (SELECT DISTINCT run FROM part)
LEFT JOIN argument a USING (run)
LEFT JOIN hint h USING (run)
GROUP BY run;

-- Steps -----------------------------------------------------------------------------------------

-- Where a trace lists depths of the nodes only but parents of all rows, row 0 is put in front.
-- Several threads would fill pieces of their own and copy them together: twice the work.
SET threads = 1;
INSERT INTO step BY NAME
WITH ended AS (
    SELECT arg_max(s.number, p.place * 1000000000000 + s.line) AS number
    FROM raw.step s JOIN part p ON p.source = s.source AND p.life = s.life AND p.arm = coalesce(s.arm, '')
    GROUP BY p.run, s.request
)
SELECT COLUMNS(lambda name: name NOT IN getvariable('empty_step_columns'))
FROM (
    SELECT p.run, s.* EXCLUDE (number, life, arm) REPLACE (
        CASE WHEN len(s.depths) = len(s.parents) - 1 THEN list_concat([0], s.depths) ELSE s.depths END AS depths,
        CASE WHEN len(s.node_tokens) = len(s.parents) - 1
             THEN list_concat([s.root], s.node_tokens) ELSE s.node_tokens END AS node_tokens,
        CASE WHEN s.parents IS NOT NULL THEN len(s.parents) - 1 ELSE s.nodes END AS nodes,
        s.finish IS NOT NULL OR e.number IS NOT NULL AS last
    )
    FROM raw.step s
    JOIN part p ON p.source = s.source AND p.life = s.life AND p.arm = coalesce(s.arm, '')
    LEFT JOIN ended e ON e.number = s.number
);
RESET threads;

-- Decode lines ------------------------------------------------------------------------------------

-- What its neighbours say of a report, from the few columns that it takes.
-- `prefill_line` is the last prompt that the same rank computed before it. A report covers the time
-- since the one before it, idle time included: one that is more than three times as slow a token as
-- both neighbours, or as the next where it is the first, spans a gap.
CREATE TEMP TABLE decode_flag AS
WITH narrow AS (
    SELECT p.run, p.place, d.source, d.line, d.number, coalesce(d.rank, '') AS rank_key, d.running,
        coalesce(d.complete, true) AND coalesce(d.running > 0 AND d.tokens_per_s > 0, false) AS sound,
        CASE WHEN d.running > 0 AND d.tokens > 0 THEN d.tokens / d.running END AS ctx_len,
        CASE WHEN d.running > 0 AND d.tokens_per_s > 0 THEN d.running / d.tokens_per_s END AS token_s
    FROM raw.decode d JOIN part p ON p.source = d.source AND p.life = d.life AND p.arm = ''
),
neighbour AS (
    SELECT n.number, n.source, n.sound, n.running, n.ctx_len, n.token_s, f.line AS prefill_line,
        row_number() OVER w AS nth,
        lag(n.token_s) OVER w AS token_s_before,
        lead(n.token_s) OVER w AS token_s_after,
        lag(n.ctx_len) OVER w AS ctx_before,
        lag(n.running) OVER w AS running_before,
        lag(n.line) OVER w AS line_before,
        lag(n.source) OVER w AS source_before
    FROM narrow n
    ASOF LEFT JOIN (SELECT source, coalesce(rank, '') AS rank_key, line FROM raw.prefill) f
        ON f.source = n.source AND f.rank_key = n.rank_key AND f.line <= n.line
    WINDOW w AS (PARTITION BY n.run, n.rank_key ORDER BY n.place, n.line, n.number)
),
marked AS (
    SELECT number, sound, running = running_before AS same_batch,
        coalesce(prefill_line > CASE WHEN source_before = source THEN line_before ELSE 0 END, false) AS after_prefill,
        coalesce(
            nth = 1
            OR (token_s > 3 * token_s_after AND (token_s_before IS NULL OR token_s > 3 * token_s_before))
            OR (token_s_after IS NULL AND token_s > 3 * token_s_before AND NOT ctx_len > 1.5 * ctx_before),
            false
        ) AS idle
    FROM neighbour
)
SELECT number, after_prefill, idle,
    sound AND NOT idle AS usable,
    sound AND NOT idle AND NOT after_prefill AND coalesce(same_batch, false) AS steady
FROM marked;

INSERT INTO decode BY NAME
WITH speculating AS (
    SELECT p.run, bool_or(d.accept_len IS NOT NULL) OR any_value(coalesce(a.algorithm, 'NONE')) <> 'NONE' AS speculates
    FROM raw.decode d JOIN part p ON p.source = d.source AND p.life = d.life AND p.arm = ''
    JOIN asked a ON a.run = p.run
    GROUP BY p.run
)
SELECT p.run, d.* EXCLUDE (number, life, arm) REPLACE (
    coalesce(d.complete, true) AS complete,
    coalesce(d.accept_len, CASE WHEN NOT s.speculates THEN 1 END) AS commit_len,
    coalesce(d.accept_len - 1, CASE WHEN NOT s.speculates THEN 0 END) AS accepted_drafts,
    CASE WHEN d.running > 0 AND d.tokens > 0 THEN d.tokens / d.running END AS ctx_len,
    CASE WHEN d.running > 0 AND d.tokens_per_s > 0
         THEN 1000 * d.running * coalesce(d.accept_len, CASE WHEN NOT s.speculates THEN 1 END) / d.tokens_per_s END AS step_ms,
    f.after_prefill AS after_prefill, f.idle AS idle, f.usable AS usable, f.steady AS steady
)
FROM raw.decode d
JOIN part p ON p.source = d.source AND p.life = d.life AND p.arm = ''
JOIN speculating s ON s.run = p.run
JOIN decode_flag f ON f.number = d.number;

DROP TABLE decode_flag;

-- Requests ----------------------------------------------------------------------------------------

-- The first token comes from prefill, not from a step.
INSERT INTO request BY NAME
SELECT p.run, r.* EXCLUDE (number, life, arm)
REPLACE (CASE WHEN r.verify_steps > 0 AND r.completion_tokens > 0
              THEN (r.completion_tokens - 1) / r.verify_steps END AS commit_len)
FROM raw.request r JOIN part p ON p.source = r.source AND p.life = r.life AND p.arm = coalesce(r.arm, '');

-- Metrics -----------------------------------------------------------------------------------------

-- A scrape is the n-th time that a file has a series. Its time is that of its samples, or of the
-- last line above it that is nothing but a time.
INSERT INTO metric BY NAME
WITH placed AS (
    SELECT p.run, m.* EXCLUDE (life, arm), m.name = 'scrape' AND m.value IS NULL AS clock
    FROM raw.metric m JOIN part p ON p.source = m.source AND p.life = m.life AND p.arm = coalesce(m.arm, '')
),
timed AS (
    SELECT * REPLACE (
        coalesce(time, last_value(CASE WHEN clock THEN time END IGNORE NULLS) OVER (PARTITION BY source ORDER BY line ROWS UNBOUNDED PRECEDING)) AS time,
        coalesce(regexp_replace(device, '^GPU ', ''), nullif(regexp_extract(labels, '(?:^|,)gpu="([0-9]+)"', 1), '')) AS device
    )
    FROM placed
),
counted AS (
    SELECT * EXCLUDE (clock) REPLACE (row_number() OVER w AS scrape), value - lag(value) OVER w AS growth,
        date_diff('millisecond', lag(time) OVER w, time) / 1000 AS seconds
    FROM timed WHERE NOT clock WINDOW w AS (PARTITION BY source, name, labels, device ORDER BY line, number)
)
SELECT * EXCLUDE (number, growth, seconds) REPLACE (
    CASE WHEN name SIMILAR TO '.*_(total|bucket|sum|count)' AND growth >= 0 AND seconds > 0 THEN growth / seconds END AS per_s
)
FROM counted;

INSERT INTO histogram BY NAME
WITH cumulated AS (
    SELECT *, regexp_replace(name, '_(bucket|sum|count)$', '') AS histogram, regexp_extract(name, '_(bucket|sum|count)$', 1) AS part,
        trim(regexp_replace(labels, '(^|,)le="[^"]*"', ''), ',') AS others,
        TRY_CAST(replace(regexp_extract(labels, '(?:^|,)le="([^"]*)"', 1), '+Inf', 'inf') AS DOUBLE) AS le,
        lag(value) OVER (PARTITION BY source, name, labels ORDER BY scrape) AS before
    FROM metric WHERE regexp_matches(name, '_(bucket|sum|count)$')
),
since AS (  -- a counter that fell was started again
    SELECT * REPLACE (CASE WHEN value >= before THEN value - before ELSE value END AS value) FROM cumulated
),
bucket AS (
    SELECT *, coalesce(lag(le) OVER w, 0) AS low, coalesce(lag(value) OVER w, 0) AS below, max(value) OVER (PARTITION BY source, histogram, others, scrape) AS total
    FROM since WHERE part = 'bucket' AND le IS NOT NULL WINDOW w AS (PARTITION BY source, histogram, others, scrape ORDER BY le)
),
inside AS (
    SELECT *, [CASE WHEN value >= q * total THEN CASE WHEN isinf(le) OR value <= below THEN low ELSE low + (le - low) * (q * total - below) / (value - below) END END FOR q IN [0.5, 0.9, 0.99]] AS reached
    FROM bucket WHERE total > 0
),
summed AS (
    SELECT source, histogram, others, scrape, max(value) FILTER (part = 'sum') / nullif(max(value) FILTER (part = 'count'), 0) AS mean
    FROM since WHERE part <> 'bucket' GROUP BY source, histogram, others, scrape
)
SELECT i.run, i.source, min(i.line) AS line, min(i.time) AS time, i.histogram AS name, i.others AS labels, i.scrape, any_value(i.total) AS count, any_value(s.mean) AS mean,
    arg_min(reached[1], le) AS p50, arg_min(reached[2], le) AS p90, arg_min(reached[3], le) AS p99
FROM inside i LEFT JOIN summed s USING (source, histogram, others, scrape)
GROUP BY i.run, i.source, i.histogram, i.others, i.scrape;

-- Acceptance as counted by a server whose log and records do not tell it: one row a scrape, of what
-- came since the scrape before (the first: since the start). vLLM counts drafts, that is steps;
-- before its V1 engine only tokens. SGLang shows the last interval, and keeps it while it idles.
INSERT INTO acceptance BY NAME
WITH silent AS (
    SELECT DISTINCT run FROM part WHERE run NOT IN (SELECT run FROM decode WHERE accept_len IS NOT NULL)
        AND run NOT IN (SELECT run FROM acceptance)
),
series AS (
    SELECT run, source, line, time, scrape, per_s, regexp_replace(name, '^(vllm|sglang)[:_]|_total$', '', 'g') AS name, name ILIKE 'vllm%' AS vllm,
        nullif(regexp_extract(labels, '(?:^|,)(?:engine|dp_rank)="([^"]*)"', 1), '') AS rank,
        TRY_CAST(nullif(regexp_extract(labels, '(?:^|,)position="([0-9]+)"', 1), '') AS INTEGER) AS position,
        value, lag(value) OVER (PARTITION BY source, name, labels ORDER BY scrape) AS before
    FROM metric WHERE run IN (FROM silent) AND regexp_matches(name, '^(vllm|sglang)[:_](spec_|gen_throughput|generation_tokens)')
        AND coalesce(regexp_extract(labels, '(?:^|,)tp_rank="([^"]*)"', 1), '') IN ('', '0')
),
since AS (
    SELECT *, CASE WHEN value >= before THEN value - before ELSE value END AS growth FROM series
),
counted AS (
    SELECT run, source, scrape, rank, min(line) AS line, min(time) AS time,
        sum(growth) FILTER (name = 'spec_decode_num_drafts') AS steps,
        sum(growth) FILTER (name = 'spec_decode_num_accepted_tokens') AS accepted,
        sum(growth) FILTER (name = 'spec_decode_num_draft_tokens') AS drafted,
        list(growth ORDER BY position) FILTER (name = 'spec_decode_num_accepted_tokens_per_pos' AND position IS NOT NULL) AS positions,
        max(per_s) FILTER (name = 'generation_tokens') AS tokens_per_s
    FROM since WHERE vllm GROUP BY run, source, scrape, rank
)
SELECT run, source, line, time, rank, steps, accepted::BIGINT AS accepted_tokens, drafted::BIGINT AS drafted_tokens, accepted / drafted AS accept_rate,
    1 + accepted / steps AS commit_len, CASE WHEN steps > 0 THEN list_transform(positions, lambda n: n / steps) END AS positions, tokens_per_s
FROM counted WHERE drafted > 0 AND accepted IS NOT NULL
UNION ALL BY NAME
SELECT run, source, min(line) AS line, min(time) AS time, rank,
    max(value) FILTER (name = 'spec_accept_length') AS commit_len, max(value) FILTER (name = 'spec_accept_rate') AS accept_rate,
    nullif(max(value) FILTER (name = 'gen_throughput'), 0) AS tokens_per_s
FROM since WHERE NOT vllm GROUP BY run, source, scrape, rank
HAVING max(value) FILTER (name = 'spec_accept_length') >= 1
    AND (scrape = 1 OR coalesce(bool_or(value <> before) FILTER (name IN ('spec_accept_length', 'spec_accept_rate')), true));

-- Benchmarks --------------------------------------------------------------------------------------

-- Where nothing speculates, clients write -1, 0 or 1 for the accept length.
UPDATE benchmark SET
    accept_len = CASE
        WHEN accept_len > 0 AND NOT coalesce(draft_tokens = 0, false) THEN accept_len
        WHEN accept_len IS NULL AND draft_tokens > 0 THEN request_tokens_per_s * step_ms / 1000  -- how such a client made the rate
    END,
    algorithm = CASE WHEN draft_tokens = 0 THEN 'NONE' ELSE algorithm END,
    tokens_per_s = coalesce(tokens_per_s, request_tokens_per_s * max_concurrency),
    step_ms = coalesce(step_ms, 1000 * step_s),
    mean_e2e_ms = coalesce(mean_e2e_ms, 1000 * mean_e2e_s), median_e2e_ms = coalesce(median_e2e_ms, 1000 * median_e2e_s);

-- Problems ----------------------------------------------------------------------------------------

-- First error wins, in the order of the files and their lines. A server that only shows prompts and
-- no sign of a start is a cut from the middle of a log.
INSERT INTO problem BY NAME
WITH placed AS (
    SELECT p.run, p.place, b.* EXCLUDE (number, life, arm) FROM raw.problem b
    JOIN part p ON p.source = b.source AND p.life = b.life AND p.arm = ''
),
moment AS (
    SELECT e.run, min(p.place) AS place, e.source, e.line, e.kind FROM event e
    JOIN part p ON p.run = e.run AND p.source = e.source GROUP BY e.run, e.source, e.line, e.kind
    UNION ALL
    SELECT d.run, min(p.place), d.source, d.line, 'decode' FROM decode d
    JOIN part p ON p.run = d.run AND p.source = d.source GROUP BY d.run, d.source, d.line
),
lived AS (
    SELECT run,
        min({'place': place, 'line': line}) FILTER (kind IN ('ready', 'decode')) AS first_served,
        max({'place': place, 'line': line}) FILTER (kind IN ('ready', 'decode')) AS last_served,
        max({'place': place, 'line': line}) FILTER (kind IN ('weights', 'capacity', 'capture_begin', 'capture_sizes', 'capture_end')) AS last_progress
    FROM moment GROUP BY run
),
cut AS (
    SELECT DISTINCT run FROM prefill
    WHERE run NOT IN (SELECT run FROM moment WHERE kind IN ('weights', 'capacity', 'capture_begin', 'capture_sizes', 'capture_end'))
        AND run NOT IN (SELECT run FROM asked WHERE model IS NOT NULL)
),
judged AS (
    SELECT b.* REPLACE (
        b.run NOT IN (SELECT run FROM cut) AND coalesce({'place': b.place, 'line': b.line} < l.first_served, true) AS at_start,
        coalesce({'place': b.place, 'line': b.line} > l.last_served, true) AS fatal,
        coalesce(b.message, '') = '' OR b.type IN ('[sgl_kernel]', 'FATAL', 'Initialization failed', 'Engine core proc', 'KeyError',
            'DistBackendError', 'DistNetworkError', 'EOFError', 'BrokenPipeError', 'ConnectionError', 'ConnectionResetError',
            'ConnectionRefusedError', 'CancelledError')
        OR (b.type = 'error' AND b.message NOT LIKE '%: error: argument %')
        OR b.message LIKE '%_soundfile_data%'  -- soundfile looks for a bundled library first
        OR (b.type IN ('ImportError', 'ModuleNotFoundError') AND coalesce({'place': b.place, 'line': b.line} < l.last_progress, false)) AS follows
    )
    FROM placed b LEFT JOIN lived l USING (run)
)
SELECT * EXCLUDE (place) REPLACE (
    fatal AND NOT follows AND row_number() OVER (PARTITION BY run, fatal AND NOT follows ORDER BY place, line) = 1 AS cause
)
FROM judged;

-- Samples -----------------------------------------------------------------------------------------

INSERT INTO commit_sample
SELECT run, source, line, time, 'decode', running * coalesce((SELECT log_interval FROM asked a WHERE a.run = decode.run), 40),
    commit_len, ctx_len, running, tokens_per_s, NULL
FROM decode WHERE usable AND accept_len IS NOT NULL
UNION ALL
SELECT run, source, line, time, 'acceptance',
    coalesce(steps, CASE WHEN drafted_tokens > 0 AND commit_len > 1 THEN accepted_tokens / (commit_len - 1) END),
    coalesce(commit_len, accepted_drafts + 1), ctx_len, batch, tokens_per_s, drafted_tokens
FROM acceptance WHERE coalesce(commit_len, accepted_drafts) IS NOT NULL
UNION ALL
SELECT run, source, line, time, 'step', 1, coalesce(commit_len, accepted_drafts + 1), ctx_len, batch, tokens_per_s, nodes
FROM step WHERE coalesce(commit_len, accepted_drafts) IS NOT NULL AND NOT coalesce(warmup, false)
UNION ALL
SELECT run, source, line, time, 'request', verify_steps, commit_len, prompt_tokens, NULL, tokens_per_s, proposed_drafts
FROM request WHERE commit_len IS NOT NULL
UNION ALL
SELECT run, source, line, time, 'benchmark', output_tokens / accept_len, accept_len, NULL, concurrency, tokens_per_s, NULL
FROM benchmark WHERE accept_len > 0
UNION ALL
SELECT run, source, line, time, 'state', NULL, accept_len, NULL, NULL, tokens_per_s, NULL
FROM server_state WHERE accept_len >= 1;

INSERT INTO time_sample
SELECT run, source, line, 'step', true, ctx_len, batch, stage, ms
FROM (
    UNPIVOT (SELECT run, source, line, ctx_len, batch, step_ms AS step, draft_ms AS draft, topk_ms AS "top-k",
                    build_ms AS build, compile_ms AS compile, verify_ms AS verify, walk_ms AS walk,
                    commit_ms AS "commit"
             FROM step WHERE NOT coalesce(warmup, false))
    ON step, draft, "top-k", build, compile, verify, walk, "commit" INTO NAME stage VALUE ms
)
WHERE ctx_len > 0 AND ms > 0
UNION ALL
SELECT run, source, line, 'step', true, ctx_len, batch, replace(key, '_ms', ''), TRY_CAST(value AS DOUBLE)
FROM (SELECT run, source, line, ctx_len, batch, unnest(json_keys(other_ms)) AS key, other_ms
      FROM step WHERE other_ms IS NOT NULL),
     LATERAL (SELECT json_extract_string(other_ms, '$."' || key || '"') AS value)
WHERE ctx_len > 0 AND TRY_CAST(value AS DOUBLE) > 0
UNION ALL
SELECT run, source, line, 'acceptance', true, ctx_len, batch, stage, ms
FROM (
    UNPIVOT (SELECT run, source, line, ctx_len, batch, step_ms AS step, draft_ms AS draft, build_ms AS build,
                    verify_ms AS verify, commit_ms AS "commit" FROM acceptance)
    ON step, draft, build, verify, "commit" INTO NAME stage VALUE ms
)
WHERE ctx_len > 0 AND ms > 0;

-- A step without a time of its own takes the sum of its stages, if it has them.
INSERT INTO time_sample
SELECT run, source, line, kind, true, any_value(ctx_len), any_value(running), 'step', sum(ms)
FROM time_sample
WHERE (source, line) IN (
    SELECT (source, line) FROM step WHERE NOT coalesce(step_ms > 0, false)
    UNION ALL SELECT (source, line) FROM acceptance WHERE NOT coalesce(step_ms > 0, false)
)
GROUP BY run, source, line, kind
HAVING NOT bool_or(stage = 'step') AND count(*) >= 2;

INSERT INTO time_sample
SELECT run, source, line, 'decode', false, ctx_len, running, 'step', step_ms
FROM decode WHERE steady AND ctx_len > 0 AND step_ms > 0;

-- What a server adds up by itself is the last resort: wall clock, with prompts and idle time in it.
INSERT INTO time_sample
SELECT run, source, line, 'state', false, NULL, TRY_CAST(running AS DOUBLE), 'step', unnest(TRY_CAST(json_extract(step_times, '$."' || running || '"') AS DOUBLE[])) * 1000
FROM (SELECT run, source, line, step_times, unnest(json_keys(step_times)) AS running FROM server_state WHERE json_type(step_times) = 'OBJECT')
WHERE run NOT IN (SELECT run FROM time_sample);

-- Which definition of `accept rate` a log was written with -------------------------------------------

-- Each is fitted to the run's own pairs (L = accept len, r = rate), both printed with two decimals:
--   drafts_per_proposed   r = (L - 1) / (N - 1)   SGLang from 0.5.11
--   commit_per_proposed   r = L / N               SGLang 0.5.5 to 0.5.10
--   commit_per_step       r = L / (steps + 1)     SGLang 0.5.3 and 0.5.4; told from the one above
--                                                 only where the arguments say that N is another
CREATE TEMP TABLE rate_fit AS
WITH pair AS (
    SELECT DISTINCT run, accept_len AS l, accept_rate AS r FROM decode
    WHERE usable AND accept_len >= 1 AND accept_rate IS NOT NULL
),
width AS (
    SELECT run,
        round(median((l - 1) / r) FILTER (r >= 0.02)) AS drafts_width,
        round(median(l / r) FILTER (r >= 0.02)) AS commit_width,
        count(*) AS pairs
    FROM pair GROUP BY run
),
fitted AS (
    SELECT run, any_value(pairs) AS pairs, any_value(drafts_width) AS drafts_width, any_value(commit_width) AS commit_width,
        avg((abs(r - coalesce((l - 1) / drafts_width, 0)) <= 0.0051 + 0.0051 / coalesce(drafts_width, 1))::INTEGER) AS drafts_share,
        avg((abs(r - l / commit_width) <= 0.0051 + 0.0051 / commit_width)::INTEGER) AS commit_share
    FROM pair JOIN width USING (run) GROUP BY run
)
SELECT run,
    CASE
        WHEN drafts_share >= 0.95 AND drafts_share >= coalesce(commit_share, 0) THEN 'drafts_per_proposed'
        WHEN commit_share >= 0.95 THEN 'commit_per_proposed'
    END AS formula,
    drafts_width, commit_width, pairs
FROM fitted;

-- Facts of a run -------------------------------------------------------------------------------------

INSERT INTO run BY NAME
WITH accept AS (
    SELECT run, kind,
        sum(commit_len * coalesce(steps, 1)) / sum(coalesce(steps, 1)) AS accept_len,
        row_number() OVER (PARTITION BY run ORDER BY list_position(['step', 'decode', 'acceptance', 'request', 'benchmark', 'state'], kind)) AS nth
    FROM commit_sample GROUP BY run, kind
),
timed AS (  -- of computed times only where none was measured
    SELECT run, bool_or(measured) AS measured,
        coalesce(median(ms) FILTER (measured), median(ms)) AS step_ms,
        coalesce(min(ctx_len) FILTER (measured), min(ctx_len)) AS ctx_min,
        coalesce(max(ctx_len) FILTER (measured), max(ctx_len)) AS ctx_max
    FROM time_sample WHERE stage = 'step' GROUP BY run
),
decoded AS (  -- data-parallel ranks serve side by side; other ranks repeat each other
    SELECT run, sum(tokens_per_s) AS tokens_per_s, sum(running) AS running, min(ctx_min) AS ctx_min, max(ctx_max) AS ctx_max,
        sum(rows) AS rows, bool_or(accepts) AS accepts, min(started) AS started, max(ended) AS ended
    FROM (
        SELECT run, regexp_extract(coalesce(rank, ''), 'DP[0-9]+') AS replica,
            median(tokens_per_s) FILTER (usable) AS tokens_per_s, median(running) FILTER (usable) AS running,
            min(ctx_len) FILTER (usable) AS ctx_min, max(ctx_len) FILTER (usable) AS ctx_max, count(*) AS rows,
            bool_or(accept_len IS NOT NULL) AS accepts, min(time) AS started, max(time) AS ended
        FROM decode GROUP BY run, replica
    ) GROUP BY run
),
stepped AS (
    SELECT run, count(*) AS rows, mode(upper(coalesce(algorithm, mode))) AS executed,
        bool_or(CASE  -- the lists are looked at last
            WHEN mode ILIKE '%tree%' OR algorithm ILIKE '%tree%' OR mode ILIKE 'shadow%' THEN true
            WHEN budget IS NOT NULL AND NOT coalesce(mode, algorithm, '') SIMILAR TO '(?i).*(linear|chain|dflash).*' THEN true
            ELSE len(list_distinct(parents)) < len(parents)
        END) AS tree,
        bool_or(mode ILIKE 'shadow%') AS shadow,
        mode(upper(coalesce(algorithm_requested, algorithm, mode))) AS requested,
        max(commit_len) > 1 OR max(nodes) > 0 OR bool_or(
            coalesce(algorithm, mode) IS NOT NULL AND NOT coalesce(algorithm, mode) SIMILAR TO '(?i)(auto.*|none|plain|baseline)'
        ) AS speculates,
        mode(coalesce(budget_requested, budget)) AS budget, mode(top_k) AS top_k,
        sum(commit_len) / nullif(sum(step_ms), 0) * 1000 AS tokens_per_s, median(batch) AS running,
        min(ctx_len) AS ctx_min, max(ctx_len) AS ctx_max
    FROM step WHERE NOT coalesce(warmup, false) GROUP BY run
),
counted AS (
    SELECT run, mode(budget) AS budget, mode(top_k) AS top_k, count(*) AS rows, median(tokens_per_s) AS tokens_per_s
    FROM acceptance GROUP BY run
),
hooked AS (
    SELECT run, max(upper(name)) FILTER (kind = 'hook') AS executed,
        bool_or(kind = 'hook' AND name ILIKE '%tree%') AS tree, bool_or(kind = 'ready') AS ready,
        arg_min(coalesce(value, "after" - 1), line) FILTER (kind = 'hook' AND detail = 'verify' AND name ILIKE '%tree%') AS first_verify_drafts,
        min(time) AS started, max(time) AS ended, count(*) FILTER (kind <> 'arguments') AS rows
    FROM event GROUP BY run
),
measured AS (
    SELECT run, arg_max(tokens_per_s, line) AS tokens_per_s, any_value(upper(algorithm)) AS algorithm,
        any_value(model) AS model, max(accept_len) AS accept_len, max(draft_tokens)::INTEGER AS draft_tokens,
        max(draft_steps)::INTEGER AS draft_steps, max(top_k)::INTEGER AS top_k
    FROM benchmark GROUP BY run
),
answered AS (
    SELECT run, bool_or(verify_steps > 0) AS speculates FROM request GROUP BY run
),
told AS (
    SELECT run, bool_or(accept_len >= 1) AS speculates, sum(tokens_per_s) AS tokens_per_s FROM server_state GROUP BY run
)
SELECT
    a.run,
    CASE
        WHEN a.algorithm IN ('NONE', 'NULL') THEN 'NONE'
        WHEN a.algorithm IS NOT NULL THEN replace(a.algorithm, 'NEXTN', 'EAGLE')
        WHEN s.requested IS NOT NULL THEN s.requested
        WHEN m.algorithm IS NOT NULL THEN m.algorithm
        WHEN a.configured AND a.model IS NOT NULL AND NOT coalesce(d.accepts, false) THEN 'NONE'
    END AS algorithm,
    coalesce(s.executed, h.executed) AS executed,
    coalesce(a.algorithm NOT IN ('NONE', 'NULL'), false) OR coalesce(d.accepts, false) OR coalesce(s.speculates, false)
        OR coalesce(c.rows > 0, false) OR coalesce(q.speculates, false) OR coalesce(m.accept_len IS NOT NULL, false)
        OR coalesce(v.speculates, false) AS speculates,
    coalesce(a.algorithm SIMILAR TO '.*(DDTREE|TREEFLASH).*', false) OR coalesce(s.tree, false) OR coalesce(h.tree, false)
        OR coalesce(a.tree_flag, false) OR (coalesce(a.top_k, 1) > 1 AND coalesce(a.algorithm, 'NONE') <> 'NONE')
        OR coalesce(c.budget IS NOT NULL, false) AS tree,
    coalesce(a.shadow, false) OR coalesce(s.shadow, false) AS shadow,
    coalesce(d.rows > 0, false) OR coalesce(h.rows > 0, false) AS server,
    coalesce(a.model, m.model) AS model, a.draft_model,
    coalesce(a.draft_tokens, a.hinted_draft_tokens, a.verify_width, a.drafted_plus_one, a.block, a.hinted_block, m.draft_tokens) AS draft_tokens,
    coalesce(a.draft_steps, m.draft_steps) AS draft_steps,
    coalesce(a.budget, c.budget, s.budget, a.hinted_budget) AS budget,
    coalesce(c.top_k, s.top_k, a.top_k, m.top_k) AS top_k,
    coalesce(a.block, a.hinted_block) AS block,
    a.page_size, a.log_interval,
    coalesce(h.ready, false) OR coalesce(d.rows > 0, false) AS ready,
    coalesce(d.rows > 0, false) OR coalesce(s.rows > 0, false) OR coalesce(c.rows > 0, false)
        OR q.run IS NOT NULL OR m.run IS NOT NULL AS served,
    CASE WHEN f.formula = 'commit_per_proposed' AND f.commit_width = a.draft_steps + 1 AND a.draft_tokens <> a.draft_steps + 1
         THEN 'commit_per_step' ELSE f.formula END AS rate_formula,
    CASE WHEN f.formula = 'drafts_per_proposed' THEN f.drafts_width ELSE f.commit_width END::INTEGER AS rate_width,
    h.first_verify_drafts,
    x.accept_len, x.kind AS accept_len_from,
    coalesce(d.tokens_per_s, s.tokens_per_s, m.tokens_per_s, c.tokens_per_s, v.tokens_per_s) AS tokens_per_s,
    t.step_ms, t.measured AS step_ms_measured,
    coalesce(t.ctx_min, d.ctx_min, s.ctx_min) AS ctx_min, coalesce(t.ctx_max, d.ctx_max, s.ctx_max) AS ctx_max,
    coalesce(d.running, s.running) AS running,
    least(d.started, h.started) AS started, greatest(d.ended, h.ended) AS ended
FROM asked a
LEFT JOIN accept x ON x.run = a.run AND x.nth = 1
LEFT JOIN timed t ON t.run = a.run
LEFT JOIN decoded d ON d.run = a.run
LEFT JOIN stepped s ON s.run = a.run
LEFT JOIN counted c ON c.run = a.run
LEFT JOIN hooked h ON h.run = a.run
LEFT JOIN measured m ON m.run = a.run
LEFT JOIN answered q ON q.run = a.run
LEFT JOIN told v ON v.run = a.run
LEFT JOIN rate_fit f ON f.run = a.run
ORDER BY a.run;

-- Peers: a folder of a few files is an experiment, one of many a collection ---------------------------

INSERT INTO peer
WITH place AS (
    SELECT DISTINCT p.run, s.path, regexp_replace(s.path, '[^/\\\\]*$', '') AS folder
    FROM part p JOIN source s USING (source)
),
small AS (SELECT folder FROM place GROUP BY folder HAVING count(DISTINCT path) <= 8),
near AS (
    SELECT DISTINCT a.run, b.run AS against
    FROM place a JOIN place b ON a.run <> b.run
        AND (a.path = b.path OR (a.folder = b.folder AND a.folder IN (SELECT folder FROM small)))
),
layout AS (
    SELECT run, string_agg(DISTINCT key || '=' || value, ' ' ORDER BY key || '=' || value) AS layout
    FROM config WHERE key IN ('tp_size', 'pp_size', 'quantization', 'dtype', 'kv_cache_dtype', 'device')
    GROUP BY run
)
SELECT a.run, b.run
FROM run a JOIN run b ON a.run <> b.run
LEFT JOIN layout la ON la.run = a.run
LEFT JOIN layout lb ON lb.run = b.run
LEFT JOIN near n ON n.run = a.run AND n.against = b.run
WHERE a.model IS NOT DISTINCT FROM b.model  -- where only one says its model, nothing is known
    AND (la.layout IS NULL OR lb.layout IS NULL OR la.layout = lb.layout)
    AND (n.run IS NOT NULL OR a.model = b.model);
