-- title    = "Throughput is not commit length times steps per second"
-- severity = "high"
-- family   = "trace"
-- needs    = { acceptance = [], step = [], decode = [] }
-- why      = "Tokens a second = requests × commit length × steps a second, where all three are measured. If they do not fit, one of the counters or clocks is wrong. A step time that was computed from the other two proves nothing and is not used here."
-- fix      = ["Compare with a client that counts tokens and seconds itself.", "Measure the step time with device events around the whole step, commit included."]
-- formula  = "tokens a second = requests · C · 1000 / step ms, where all are measured"
-- sides    = { "throughput reported" = "tokens_per_s", "throughput of the steps" = "expected_tokens_per_s" }
-- unlike   = [
--   "A step time that was computed from the other two.",
--   "Throughput over a window with idle time in it.",
-- ]
-- causes   = [
--   { name = "counter", cause = "the commit length counts what was not sent", test = "a client that counts the tokens it received" },
--   { name = "clock", cause = "the step time leaves out a part of the step", test = "device events around the whole step, commit included" },
-- ]
-- explains = ["sources_disagree"]
-- params   = { tolerance = 0.25, rows = 5 }

WITH counted AS (
    SELECT a.run, a.source, a.line, a.step_ms, coalesce(a.commit_len, a.accepted_drafts + 1) AS commit_len,
        coalesce(a.batch, d.running) AS running, coalesce(a.tokens_per_s, d.tokens_per_s) AS tokens_per_s
    FROM acceptance a
    ASOF LEFT JOIN (SELECT run, source, line, running, tokens_per_s, steady FROM decode WHERE run IN (SELECT DISTINCT run FROM acceptance WHERE step_ms > 0)) d ON d.run = a.run AND d.source = a.source AND d.line <= a.line
    -- the batch that a decode line shows is that of its last moment: it must have been the same before
    WHERE a.step_ms > 0 AND (d.steady OR (a.batch IS NOT NULL AND a.tokens_per_s IS NOT NULL))
    UNION ALL
    SELECT run, source, line, step_ms, commit_len, coalesce(batch, 1), tokens_per_s
    FROM step WHERE step_ms > 0 AND tokens_per_s > 0 AND NOT coalesce(warmup, false)
),
ratio AS (
    SELECT *, running * commit_len * 1000 / step_ms AS expected, tokens_per_s / (running * commit_len * 1000 / step_ms) AS ratio
    FROM counted WHERE tokens_per_s > 0 AND commit_len > 0 AND running > 0
),
summed AS (
    SELECT run, count(*) AS rows, median(ratio) AS ratio, quantile_cont(ratio, 0.25) AS low, quantile_cont(ratio, 0.75) AS high,
        median(tokens_per_s) AS tokens_per_s, median(expected) AS expected_tokens_per_s, median(commit_len) AS commit_len, median(step_ms) AS step_ms,
        median(running) AS running, arg_min(cite(source, line), line, 4) AS lines
    FROM ratio GROUP BY run
)
-- A ratio that scatters compares different moments; only one that holds is a contradiction.
SELECT run,
    format('{:,.1f} tok/s are reported, but {:.2f} tokens every {:.1f} ms for {:.0f} request{} make {:,.1f}: that throughput needs a commit length of {:.2f}',
        tokens_per_s, commit_len, step_ms, running, CASE WHEN running = 1 THEN '' ELSE 's' END, expected_tokens_per_s, commit_len * ratio) AS message,
    tokens_per_s, expected_tokens_per_s, commit_len, step_ms, ratio, lines
FROM summed
WHERE rows >= $rows AND (ratio > 1 + $tolerance OR ratio < 1 / (1 + $tolerance)) AND high < 1.2 * low
