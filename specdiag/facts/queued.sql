-- title      = "Requests that wait"
-- tells      = "Requests in the queue of the scheduler when a line was printed."
-- unit       = "requests"
-- better     = "lower"
-- kinds      = ["decode", "metric"]
-- aggregates = ["max", "median", "mean", "p90", "p99", "min", "last"]

SELECT run, 'decode' AS kind, queued AS value, source, line FROM decode WHERE complete
UNION ALL
SELECT run, 'metric', sum(value), source, max(line)
FROM metric WHERE name IN ('sglang:num_queue_reqs', 'vllm:num_requests_waiting') GROUP BY run, source, name, scrape
