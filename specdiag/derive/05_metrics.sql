-- Metrics.

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
-- came since the scrape before (the first: since the start). vLLM counts drafts, that is steps, and so
-- does llama.cpp; before its V1 engine only tokens. SGLang shows the last interval, and keeps it while
-- it idles.
INSERT INTO acceptance BY NAME
WITH silent AS (
    SELECT DISTINCT run FROM part WHERE run NOT IN (SELECT DISTINCT run FROM decode WHERE accept_len IS NOT NULL)
        AND run NOT IN (SELECT DISTINCT run FROM acceptance)
),
series AS (
    SELECT run, source, line, time, scrape, per_s, regexp_replace(name, '^(vllm|sglang|llamacpp)[:_]|_total$', '', 'g') AS name, name NOT ILIKE 'sglang%' AS vllm,
        nullif(regexp_extract(labels, '(?:^|,)(?:engine|dp_rank)="([^"]*)"', 1), '') AS rank,
        TRY_CAST(nullif(regexp_extract(labels, '(?:^|,)position="([0-9]+)"', 1), '') AS INTEGER) AS position,
        value, lag(value) OVER (PARTITION BY source, name, labels ORDER BY scrape) AS before
    FROM metric WHERE run IN (FROM silent) AND regexp_matches(name, '^(vllm|sglang|llamacpp)[:_](spec_|gen_throughput|generation_tokens|tokens_predicted)')
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
        max(per_s) FILTER (name IN ('generation_tokens', 'tokens_predicted')) AS tokens_per_s
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
    AND (scrape = 1 OR coalesce(bool_or(value <> before) FILTER (name IN ('spec_accept_length', 'spec_accept_rate', 'generation_tokens')
        OR name = 'gen_throughput' AND value > 0), true));

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

-- Which of vLLM's engines it was stands in the line before.
UPDATE acceptance SET rank = d.rank FROM decode d
WHERE acceptance.rank IS NULL AND acceptance.drafted_tokens IS NOT NULL AND d.source = acceptance.source AND d.line = acceptance.line - 1
    AND d.run IN (SELECT run FROM decode GROUP BY run HAVING count(DISTINCT rank) > 1);

-- How long contexts are. llama.cpp says it of a request when its slot is free again, and how fast the
-- request decoded: its steps took so long together. vLLM says how much of its cache is in use: by one
-- request, where only one runs.
UPDATE acceptance SET ctx_len = t.ctx_len, step_ms = 1000 * t.commit_len / nullif(t.tokens_per_s, 0)
FROM (
    SELECT a.source, a.line, e."after" AS ctx_len, coalesce(a.commit_len, r.commit_len) AS commit_len, r.tokens_per_s
    FROM (FROM acceptance WHERE requests = 1 AND accepted_tokens IS NOT NULL AND ctx_len IS NULL) a
    ASOF JOIN request r ON r.source = a.source AND r.line <= a.line
    JOIN event e ON e.source = a.source AND e.kind = 'slot' AND e.detail = r.request AND e."after" > 0 AND e.line > r.line
    QUALIFY row_number() OVER (PARTITION BY a.source, a.line ORDER BY e.line) = 1
) t
WHERE acceptance.source = t.source AND acceptance.line = t.line;

UPDATE acceptance SET ctx_len = t.ctx_len, batch = t.running
FROM (
    SELECT a.source, a.line, d.running, d.usage * p.pool AS ctx_len
    FROM (FROM acceptance WHERE drafted_tokens IS NOT NULL AND requests IS NULL AND ctx_len IS NULL) a
    ASOF JOIN decode d ON d.source = a.source AND d.line <= a.line
    JOIN (SELECT run, min(TRY_CAST(replace(detail, ',', '') AS DOUBLE)) AS pool FROM event WHERE kind = 'kv_pool' GROUP BY run) p ON p.run = d.run
    WHERE a.line - d.line <= 2 AND d.running = 1 AND d.usage > 0
) t
WHERE acceptance.source = t.source AND acceptance.line = t.line;
