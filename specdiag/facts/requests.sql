-- title      = "Requests"
-- tells      = "Requests that were answered, or traced; of a benchmark those that it completed."
-- unit       = "requests"
-- better     = "higher"
-- kinds      = ["request", "step", "benchmark"]
-- aggregates = ["sum"]

SELECT run, 'request' AS kind, NULL AS stat, 1 AS value, source, line FROM request
UNION ALL
SELECT run, 'step', NULL, 1, arg_min(source, line), min(line)
FROM step WHERE NOT coalesce(warmup, false) AND request IS NOT NULL GROUP BY run, request
UNION ALL
SELECT run, 'benchmark', 'sum', completed, source, line FROM benchmark
