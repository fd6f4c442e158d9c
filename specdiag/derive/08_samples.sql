-- Samples.

INSERT INTO share
SELECT run, CASE WHEN rows > 1000 THEN 1 + sum(rows) OVER () // 2_000_000 ELSE 1 END
FROM (SELECT run, count(*) AS rows FROM (SELECT run FROM decode UNION ALL SELECT run FROM step) GROUP BY run);

INSERT INTO other_commit
SELECT run, source, line, time, 'acceptance',
    -- Shares by position are rounded less than the length; where nothing was accepted, neither tells.
    coalesce(steps, accepted_tokens / nullif(list_sum(positions), 0), CASE WHEN drafted_tokens > 0 THEN accepted_tokens / nullif(commit_len - 1, 0) END,
        drafted_tokens / nullif(len(positions), 0)),
    coalesce(commit_len, accepted_drafts + 1), ctx_len, batch, tokens_per_s, drafted_tokens
FROM acceptance WHERE coalesce(commit_len, accepted_drafts) IS NOT NULL
UNION ALL
SELECT run, source, line, time, 'request',
    coalesce(verify_steps, drafts, (completion_tokens - 1) / commit_len),
    -- a step commits a token at least; with overlap one more runs that nobody waits for
    CASE WHEN verify_steps <= completion_tokens THEN greatest(commit_len, 1) ELSE commit_len END, prompt_tokens, NULL, tokens_per_s, proposed_drafts
FROM request WHERE commit_len IS NOT NULL
UNION ALL
SELECT run, source, line, time, 'benchmark', coalesce(verify_steps, output_tokens / accept_len), accept_len, NULL, concurrency, tokens_per_s, NULL
FROM benchmark WHERE accept_len > 0
UNION ALL
SELECT run, source, line, time, 'state', NULL, accept_len, NULL, NULL, tokens_per_s, NULL
FROM server_state WHERE accept_len >= 1;

INSERT INTO other_time
SELECT run, source, line, 'step', true, ctx_len, batch, replace(key, '_ms', ''), TRY_CAST(value AS DOUBLE)
FROM (SELECT run, source, line, ctx_len, batch, unnest(json_keys(other_ms)) AS key, other_ms
      FROM step WHERE other_ms IS NOT NULL AND warmup IS NOT TRUE),
     LATERAL (SELECT json_extract_string(other_ms, '$."' || key || '"') AS value)
WHERE ctx_len > 0 AND TRY_CAST(value AS DOUBLE) > 0
UNION ALL
SELECT run, source, line, 'acceptance', true, ctx_len, batch, stage, ms
FROM (
    UNPIVOT (SELECT run, source, line, ctx_len, batch, step_ms AS step, draft_ms AS draft, build_ms AS build,
                    verify_ms AS verify, commit_ms AS "commit" FROM acceptance)
    ON step, draft, build, verify, "commit" INTO NAME stage VALUE ms
)
WHERE ctx_len > 0 AND ms > 0;

-- A step without a time of its own takes the sum of its stages, if it has them.
INSERT INTO other_time
SELECT run, source, line, kind, true, any_value(ctx_len), any_value(running), 'step', sum(ms)
FROM time_sample
WHERE kind IN ('step', 'acceptance') AND (source, line) IN (
    SELECT (source, line) FROM step WHERE NOT coalesce(step_ms > 0, false) AND warmup IS NOT TRUE
    UNION ALL SELECT (source, line) FROM acceptance WHERE NOT coalesce(step_ms > 0, false)
)
GROUP BY run, source, line, kind
HAVING NOT bool_or(stage = 'step') AND count(*) >= 2;

-- What a server adds up by itself is the last resort: wall clock, with prompts and idle time in it.
INSERT INTO other_time
SELECT run, source, line, 'state', false, NULL, TRY_CAST(running AS DOUBLE), 'step', unnest(TRY_CAST(json_extract(step_times, '$."' || running || '"') AS DOUBLE[])) * 1000
FROM (SELECT run, source, line, step_times, unnest(json_keys(step_times)) AS running FROM server_state WHERE json_type(step_times) = 'OBJECT')
WHERE run NOT IN (SELECT DISTINCT run FROM time_sample);
