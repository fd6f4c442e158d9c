-- title      = "Speed of a request"
-- tells      = "Tokens a second that one request receives while it decodes, without the wait for its first token. Of decode lines throughput / requests in the batch."
-- unit       = "tokens/s"
-- better     = "higher"
-- kinds      = ["request", "decode", "benchmark"]
-- aggregates = ["median", "pooled", "mean", "p90", "min", "max", "last"]

SELECT run, 'request' AS kind, coalesce(tokens_per_s, (completion_tokens - 1) / nullif(e2e_s - ttft_s, 0)) AS value,
    completion_tokens / value AS weight, verify_steps AS steps, cite(source, line)::VARCHAR AS unit_id, source, line
FROM request WHERE value > 0
UNION ALL
SELECT d.run, 'decode', d.tokens_per_s / d.running, d.step_ms, d.running * coalesce(r.log_interval, 40), NULL, d.source, d.line
FROM decode d JOIN run r ON r.run = d.run WHERE d.usable
UNION ALL
SELECT run, 'benchmark', request_tokens_per_s, 1, verify_steps, NULL, source, line FROM benchmark
