-- Decode lines.

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
