-- title      = "Accepted drafts"
-- tells      = "Drafts that a step accepts for one request, A = C - 1, as the engine counts them."
-- unit       = "tokens"
-- better     = "higher"
-- kinds      = ["step", "request", "decode", "acceptance", "benchmark", "state"]
-- aggregates = ["pooled", "mean", "median", "p90", "p99", "min", "max", "last"]

SELECT run, 'step' AS kind, coalesce(accepted_drafts, commit_len - 1) AS value, 1 AS weight, 1 AS steps,
    request AS unit_id, source, line
FROM step WHERE NOT coalesce(warmup, false)
UNION ALL
SELECT run, 'request', correct_drafts / verify_steps, verify_steps, verify_steps,
    cite(source, line)::VARCHAR, source, line
FROM request WHERE verify_steps > 0
UNION ALL
SELECT run, 'acceptance', coalesce(accepted_drafts, commit_len - 1),
    coalesce(steps, CASE WHEN drafted_tokens > 0 AND commit_len > 1 THEN accepted_tokens / (commit_len - 1) END) AS weight, weight,
    NULL, source, line
FROM acceptance
UNION ALL
SELECT run, kind, commit_len - 1, steps, steps, NULL, source, line
FROM commit_sample WHERE kind IN ('decode', 'benchmark', 'state')
