-- title = "What the tree buys"
-- tells = "How many more drafts a step of the tree brings than one of its chain, against how much longer it takes. Above the line the tree pays: the chain would need that much time for the same tokens."
-- place = 52
-- needs = ["chain", "what_gain"]
-- x = { title = "more time a step, ms" }
-- y = { title = "more accepted drafts a step" }
WITH fact AS (  -- one kind of row for both
    SELECT c.run, c.against, a.kind, a.commit_len - b.commit_len AS drafts, 1.96 * sqrt(a.error ** 2 + b.error ** 2) AS reach, b.commit_len AS chain_len, x.step_ms - y.step_ms AS ms, y.step_ms AS chain_ms
    FROM chain c JOIN run x ON x.run = c.run AND x.tree JOIN run y ON y.run = c.against
    JOIN commit_mean a ON a.run = c.run JOIN commit_mean b ON b.run = c.against AND b.kind = a.kind
    WHERE x.step_ms_measured = y.step_ms_measured AND x.step_ms > 0 AND y.step_ms > 0
    QUALIFY row_number() OVER (PARTITION BY c.run ORDER BY list_position(['step', 'request', 'decode', 'acceptance'], a.kind), c.against) = 1
),
extent AS (SELECT against, any_value(chain_len / chain_ms) AS rate, least(min(ms), 0) AS low, greatest(max(ms), 1) AS high FROM fact GROUP BY against)
SELECT run, 'point' AS draw, 'as measured against ' || against AS series, ms AS x, drafts AS y, drafts - reach AS low, drafts + reach AS high, NULL AS label FROM fact
UNION ALL
SELECT run, 'line', 'smaller budgets', ms, drafts, NULL, NULL, budget::VARCHAR FROM what_gain QUALIFY count(*) OVER (PARTITION BY run) > 1
UNION ALL
SELECT against, 'line', 'worth its time', unnest([low, high]), unnest([low, high]) * rate, NULL, NULL, NULL FROM extent
