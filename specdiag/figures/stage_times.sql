-- title = "Stages of a step"
-- tells = "What a step spends its time on, by context; other is what the step took beside its stages. The stage that grows with the context is the one to look at."
-- place = 44
-- draw = "bar"
-- stack = true
-- ordered = true
-- x = { title = "context, tokens a request", scale = "category" }
-- y = { title = "mean time of a step, ms" }
WITH ranged AS MATERIALIZED (
    SELECT run, kind, floor(log2(ctx_len))::INTEGER AS range, stage, sum(ms) AS ms, count(*) AS times
    FROM time_sample WHERE measured AND ctx_len > 0 AND run IN (FROM shown) GROUP BY ALL
),
best AS (
    SELECT run, kind FROM ranged WHERE stage <> 'step' GROUP BY run, kind
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY list_position(['step', 'acceptance'], kind)) = 1
),
summed AS (
    SELECT run, range, stage, ms, times FROM ranged SEMI JOIN best USING (run, kind)
    UNION ALL  -- where no context is told
    SELECT run, NULL, stage, sum(ms), count(*) FROM (
        UNPIVOT (SELECT run, draft_ms AS draft, build_ms AS build, verify_ms AS verify, commit_ms AS "commit", step_ms AS step FROM acceptance)
        ON draft, build, verify, "commit", step INTO NAME stage VALUE ms
    ) WHERE run IN (FROM shown) AND run NOT IN (SELECT run FROM best) GROUP BY run, stage
),
meant AS (  -- stages that some steps leave out count as nothing there
    SELECT run, range, stage, ms / max(times) OVER (PARTITION BY run, range) AS ms, times FROM summed
),
told AS (
    SELECT run, range, stage, ms FROM meant WHERE stage <> 'step'
    UNION ALL
    SELECT run, range, 'other', max(ms) FILTER (stage = 'step') - sum(ms) FILTER (stage <> 'step') AS rest FROM meant
    GROUP BY run, range HAVING count(*) > 1 AND rest > 0.02 * max(ms) FILTER (stage = 'step')
    UNION ALL
    SELECT p.run, -1, p.stage, sum(p.range_ms) / nullif(max(f.steps), 0) FROM profile_stage p JOIN profile f USING (run, source, device)
    WHERE p.stage <> 'step' AND p.run IN (FROM shown) AND p.run NOT IN (SELECT run FROM best) AND p.run NOT IN (SELECT DISTINCT run FROM acceptance) GROUP BY p.run, p.device, p.stage
),
stage AS (SELECT DISTINCT stage FROM told WHERE ms > 0),
place AS (  -- stages have the same colours in all panels
    SELECT run, range FROM told WHERE ms > 0 UNION SELECT run, 0 FROM run ANTI JOIN shown USING (run) WHERE step_ms_measured
)
SELECT run, run AS panel, stage AS series, coalesce(sum(ms), 0) AS y,
    CASE WHEN range IS NULL THEN 'all' WHEN range < 0 THEN 'profile' ELSE format('{:,.0f} to {:,.0f}', 2 ** range, 2 ** (range + 1) - 1) END AS x
FROM (SELECT p.run, p.range, s.stage, t.ms FROM place p CROSS JOIN stage s LEFT JOIN told t ON t.run = p.run AND t.range IS NOT DISTINCT FROM p.range AND t.stage = s.stage)
GROUP BY run, range, stage
ORDER BY run, range, coalesce(list_position(['draft', 'top-k', 'build', 'compile', 'verify', 'walk', 'commit', 'other'], stage), 7.5), stage
