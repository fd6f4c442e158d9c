-- title      = "Steps that reach the depth limit"
-- tells      = "Share of steps that accept as many drafts as the drafter can make in depth. Where it is high, a deeper draft would be accepted, too."
-- unit       = "share"
-- better     = "higher"
-- kinds      = ["step", "request", "acceptance"]
-- aggregates = ["pooled", "mean", "last"]

WITH limits AS (
    SELECT run, coalesce(t.depth_limit, t.block - 1, r.block - 1, r.draft_steps) AS depth FROM run r LEFT JOIN setting t USING (run)
)
SELECT s.run, 'step' AS kind, (coalesce(accepted_drafts, commit_len - 1) >= limit_of_step)::INTEGER AS value,
    1 AS weight, 1 AS steps, request AS unit_id, source, line
FROM (
    SELECT s.*, coalesce(l.depth, len(candidate_tokens), nullif(len(spine_tokens), 0)) AS limit_of_step
    FROM step s JOIN limits l USING (run)
) s
WHERE NOT coalesce(warmup, false) AND limit_of_step > 0 AND coalesce(mode, '') <> 'autoregressive'
UNION ALL
SELECT run, 'request', coalesce(histogram[l.depth + 1], 0) / list_sum(histogram), list_sum(histogram), list_sum(histogram),
    cite(source, line)::VARCHAR, source, line
FROM request JOIN limits l USING (run) WHERE list_sum(histogram) > 0 AND l.depth > 0
UNION ALL
SELECT run, 'acceptance', positions[-1],
    coalesce(steps, CASE WHEN drafted_tokens > 0 AND commit_len > 1 THEN accepted_tokens / (commit_len - 1) END) AS weight, weight, NULL, source, line
FROM acceptance WHERE len(positions) > 0
