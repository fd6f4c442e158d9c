-- title    = "A counter sold as acceptance counts something else"
-- severity = "high"
-- needs    = { run = [], acceptance = [], step = [] }
-- why      = "Acceptance varies from step to step. A column that is always equal to the budget, the number of nodes or the depth of the tree reports the tree; one that equals the row number of the last accepted node reports where the node lies, not how deep."
-- fix      = ["Count the edges from the root to the last accepted node, and print that.", "Believe the commit length until then: it is what the request received."]
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
indexed AS (
    SELECT run, count(*) AS rows, count(*) FILTER (accepted_depth = accepted[-1]) AS equal_rows,
        avg(len(accepted) - 1) AS accepted_drafts, avg(accepted_depth) AS depth,
        arg_min(cite(source, line), line, 4) FILTER (accepted_depth <> len(accepted) - 1) AS lines
    FROM step WHERE accepted_depth IS NOT NULL AND accepted IS NOT NULL AND NOT last
    GROUP BY run HAVING count(*) FILTER (accepted_depth <> len(accepted) - 1) >= 3 AND count(*) FILTER (accepted_depth = accepted[-1]) = count(*)
)
SELECT run, format('accepted depth is {:.0f} on all {} {}s, which is {}; {:.2f} drafts are accepted on average', depth, rows, unit, equals, accepted_drafts) AS message,
    depth AS accepted_depth, accepted_drafts, rows, lines
FROM constant WHERE equals IS NOT NULL
UNION ALL
SELECT run, format('accepted depth is the row number of the last accepted node on all {} steps (mean {:.2f}); the path is {:.2f} deep', rows, depth, accepted_drafts),
    depth, accepted_drafts, rows, lines
FROM indexed
