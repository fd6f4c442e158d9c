-- title    = "A counter sold as acceptance counts something else"
-- severity = "high"
-- needs    = { run = [], acceptance = [], step = [], replay = [] }
-- why      = "Acceptance varies from step to step. A column that is always equal to the budget, the number of nodes or the depth of the tree reports the tree; one that equals the row number of the last accepted node reports where the node lies, not how deep."
-- fix      = ["Count the edges from the root to the last accepted node, and print that.", "Believe the commit length until then: it is what the request received."]
-- faults   = ["F20", "F21", "F59"]
-- params   = { lines = 3, steps = 20 }

WITH printed AS (
    SELECT a.run, 'line' AS unit, count(*) AS rows, min(a.accepted_depth) AS depth, max(a.accepted_depth) AS depth_max,
        any_value(coalesce(a.budget, r.budget)) AS budget, avg(a.tree_size) AS nodes, any_value(r.block - 1) AS tree_depth,
        avg(coalesce(a.commit_len - 1, a.accepted_drafts)) AS accepted_drafts, arg_min(cite(a.source, a.line), a.line, 4) AS lines
    FROM acceptance a JOIN run r USING (run) WHERE a.accepted_depth IS NOT NULL GROUP BY a.run
),
traced AS (
    SELECT run, 'step', count(*), min(accepted_depth), max(accepted_depth), min(budget), avg(nodes), avg(list_max(depths)),
        avg(coalesce(len(accepted) - 1, commit_len - 1, accepted_drafts)), arg_min(cite(source, line), line, 4)
    FROM step WHERE accepted_depth IS NOT NULL AND NOT coalesce(warmup, false) AND NOT last GROUP BY run
),
constant AS (
    SELECT *, CASE
        WHEN depth = budget THEN 'the budget' WHEN depth = nodes THEN 'the number of nodes' WHEN depth = tree_depth THEN 'the depth of the tree' END AS equals
    FROM (SELECT * FROM printed UNION ALL SELECT * FROM traced)
    WHERE depth = depth_max AND rows >= CASE unit WHEN 'step' THEN $steps ELSE $lines END AND abs(depth - accepted_drafts) > 0.05
),
-- Steps with a record of their accepted rows: the counter is wrong in each of these.
proven AS (
    SELECT b.*, s.accepted, s.nodes, s.budget, list_max(s.depths) AS tree_depth, s.batch
    FROM (SELECT *, lines[1].source AS source, lines[1].line AS line FROM broken(['I1'], ['accepted_depth', 'accepted_drafts'])) b
    JOIN step s USING (source, line)
)
SELECT run, format('accepted depth is {:.0f} on all {} {}s, which is {}; {:.2f} drafts are accepted on average', depth, rows, unit, equals, accepted_drafts) AS message, NULL AS severity,
    depth AS accepted_depth, accepted_drafts, rows, NULL AS request, NULL AS step, 'F20' AS faults, lines
FROM constant WHERE equals IS NOT NULL AND run NOT IN (SELECT run FROM proven)
UNION ALL
SELECT run, format('{}: {} is {}, {} drafts were accepted', in_step(request, step, steps), replace(field, '_', ' '), observed::DOUBLE::BIGINT, expected)
        || CASE WHEN observed::DOUBLE = expected::DOUBLE + 1 AND 'accepted_depth' <> field THEN '; the root is counted'
                WHEN observed::DOUBLE = tree_depth THEN '; the tree is that deep' WHEN observed::DOUBLE = nodes THEN '; the tree has so many nodes'
                WHEN observed::DOUBLE = accepted[-1] THEN '; that is the number of the last accepted row' ELSE '' END,
    'critical', observed::DOUBLE, expected::DOUBLE, steps, request, step,
    CASE WHEN observed::DOUBLE IN (nodes, budget, tree_depth, accepted[-1]) THEN 'F20, F59' WHEN observed::DOUBLE = expected::DOUBLE + 1 THEN 'F21, F59' WHEN batch > 1 THEN 'F59, F20' ELSE 'F20' END, lines
FROM proven
