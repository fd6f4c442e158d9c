-- title      = "Acceptance rate"
-- tells      = "Drafts accepted / drafts proposed. Of decode lines A / (verify width - 1), whatever the release prints as its accept rate."
-- unit       = "share"
-- better     = "higher"
-- kinds      = ["step", "request", "decode", "acceptance"]
-- aggregates = ["pooled", "mean", "median", "p90", "min", "max", "last"]

SELECT run, 'step' AS kind, coalesce(accepted_drafts, commit_len - 1) / nodes AS value, nodes AS weight, 1 AS steps,
    request AS unit_id, source, line
FROM step WHERE NOT coalesce(warmup, false) AND nodes > 0
UNION ALL
SELECT run, 'request', correct_drafts / proposed_drafts, proposed_drafts, verify_steps,
    cite(source, line)::VARCHAR, source, line
FROM request WHERE proposed_drafts > 0
UNION ALL
SELECT s.run, 'decode', (s.commit_len - 1) / (r.draft_tokens - 1), s.steps * (r.draft_tokens - 1), s.steps, NULL, s.source, s.line
FROM commit_sample s JOIN run r ON r.run = s.run AND r.draft_tokens > 1 WHERE s.kind = 'decode'
UNION ALL
SELECT run, 'acceptance', coalesce(accepted_tokens / nullif(drafted_tokens, 0), accept_rate), drafted_tokens,
    coalesce(steps, CASE WHEN drafted_tokens > 0 AND commit_len > 1 THEN accepted_tokens / (commit_len - 1) END), NULL, source, line
FROM acceptance
