-- title = "What another budget would give"
-- tells = "Every traced tree holds the trees of all smaller budgets, so their accept lengths are exact (95 % interval over requests). Where other runs tell what a step costs, the upper picture has the throughput; the vertical line is its best. Of a long trace stretches are walked."
-- place = 50
-- draw = "line"
-- needs = ["what_budget"]
-- x = { title = "budget, tree nodes" }
-- rows = { speed = { title = "tokens/s" }, accept = { title = "accept length" } }
SELECT run, 'speed' AS part, NULL AS draw, CASE WHEN bound THEN 'at least' ELSE '' END AS series, budget AS x, tokens_per_s AS y, speed_low AS low, speed_high AS high, NULL AS label
FROM what_budget QUALIFY count(tokens_per_s) FILTER (NOT bound) OVER (PARTITION BY run) > 1
UNION ALL
SELECT run, 'accept', NULL, '', budget, commit_len, commit_low, commit_high, NULL FROM what_budget QUALIFY count(*) OVER (PARTITION BY run) > 1
UNION ALL
SELECT run, 'accept', 'point', 'measured', budget, measured, measured_low, measured_high, NULL FROM what_budget WHERE measured IS NOT NULL
UNION ALL
SELECT run, NULL, 'mark', 'best', budget, NULL, NULL, NULL, format('best of {}: {}', run, budget) FROM what_budget WHERE best
