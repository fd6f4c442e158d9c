-- title = "Acceptance by position"
-- tells = "The share of steps that accept at least so many drafts. A sound drafter loses about the same share at each position; a sudden step down says that everything behind it is lost, whatever the drafter says."
-- place = 30
-- draw = "line"
-- x = { title = "accepted drafts, at least" }
-- y = { title = "share of steps, %" }
WITH counted AS (  -- how many steps accept exactly so many
    SELECT run, 1 AS nth, coalesce(len(accepted) - 1, accepted_drafts, commit_len - 1)::BIGINT AS drafts, count(*)::DOUBLE AS steps
    FROM step WHERE NOT coalesce(warmup, false) AND coalesce(len(accepted) - 1, accepted_drafts, commit_len - 1) >= 0 AND coalesce(mode, '') <> 'autoregressive'
    GROUP BY ALL
    UNION ALL
    SELECT run, 2, drafts, sum(steps) FROM (SELECT run, unnest(histogram) AS steps, unnest(range(len(histogram))) AS drafts FROM request WHERE len(histogram) > 1) GROUP BY run, drafts
),
reached AS (
    SELECT run, nth, k AS drafts, sum(steps) FILTER (drafts >= k) AS steps, sum(steps) AS whole
    FROM counted JOIN (SELECT run, nth, unnest(range(1, least(max(drafts), 1000) + 1)) AS k FROM counted GROUP BY run, nth) USING (run, nth) GROUP BY run, nth, k  -- a garbled count has billions
    UNION ALL
    SELECT run, 3, drafts, sum(share * steps), sum(steps) FROM (
        SELECT run, coalesce(steps, CASE WHEN drafted_tokens > 0 THEN drafted_tokens / len(positions) END, 1) AS steps, unnest(positions) AS share, unnest(range(1, len(positions) + 1)) AS drafts
        FROM acceptance WHERE len(positions) > 0
    ) GROUP BY run, drafts
),
best AS (FROM reached QUALIFY nth = min(nth) OVER (PARTITION BY run))
SELECT run, drafts AS x, 100 * steps / whole AS y,
    greatest(0, y - 196 * sqrt(steps / whole * (1 - steps / whole) / whole)) AS low, least(100, y + 196 * sqrt(steps / whole * (1 - steps / whole) / whole)) AS high
FROM best WHERE drafts > 0 AND whole >= 5 AND steps <= whole
QUALIFY count(*) OVER (PARTITION BY run) > 1
