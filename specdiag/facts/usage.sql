-- title      = "Use of the KV pool"
-- tells      = "Share of the KV cache's slots that hold tokens."
-- unit       = "share"
-- better     = "lower"
-- kinds      = ["decode", "metric"]
-- aggregates = ["max", "median", "mean", "p90", "p99", "min", "last"]

SELECT run, 'decode' AS kind, usage AS value, source, line FROM decode WHERE complete
UNION ALL
SELECT run, 'metric', max(value), source, max(line)
FROM metric WHERE name IN ('sglang:token_usage', 'vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc') GROUP BY run, source, name, scrape
