-- title      = "Batch size"
-- tells      = "Requests that are decoded together, while any is."
-- unit       = "requests"
-- better     = "higher"
-- kinds      = ["decode", "step", "metric"]
-- aggregates = ["median", "mean", "p90", "min", "max", "last"]

SELECT run, 'decode' AS kind, running AS value, NULL AS unit_id, source, line FROM decode WHERE usable
UNION ALL
SELECT run, 'step', batch, request, source, line FROM step WHERE NOT coalesce(warmup, false) AND batch > 0
UNION ALL
SELECT run, 'metric', sum(value), NULL, source, max(line)
FROM metric WHERE name IN ('sglang:num_running_reqs', 'vllm:num_requests_running') GROUP BY run, source, name, scrape HAVING sum(value) > 0
