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
-- both neighbours, or as the next where it is the first, spans a gap. vLLM reports what speculation
-- won in a record of its own, right after the one of its throughput (`told_len`).
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
        CASE WHEN a.line <= n.line + 2 THEN a.commit_len END AS told_len,
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
    ASOF LEFT JOIN (SELECT source, line, commit_len FROM raw.acceptance WHERE drafted_tokens IS NOT NULL) a
        ON a.source = n.source AND a.line >= n.line
    WINDOW w AS (PARTITION BY n.run, n.rank_key ORDER BY n.place, n.line, n.number)
),
marked AS (
    SELECT number, told_len, sound, running = running_before AS same_batch,
        coalesce(prefill_line > CASE WHEN source_before = source THEN line_before ELSE 0 END, false) AS after_prefill,
        coalesce(
            nth = 1
            OR (token_s > 3 * token_s_after AND (token_s_before IS NULL OR token_s > 3 * token_s_before))
            OR (token_s_after IS NULL AND token_s > 3 * token_s_before AND NOT ctx_len > 1.5 * ctx_before),
            false
        ) AS idle
    FROM neighbour
)
SELECT number, told_len, after_prefill, idle,
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
    coalesce(d.accept_len, f.told_len, CASE WHEN NOT s.speculates THEN 1 END) AS commit_len,
    coalesce(d.accept_len, f.told_len, CASE WHEN NOT s.speculates THEN 1 END) - 1 AS accepted_drafts,
    CASE WHEN d.running > 0 AND d.tokens > 0 THEN d.tokens / d.running END AS ctx_len,
    CASE WHEN d.running > 0 AND d.tokens_per_s > 0
         THEN 1000 * d.running * coalesce(d.accept_len, f.told_len, CASE WHEN NOT s.speculates THEN 1 END) / d.tokens_per_s END AS step_ms,
    f.after_prefill AS after_prefill, f.idle AS idle, f.usable AS usable, f.steady AS steady
)
FROM raw.decode d
JOIN part p ON p.source = d.source AND p.life = d.life AND p.arm = ''
JOIN speculating s ON s.run = p.run
JOIN decode_flag f ON f.number = d.number;

DROP TABLE decode_flag;

-- Requests ----------------------------------------------------------------------------------------

-- The first token comes from prefill, not from a step. OpenAI-style answers have their text in the
-- first of several choices, read here as JSON.
INSERT INTO request BY NAME
SELECT p.run, r.* EXCLUDE (number, life, arm)
REPLACE (
    CASE WHEN r.verify_steps > 0 AND r.completion_tokens > 0
         THEN (r.completion_tokens - 1) / r.verify_steps END AS commit_len,
    CASE WHEN length(r.prompt) > 500 THEN r.prompt[:400] || ' ' || md5(r.prompt) ELSE r.prompt END AS prompt,
    CASE WHEN r.text LIKE '[{%' AND json_exists(TRY_CAST(r.text AS JSON), '$[0].index')
         THEN coalesce(json_extract_string(r.text, '$[0].message.content'), json_extract_string(r.text, '$[0].text')) ELSE r.text END[:8000] AS text
)
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

-- vLLM's V0 engine prints totals since its start, and counts a draft as accepted that stands behind a
-- refused one: what was emitted tells the commit length.
UPDATE acceptance SET accepted_tokens = t.accepted, drafted_tokens = t.drafted, emitted_tokens = t.emitted,
    steps = t.drafted / budget, commit_len = CASE WHEN t.drafted > 0 THEN t.emitted * budget / t.drafted END
FROM (
    SELECT source, line, accepted_tokens - coalesce(lag(accepted_tokens) OVER w, 0) AS accepted, drafted_tokens - coalesce(lag(drafted_tokens) OVER w, 0) AS drafted,
        emitted_tokens - coalesce(lag(emitted_tokens) OVER w, 0) AS emitted
    FROM acceptance WHERE emitted_tokens IS NOT NULL AND budget > 0 WINDOW w AS (PARTITION BY run, rank ORDER BY source, line)
) t
WHERE acceptance.source = t.source AND acceptance.line = t.line AND t.drafted >= 0;

-- Counts of a window without a length: the drafts a step are in the arguments.
UPDATE acceptance SET commit_len = 1 + accepted_tokens * a.drafted_plus_one / drafted_tokens - accepted_tokens / drafted_tokens
FROM (SELECT run, drafted_plus_one FROM asked WHERE drafted_plus_one > 1) a
WHERE a.run = acceptance.run AND commit_len IS NULL AND accepted_drafts IS NULL AND drafted_tokens > 0 AND accepted_tokens IS NOT NULL;

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

-- The answers that a benchmark client kept stand for requests where nothing else does.
INSERT INTO request BY NAME
SELECT run, source, line, time, (nth - 1)::VARCHAR AS request, prompt_lens[nth] AS prompt_tokens, answer_lens[nth] AS completion_tokens, texts[nth][:8000] AS text
FROM (SELECT *, unnest(range(1, len(texts) + 1)) AS nth FROM benchmark WHERE len(list_filter(texts, lambda one: one <> '')) > 0)
WHERE run NOT IN (SELECT run FROM request);

-- Problems ----------------------------------------------------------------------------------------

-- What a line of a traceback does not say itself: its time is that of the last line before it that
-- has one, its rank that of the record that opened the traceback, its frames those above it.
CREATE TEMP TABLE traced AS
WITH cited AS (SELECT DISTINCT source, line FROM raw.problem),
spoken AS (
    SELECT source, line, time, kind, rank FROM event WHERE source IN (SELECT source FROM cited)
    UNION ALL
    SELECT source, line, time, 'decode', rank FROM decode WHERE source IN (SELECT source FROM cited)
    UNION ALL
    SELECT source, line, time, 'prefill', rank FROM prefill WHERE source IN (SELECT source FROM cited)
),
clock AS (SELECT source, line, time FROM spoken WHERE time IS NOT NULL),
record AS (SELECT source, line, kind, rank FROM spoken WHERE kind NOT IN ('frame', 'stack', 'nan', 'device_assert', 'life')),
opened AS (
    SELECT c.source, c.line, CASE WHEN r.kind = 'crash' AND r.line >= c.line - 500 THEN r.line END AS opened, r.rank
    FROM cited c ASOF LEFT JOIN record r ON r.source = c.source AND r.line <= c.line
),
framed AS (
    SELECT o.source, o.line, string_agg(regexp_extract(f.detail, '[^/]+$') || ':' || f.name, ', ' ORDER BY f.line) AS frames
    FROM (
        SELECT e.source, e.line, e.detail, e.name, c.line AS owner
        FROM (SELECT source, line, detail, name FROM event WHERE kind = 'frame') e
        ASOF JOIN cited c ON c.source = e.source AND c.line > e.line
    ) f JOIN opened o ON o.source = f.source AND o.line = f.owner AND f.line > coalesce(o.opened, 0)
    GROUP BY o.source, o.line
)
SELECT o.source, o.line, k.time, CASE WHEN o.opened IS NOT NULL THEN o.rank END AS rank, o.opened IS NOT NULL AS crashed, f.frames
FROM opened o
ASOF LEFT JOIN clock k ON k.source = o.source AND k.line <= o.line
LEFT JOIN framed f ON f.source = o.source AND f.line = o.line;

-- First error wins, in the order of time, of the files and of their lines. A server that shows prompts
-- or an exception from its serving loop, and no sign of a start, is a cut from the middle of a log.
INSERT INTO problem BY NAME
WITH placed AS (
    SELECT p.run, p.place, t.crashed, b.* EXCLUDE (number, life, arm)
        REPLACE (coalesce(b.time, t.time) AS time, coalesce(b.rank, t.rank) AS rank, t.frames AS frames)
    FROM raw.problem b
    JOIN part p ON p.source = b.source AND p.life = b.life AND p.arm = ''
    LEFT JOIN traced t ON t.source = b.source AND t.line = b.line
),
moment AS (
    SELECT e.run, min(p.place) AS place, e.source, e.line, e.kind, any_value(e.time) AS time, any_value(e.name) AS name FROM event e
    JOIN part p ON p.run = e.run AND p.source = e.source
    WHERE e.kind NOT IN ('frame', 'stack') GROUP BY e.run, e.source, e.line, e.kind
    UNION ALL
    SELECT d.run, min(p.place), d.source, d.line, 'decode', any_value(d.time), NULL FROM decode d
    JOIN part p ON p.run = d.run AND p.source = d.source GROUP BY d.run, d.source, d.line
),
lived AS (
    SELECT run,
        min({'place': place, 'line': line}) FILTER (kind IN ('ready', 'decode')) AS first_served,
        max({'place': place, 'line': line}) FILTER (kind IN ('ready', 'decode')) AS last_served,
        min(time) FILTER (kind IN ('ready', 'decode')) AS first_time,
        max(time) FILTER (kind IN ('ready', 'decode')) AS last_time,
        max({'place': place, 'line': line}) FILTER (kind IN ('weights', 'capacity', 'capture_begin', 'capture_sizes', 'capture_end')) AS last_progress,
        max({'place': place, 'line': line}) FILTER (kind = 'life' AND regexp_matches(name, '(?i)sigquit|crashed|kill_process_tree')) AS died
    FROM moment GROUP BY run
),
cut AS (
    SELECT run FROM (
        SELECT run FROM prefill UNION
        SELECT run FROM placed WHERE regexp_matches(frames, 'event_loop|run_busy_loop|run_event_loop|_engine_step|run_batch|execute_model')
    )
    WHERE run NOT IN (SELECT run FROM moment WHERE kind IN ('weights', 'capacity', 'capture_begin', 'capture_sizes', 'capture_end'))
        AND run NOT IN (SELECT run FROM asked WHERE model IS NOT NULL)
),
judged AS (
    SELECT b.* REPLACE (
        b.run NOT IN (SELECT run FROM cut) AND coalesce({'place': b.place, 'line': b.line} < l.first_served, true)
            AND NOT coalesce(b.time > l.first_time, false) AS at_start,
        coalesce({'place': b.place, 'line': b.line} > l.last_served, true) OR coalesce(b.time > l.last_time, false) AS fatal,
        (coalesce(b.message, '') = '' AND b.frames IS NULL)
        OR b.type IN ('[sgl_kernel]', 'FATAL', 'Initialization failed', 'Engine core proc', 'Worker proc', 'WorkerProc',
            'DistBackendError', 'DistNetworkError', 'EOFError', 'BrokenPipeError', 'ConnectionError', 'ConnectionResetError',
            'ConnectionRefusedError', 'CancelledError', 'collective operation timeout', 'terminate called', 'Aborted', 'core dumped')
        OR b.type LIKE '%EngineDeadError'
        OR (b.type = 'error' AND b.message NOT LIKE '%: error: argument %')
        OR (b.type = 'ValidationError' AND b.message LIKE '%validation error%')  -- the next line tells
        OR (b.type = 'Fatal Python error' AND b.message LIKE '%Aborted')  -- torch's watchdog ends the process
        OR regexp_matches(b.message, ': (?:CUDA|ROCm|HIP|SYCL) error$')
        OR b.message LIKE '%_soundfile_data%'  -- soundfile looks for a bundled library first
        -- a parent that passes on what a child died of; a peer that is gone; a caller that waited
        OR regexp_matches(b.message, '(?i)Watchdog caught collective|see (?:root cause|stack trace|the stack trace)|stack trace above|root cause above|initialization failed due to|Engine process failed to start|Connection (?:closed|reset) by peer|remote process exited|ncclRemoteError|recvValue failed|recvBytes|Broken pipe|RPC call to \w+ timed out|^cancelled$|Rank \w+ scheduler is dead|child process.{0,30}(?:failed|died)')
        OR (b.type IN ('ImportError', 'ModuleNotFoundError') AND coalesce({'place': b.place, 'line': b.line} < l.last_progress, false)) AS follows,
        coalesce(b.crashed, false) OR coalesce({'place': b.place, 'line': b.line} < l.died, false)
        OR b.type IN ('terminate called', 'what', 'Segmentation fault', 'Fatal Python error', 'Aborted', 'core dumped', 'Killed', 'GGML_ASSERT',
            'GGML_ABORT', 'fatal error', 'CUDA error', 'ROCm error', 'HIP error', 'SYCL error', 'Memory access fault', 'watchdog thread terminated')
        OR b.type LIKE '%EngineDeadError' OR b.type IN ('Engine core proc', 'Worker proc', 'WorkerProc') AS killed
    )
    FROM placed b LEFT JOIN lived l USING (run)
),
-- A look-up that fails is often the first half of another exception, which tells more.
chained AS (
    SELECT * EXCLUDE (real_line) REPLACE (
        follows OR (type = 'KeyError' AND coalesce(real_line - line <= 100, false)) AS follows,
        killed OR coalesce(bool_or(type LIKE '%EngineDeadError' OR type = 'Engine core proc') OVER (
            PARTITION BY run ORDER BY place, line ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING), false) AND fatal AS killed
    )
    FROM (
        SELECT *, min(CASE WHEN NOT follows AND type <> 'KeyError' THEN line END) OVER (
            PARTITION BY run, source ORDER BY line ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS real_line
        FROM judged
    )
)
SELECT * EXCLUDE (place, crashed) REPLACE (
    fatal AND NOT follows AND row_number() OVER (PARTITION BY run, fatal AND NOT follows ORDER BY time NULLS FIRST, place, line) = 1 AS cause
)
FROM chained;

DROP TABLE traced;

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
        min(time) AS started, max(time) AS ended, count(*) FILTER (kind NOT IN ('arguments', 'frame', 'stack')) AS rows
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

-- Means of the commit length ---------------------------------------------------------------------------

INSERT INTO commit_mean
WITH text AS (
    SELECT run, 'decode' AS kind, sum(new_requests) AS texts FROM prefill WHERE new_tokens + coalesce(cached_tokens, 0) > 12 GROUP BY run
    UNION ALL
    SELECT run, 'step', count(DISTINCT request) FROM step WHERE request IS NOT NULL AND NOT coalesce(warmup, false) GROUP BY run
),
-- As many stretches as there are texts, four to ten.
cut AS (
    SELECT s.*, coalesce(steps, 1) AS weight, ntile(3) OVER w AS third,
        floor((row_number() OVER w - 1) * least(10, greatest(4, coalesce(t.texts, 10))) / count(*) OVER (PARTITION BY s.run, s.kind)) AS stretch
    FROM commit_sample s LEFT JOIN text t ON t.run = s.run AND t.kind = s.kind WHERE commit_len >= 1
    WINDOW w AS (PARTITION BY s.run, s.kind ORDER BY source, line)
),
stretch AS (
    SELECT run, kind, sum(commit_len * weight) / sum(weight) AS commit_len, sum(weight) AS weight FROM cut GROUP BY run, kind, stretch
),
spread AS (  -- of a weighted mean, and wider where few stretches tell it (the width of Student's t)
    SELECT run, kind, sqrt(count(*) / (count(*) - 3) * sum((weight * (s.commit_len - m.commit_len)) ** 2)) / sum(weight) AS error
    FROM stretch s JOIN (SELECT run, kind, sum(commit_len * weight) / sum(weight) AS commit_len FROM cut GROUP BY run, kind) m USING (run, kind)
    GROUP BY run, kind HAVING count(*) >= 4
)
SELECT run, kind, sum(commit_len * weight) / sum(weight) AS mean,
    greatest(any_value(s.error), sqrt(greatest(mean * (mean - 1), 0.01) / sum(weight))) AS error,
    count(*), sum(weight),
    sum(commit_len * weight) FILTER (third = 1) / sum(weight) FILTER (third = 1),
    sum(commit_len * weight) FILTER (third = 3) / sum(weight) FILTER (third = 3),
    median(ctx_len), median(running),
    list_concat(arg_min({'source': source, 'line': line}, (source, line), 2), list_filter([arg_max({'source': source, 'line': line}, (source, line))], lambda one: count(*) > 2))
FROM cut LEFT JOIN spread s USING (run, kind) GROUP BY run, kind;

-- Peers: a folder of a few files is an experiment, one of many a collection ---------------------------

CREATE TEMP TABLE near AS
WITH place AS (
    SELECT DISTINCT p.run, s.path, regexp_replace(s.path, '[^/\\\\]*$', '') AS folder
    FROM part p JOIN source s USING (source)
),
small AS (SELECT folder FROM place GROUP BY folder HAVING count(DISTINCT path) <= 8)
SELECT DISTINCT a.run, b.run AS against
FROM place a JOIN place b ON a.run <> b.run
    AND (a.path = b.path OR (a.folder = b.folder AND a.folder IN (SELECT folder FROM small)));

INSERT INTO peer
WITH layout AS (
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
    AND (n.run IS NOT NULL OR a.model = b.model)
UNION  -- and whatever the user compares with a run
SELECT r.run, s.run FROM run r, stated s WHERE r.run NOT IN (SELECT run FROM stated);

-- Runs beside each other -------------------------------------------------------------------------------

-- Every two of many runs are too many: then only those that lie together.
CREATE TEMP TABLE beside AS
WITH many AS (SELECT count(*) > 64 AS many FROM run)
SELECT a.run, b.run AS against, b.run IN (SELECT run FROM stated) AND a.run NOT IN (SELECT run FROM stated) AS declared,
    a.run IN (SELECT run FROM stated) AND b.run NOT IN (SELECT run FROM stated) AS reversed
FROM run a JOIN run b ON a.run <> b.run JOIN many ON true
LEFT JOIN near n ON n.run = a.run AND n.against = b.run
WHERE declared OR reversed OR (a.model IS NOT DISTINCT FROM b.model AND (n.run IS NOT NULL OR (a.model = b.model AND NOT many)));

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
         ELSE regexp_replace(value, '^(-?[0-9]+)\.0+$', '\1') END AS value
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
compared AS (
    SELECT b.run, b.against, x.key, x.value, y.value AS other
    FROM beside b JOIN few x ON x.run = b.run JOIN few y ON y.run = b.against AND y.key = x.key
    WHERE x.value IS DISTINCT FROM y.value
    UNION ALL
    SELECT b.run, b.against, x.key, x.value, NULL
    FROM beside b JOIN few x ON x.run = b.run JOIN size s ON s.run = b.run JOIN size o ON o.run = b.against
    LEFT JOIN few y ON y.run = b.against AND y.key = x.key
    WHERE y.run IS NULL AND x.value IS NOT NULL AND s.keys < 40 AND o.keys < 40
    UNION ALL
    SELECT b.run, b.against, y.key, NULL, y.value
    FROM beside b JOIN few y ON y.run = b.against JOIN size s ON s.run = b.run JOIN size o ON o.run = b.against
    LEFT JOIN few x ON x.run = b.run AND x.key = y.key
    WHERE x.run IS NULL AND y.value IS NOT NULL AND s.keys < 40 AND o.keys < 40
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
shared AS (
    SELECT b.run, b.against, x.seen, sum(least(x.prompts, y.prompts)) AS prompts
    FROM beside b JOIN counted x ON x.run = b.run JOIN counted y ON y.run = b.against AND y.seen = x.seen AND y.what = x.what GROUP BY ALL
),
judged AS (
    SELECT b.run, b.against, x.seen,
        CASE
            WHEN x.seen = 'text' THEN coalesce(s.prompts, 0) >= 0.8 * least(x.prompts, y.prompts)
            WHEN least(x.prompts, y.prompts) < 3 AND x.seen <> 'step' THEN NULL
            WHEN greatest(x.length, y.length) <= 1.02 * least(x.length, y.length) AND greatest(x.prompts, y.prompts) <= 1.1 * least(x.prompts, y.prompts) THEN true
            WHEN coalesce(s.prompts, 0) >= 0.5 * least(x.prompts, y.prompts) AND greatest(x.length, y.length) <= 1.1 * least(x.length, y.length) THEN true
            WHEN coalesce(s.prompts, 0) < 0.5 * least(x.prompts, y.prompts) AND greatest(x.length, y.length) > 1.1 * least(x.length, y.length) THEN false
        END AS same
    FROM beside b JOIN total x ON x.run = b.run JOIN total y ON y.run = b.against AND y.seen = x.seen
    LEFT JOIN shared s ON s.run = b.run AND s.against = b.against AND s.seen = x.seen
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

DROP TABLE near;
DROP TABLE beside;
DROP TABLE told;
DROP TABLE version;
