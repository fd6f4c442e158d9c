-- title      = "Output tokens"
-- tells      = "Tokens that the requests of a run received; the mean and quantiles are over requests."
-- unit       = "tokens"
-- better     = "higher"
-- kinds      = ["request", "step", "benchmark"]
-- aggregates = ["sum", "mean", "median", "p90", "min", "max"]

SELECT run, 'request' AS kind, NULL AS stat, completion_tokens AS value, verify_steps AS steps, cite(source, line)::VARCHAR AS unit_id, source, line FROM request
UNION ALL
SELECT run, 'step', NULL, sum(coalesce(len(emitted), commit_len, accepted_drafts + 1)), count(*), request, arg_min(source, line), min(line)
FROM step WHERE NOT coalesce(warmup, false) AND request IS NOT NULL GROUP BY run, request
UNION ALL
SELECT run, 'benchmark', 'sum', output_tokens, verify_steps, NULL, source, line FROM benchmark
