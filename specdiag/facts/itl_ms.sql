-- title      = "Inter-token latency"
-- tells      = "Between two pieces of an answer as they arrive; a step that commits several tokens may send them as one piece."
-- unit       = "ms"
-- better     = "lower"
-- kinds      = ["benchmark", "histogram"]
-- aggregates = ["median", "mean", "p99"]

SELECT run, 'benchmark' AS kind, replace(name, '_itl_ms', '') AS stat, ms AS value, source, line
FROM (UNPIVOT (SELECT run, source, line, mean_itl_ms, median_itl_ms, p99_itl_ms FROM benchmark) ON mean_itl_ms, median_itl_ms, p99_itl_ms INTO NAME name VALUE ms)
UNION ALL
SELECT run, 'histogram', 'mean', 1000 * sum(mean * count) / sum(count), arg_max(source, line), max(line)
FROM histogram WHERE name SIMILAR TO '(sglang|vllm):inter_token_latency_seconds' AND count > 0 GROUP BY run
