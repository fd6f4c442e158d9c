-- title      = "Commit length"
-- tells      = "Tokens that a step commits for one request: the accepted drafts and the target's own token, C = A + 1. Of a finished request (output tokens - 1) / steps, since prefill makes the first one."
-- unit       = "tokens"
-- better     = "higher"
-- kinds      = ["step", "request", "decode", "acceptance", "benchmark", "state"]
-- aggregates = ["pooled", "mean", "median", "p90", "p99", "min", "max", "last"]

SELECT run, 'step' AS kind, coalesce(commit_len, accepted_drafts + 1) AS value, 1 AS weight, 1 AS steps,
    request AS unit_id, source, line
FROM step WHERE NOT coalesce(warmup, false)
UNION ALL
SELECT run, kind, commit_len, steps, steps,
    CASE WHEN kind = 'request' THEN cite(source, line)::VARCHAR END, source, line
FROM commit_sample WHERE kind <> 'step'
