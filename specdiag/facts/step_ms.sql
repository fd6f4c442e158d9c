-- title      = "Step time"
-- tells      = "Time of one draft-verify-commit step of the batch. Of decode lines computed, running x C / throughput, where the batch stays the same and no prompt comes between."
-- unit       = "ms"
-- better     = "lower"
-- kinds      = ["step", "acceptance", "benchmark", "decode", "state"]
-- aggregates = ["median", "pooled", "mean", "p90", "p99", "min", "max", "last"]

SELECT t.run, t.kind, t.ms AS value, 1 AS weight, CASE WHEN t.kind = 'decode' THEN coalesce(r.log_interval, 40) ELSE 1 END AS steps,
    s.request AS unit_id, t.source, t.line
FROM time_sample t JOIN run r ON r.run = t.run
LEFT JOIN step s ON s.source = t.source AND s.line = t.line
WHERE t.stage = 'step'
UNION ALL
SELECT run, 'benchmark', step_ms, 1, verify_steps, NULL, source, line FROM benchmark WHERE step_ms > 0
