-- title      = "Throughput"
-- tells      = "Tokens generated a second, all requests together, while requests are decoded. Pooled: all tokens / all time. Of data-parallel replicas a line's figure times their number."
-- unit       = "tokens/s"
-- better     = "higher"
-- kinds      = ["step", "decode", "benchmark", "acceptance", "state"]
-- aggregates = ["median", "pooled", "mean", "p90", "min", "max", "last"]

WITH replicas AS (
    SELECT run, greatest(1, count(DISTINCT regexp_extract(rank, 'DP[0-9]+'))) AS number FROM decode WHERE usable AND rank LIKE '%DP%' GROUP BY run
)
SELECT s.run, 'step' AS kind, 1000 * coalesce(s.commit_len, s.accepted_drafts + 1) * greatest(coalesce(s.batch, 1), 1) / t.ms AS value,
    t.ms / greatest(coalesce(s.batch, 1), 1) AS weight, 1 AS steps, s.request AS unit_id, s.source, s.line
FROM time_sample t JOIN step s ON s.source = t.source AND s.line = t.line WHERE t.kind = 'step' AND t.stage = 'step'
UNION ALL
SELECT d.run, 'decode', d.tokens_per_s * coalesce(p.number, 1), d.step_ms, d.running * coalesce(r.log_interval, 40), NULL, d.source, d.line
FROM decode d JOIN run r ON r.run = d.run LEFT JOIN replicas p ON p.run = d.run WHERE d.usable
UNION ALL
SELECT run, 'benchmark', tokens_per_s, duration_s, verify_steps, NULL, source, line FROM benchmark
UNION ALL
SELECT run, 'acceptance', tokens_per_s, 1, steps, NULL, source, line FROM acceptance
UNION ALL
SELECT run, 'state', tokens_per_s, 1, NULL, NULL, source, line FROM server_state
