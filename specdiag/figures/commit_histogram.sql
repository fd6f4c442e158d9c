-- title = "Commit lengths"
-- tells = "The share of steps that commit so many tokens; 1 is a step whose drafts were all refused. Many steps at the depth limit, the vertical line, would go on with a deeper tree."
-- place = 32
-- draw = "bar"
-- x = { title = "tokens a step" }
-- y = { title = "share of steps, %" }
WITH counted AS (
    SELECT run, 1 AS nth, round(coalesce(commit_len, accepted_drafts + 1, len(accepted)))::BIGINT AS commit_len, count(*)::DOUBLE AS steps
    FROM step WHERE NOT coalesce(warmup, false) AND coalesce(commit_len, accepted_drafts + 1, len(accepted)) >= 0 AND coalesce(mode, '') <> 'autoregressive'
    GROUP BY ALL
    UNION ALL
    SELECT run, 2, commit_len, sum(steps) FROM (SELECT run, unnest(histogram) AS steps, unnest(range(1, len(histogram) + 1)) AS commit_len FROM request WHERE len(histogram) > 1) GROUP BY run, commit_len
),
best AS (
    SELECT *, sum(steps) OVER (PARTITION BY run) AS whole FROM (FROM counted WHERE steps > 0 QUALIFY nth = min(nth) OVER (PARTITION BY run))
    QUALIFY whole >= 5 AND count(*) OVER (PARTITION BY run) > 1
),
deepest AS (  -- as told by the trace, the arguments, the length of the histograms
    SELECT r.run, coalesce(s.depth_limit, s.block - 1, r.block - 1, r.draft_steps, CASE WHEN NOT r.tree THEN r.draft_tokens - 1 END, h.most) AS drafts
    FROM run r LEFT JOIN setting s USING (run) LEFT JOIN (SELECT run, max(len(histogram)) - 1 AS most FROM request GROUP BY run) h USING (run)
)
SELECT run, NULL AS draw, commit_len AS x, 100 * steps / whole AS y, NULL AS label FROM best
UNION ALL
SELECT any_value(run), 'mark', drafts + 1, NULL, format('depth limit {}', drafts)
FROM (SELECT run, drafts FROM deepest WHERE run IN (SELECT run FROM best) AND drafts > 0) GROUP BY drafts HAVING count(*) = 1
UNION ALL
SELECT NULL, 'mark', drafts + 1, NULL, format('depth limit {} ({} runs)', drafts, count(*))
FROM deepest WHERE run IN (SELECT run FROM best) AND drafts > 0 GROUP BY drafts HAVING count(*) > 1
