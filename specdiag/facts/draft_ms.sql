-- title      = "Drafting time"
-- tells      = "Time that a step spends in the drafter."
-- unit       = "ms"
-- better     = "lower"
-- kinds      = ["step", "acceptance"]
-- aggregates = ["median", "pooled", "mean", "p90", "p99", "min", "max", "last"]

SELECT t.run, t.kind, t.ms AS value, 1 AS weight, 1 AS steps, s.request AS unit_id, t.source, t.line
FROM time_sample t LEFT JOIN step s ON s.source = t.source AND s.line = t.line
WHERE t.stage = 'draft' AND t.kind IN ('step', 'acceptance')
