-- title      = "Time to first token"
-- tells      = "From the arrival of a request to its first token, waiting and prefill included."
-- unit       = "ms"
-- better     = "lower"
-- kinds      = ["request", "benchmark", "histogram"]
-- aggregates = ["median", "mean", "p90", "p99", "min", "max"]

SELECT run, 'request' AS kind, NULL AS stat, 1000 * ttft_s AS value, cite(source, line)::VARCHAR AS unit_id, source, line FROM request
UNION ALL
SELECT run, 'benchmark', replace(name, '_ttft_ms', ''), ms, NULL, source, line
FROM (UNPIVOT (SELECT run, source, line, mean_ttft_ms, median_ttft_ms, p99_ttft_ms FROM benchmark) ON mean_ttft_ms, median_ttft_ms, p99_ttft_ms INTO NAME name VALUE ms)
UNION ALL
SELECT run, 'histogram', 'mean', 1000 * sum(mean * count) / sum(count), NULL, arg_max(source, line), max(line)
FROM histogram WHERE name SIMILAR TO '(sglang|vllm):time_to_first_token_seconds' AND count > 0 GROUP BY run
