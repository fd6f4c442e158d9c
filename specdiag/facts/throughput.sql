-- title      = "Throughput that a benchmark client measured"
-- tells      = "Output tokens a second over the whole benchmark, prefill and waiting included, as the client says it. Of several results of a run the last."
-- unit       = "tokens/s"
-- better     = "higher"
-- kinds      = ["benchmark"]
-- aggregates = ["last", "mean", "median", "min", "max"]

SELECT run, 'benchmark' AS kind, tokens_per_s AS value, source, line FROM benchmark
