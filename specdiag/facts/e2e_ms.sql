-- title      = "Time of a request"
-- tells      = "From the arrival of a request to its last token."
-- unit       = "ms"
-- better     = "lower"
-- kinds      = ["request", "benchmark", "histogram"]
-- aggregates = ["median", "mean", "p90", "p99", "min", "max"]

SELECT run, 'request' AS kind, NULL AS stat, 1000 * e2e_s AS value, cite(source, line)::VARCHAR AS unit_id, source, line FROM request
UNION ALL
SELECT run, 'benchmark', replace(name, '_e2e_ms', ''), ms, NULL, source, line
FROM (UNPIVOT (SELECT run, source, line, mean_e2e_ms, median_e2e_ms FROM benchmark) ON mean_e2e_ms, median_e2e_ms INTO NAME name VALUE ms)
UNION ALL
SELECT run, 'histogram', 'mean', 1000 * sum(mean * count) / sum(count), NULL, arg_max(source, line), max(line)
FROM histogram WHERE name SIMILAR TO '(sglang|vllm):e2e_request_latency_seconds' AND count > 0 GROUP BY run
