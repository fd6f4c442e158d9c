-- Decode lines.

-- The rows of a part as they lie: where they are together, in the order of their lines and of one
-- rank that no other part of the run has, the neighbours of a report are the rows around it.
CREATE TABLE raw.lane AS
WITH seen AS (
    SELECT source, life, coalesce(rank, '') AS rank_key, accept_len IS NOT NULL AS accepts, queued IS NULL AS cut, number AS nth,
        source = lag(source) OVER () AND life = lag(life) OVER () AND line <= lag(line) OVER () AS back
    FROM raw.decode
),
part_rank AS (
    SELECT source, life, rank_key, bool_or(accepts) AS accepts, bool_and(cut) AS cut, min(nth) AS first, max(nth) AS last, count(*) AS rows, coalesce(bool_or(back), false) AS back
    FROM seen GROUP BY source, life, rank_key
),
placed AS (
    SELECT p.run, p.place, r.*, count(*) OVER (PARTITION BY r.source, r.life) AS ranks, count(*) OVER (PARTITION BY p.run, r.rank_key) AS parts
    FROM part_rank r JOIN part p ON p.source = r.source AND p.life = r.life AND p.arm = ''
)
SELECT l.run, place, source, life, s.speculates, s.steps_each,
    bool_and(ranks = 1 AND parts = 1 AND NOT back AND last - first + 1 = rows) AS plain,
    bool_and(cut) AND sum(rows) >= 3 AS trimmed  -- by whoever pasted them: all lines lack their end, so none is torn
FROM placed l JOIN (
    SELECT p.run, bool_or(p.accepts) OR any_value(coalesce(a.algorithm, 'NONE')) <> 'NONE' AS speculates, any_value(coalesce(a.log_interval, 40)) AS steps_each
    FROM placed p JOIN asked a ON a.run = p.run GROUP BY p.run
) s ON s.run = l.run
GROUP BY ALL;

-- vLLM reports what speculation won in a record of its own, right after the one of its throughput.
CREATE TABLE raw.told AS
SELECT source, line, arg_min_null(commit_len, told_line) AS told_len
FROM (SELECT source, line AS told_line, commit_len, unnest([line - 2, line - 1, line]) AS line FROM raw.acceptance WHERE drafted_tokens IS NOT NULL)
GROUP BY source, line;

-- The last prompt that the same rank computed before a report, where something stands between it and
-- the one before, or where a torn line holds both.
CREATE TABLE raw.prompted AS
WITH prompt AS (SELECT source, line, coalesce(rank, '') AS rank_key FROM raw.prefill),
gap AS (
    SELECT number, source, life, line, coalesce(rank, '') AS rank_key
    FROM (
        SELECT number, source, life, line, rank,
            line = lag(line) OVER () + 1 AND source = lag(source) OVER () AND life = lag(life) OVER () AND rank IS NOT DISTINCT FROM lag(rank) OVER () AS next
        FROM raw.decode
    )
    WHERE next IS NOT true
)
SELECT number, l.plain, max(prefill_line) AS prefill_line FROM (
    SELECT g.number, g.source, g.life, f.line AS prefill_line
    FROM gap g ASOF JOIN prompt f ON f.source = g.source AND f.rank_key = g.rank_key AND f.line <= g.line
    UNION ALL
    SELECT d.number, d.source, d.life, d.line FROM raw.decode d JOIN prompt f ON f.source = d.source AND f.line = d.line WHERE f.rank_key = coalesce(d.rank, '')
) p JOIN raw.lane l ON l.source = p.source AND l.life = p.life GROUP BY number, l.plain;

-- A report covers the time since the one before it, idle time included: one that is more than three
-- times as slow a token as both neighbours, or as the next where it is the first, spans a gap.
-- This is done by halves (see halves.py); what does not lie in its order belongs to the first.
INSERT INTO decode BY NAME
WITH timed AS NOT MATERIALIZED (
    SELECT d.* EXCLUDE (arm) REPLACE (
        coalesce(d.complete, true) AS complete,
        CASE WHEN d.running > 0 AND d.tokens > 0 THEN d.tokens / d.running END AS ctx_len
    ),
        CASE WHEN d.running > 0 AND d.tokens_per_s > 0 THEN d.running / d.tokens_per_s END AS token_s
    FROM raw.decode d
),
in_order AS (  -- without a partition and a join below it, a window is computed as rows pass by
    SELECT *,
        lag(source) OVER () IS NOT DISTINCT FROM source AND lag(life) OVER () IS NOT DISTINCT FROM life AS follows,
        lead(source) OVER () IS NOT DISTINCT FROM source AND lead(life) OVER () IS NOT DISTINCT FROM life AS goes_on,
        lag(token_s) OVER () AS token_s_before, lead(token_s) OVER () AS token_s_after,
        lag(ctx_len) OVER () AS ctx_before, lag(running) OVER () AS running_before, lag(line) OVER () AS line_before
    FROM timed WHERE number BETWEEN $first - 1 AND $end
),
neighbour AS (
    SELECT l.run, l.speculates, l.steps_each, l.trimmed, d.* EXCLUDE (goes_on) REPLACE (
        CASE WHEN follows THEN token_s_before END AS token_s_before, CASE WHEN goes_on THEN token_s_after END AS token_s_after,
        CASE WHEN follows THEN ctx_before END AS ctx_before, CASE WHEN follows THEN running_before END AS running_before,
        CASE WHEN follows THEN line_before END AS line_before
    )
    FROM in_order d JOIN raw.lane l ON l.source = d.source AND l.life = d.life AND l.plain
    WHERE number >= $first AND number < $end
    UNION ALL BY NAME
    SELECT l.run, l.speculates, l.steps_each, l.trimmed, d.*,
        row_number() OVER w > 1 AS follows,
        lag(token_s) OVER w AS token_s_before, lead(token_s) OVER w AS token_s_after,
        lag(ctx_len) OVER w AS ctx_before, lag(running) OVER w AS running_before,
        CASE WHEN lag(d.source) OVER w = d.source THEN lag(line) OVER w END AS line_before
    FROM timed d JOIN raw.lane l ON l.source = d.source AND l.life = d.life AND NOT l.plain
    WHERE $first = 0
    WINDOW w AS (PARTITION BY l.run, coalesce(d.rank, '') ORDER BY l.place, d.line, d.number)
),
marked AS (
    SELECT n.* EXCLUDE (follows, running_before, line_before, token_s_before, token_s_after, ctx_before) REPLACE (
        n.complete OR (n.trimmed AND token_s IS NOT NULL AND isfinite(tokens_per_s) AND isfinite(coalesce(n.accept_len, 1))) AS complete,
        coalesce(n.accept_len, t.told_len, CASE WHEN NOT n.speculates THEN 1 END) AS commit_len,
        coalesce(f.prefill_line > coalesce(n.line_before, 0), false) AS after_prefill,
        NOT follows OR coalesce(
            (token_s > 3 * token_s_after AND (token_s_before IS NULL OR token_s > 3 * token_s_before))
            OR (token_s_after IS NULL AND token_s > 3 * token_s_before AND NOT ctx_len > 1.5 * ctx_before),
            false
        ) AS idle
    ),
        coalesce(running = running_before, false) AS same_batch
    FROM neighbour n
    LEFT JOIN raw.told t ON t.source = n.source AND t.line = n.line
    LEFT JOIN (
        FROM raw.prompted WHERE CASE WHEN plain THEN number >= $first AND number < $end ELSE $first = 0 END
    ) f ON f.number = n.number
)
SELECT COLUMNS(lambda name: name NOT IN getvariable('computed_decode_columns'))
FROM (
    SELECT * EXCLUDE (number, life, speculates, steps_each, trimmed, token_s, same_batch) REPLACE (
        running * steps_each AS steps,
        complete AND token_s IS NOT NULL AND NOT idle AS usable,
        complete AND token_s IS NOT NULL AND NOT idle AND NOT after_prefill AND same_batch AS steady
    )
    FROM marked
);

DROP TABLE raw.lane;
DROP TABLE raw.told;
DROP TABLE raw.prompted;
