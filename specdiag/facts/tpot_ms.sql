-- title      = "Time per output token"
-- tells      = "Time of one output token behind the first, for one request. Of decode lines requests in the batch / throughput."
-- unit       = "ms"
-- better     = "lower"
-- kinds      = ["request", "benchmark", "decode", "histogram"]
-- aggregates = ["median", "pooled", "mean", "p90", "p99", "min", "max"]

SELECT run, 'request' AS kind, NULL AS stat, coalesce(1000 * (e2e_s - ttft_s) / nullif(completion_tokens - 1, 0), 1000 / nullif(tokens_per_s, 0)) AS value,
    completion_tokens - 1 AS weight, verify_steps AS steps, cite(source, line)::VARCHAR AS unit_id, source, line
FROM request WHERE completion_tokens > 1 AND value > 0
UNION ALL
SELECT run, 'benchmark', replace(name, '_tpot_ms', ''), ms, 1, NULL, NULL, source, line
FROM (UNPIVOT (SELECT run, source, line, mean_tpot_ms, median_tpot_ms FROM benchmark) ON mean_tpot_ms, median_tpot_ms INTO NAME name VALUE ms)
UNION ALL
SELECT d.run, 'decode', NULL, 1000 * d.running / d.tokens_per_s, d.running * d.commit_len, d.running * coalesce(r.log_interval, 40), NULL, d.source, d.line
FROM decode d JOIN run r ON r.run = d.run WHERE d.usable
UNION ALL
SELECT run, 'histogram', 'mean', 1000 * sum(mean * count) / sum(count), 1, NULL, NULL, arg_max(source, line), max(line)
FROM histogram WHERE name SIMILAR TO '(sglang|vllm):(request_)?time_per_output_token_seconds' AND count > 0 GROUP BY run
