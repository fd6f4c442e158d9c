-- title    = "A counter sold as acceptance counts something else"
-- severity = "high"
-- family   = "trace"
-- needs    = { run = [], acceptance = [], step = [], replay = [] }
-- why      = "Acceptance varies from step to step. A column that is always equal to the budget, the number of nodes or the depth of the tree reports the tree; one that equals the row number of the last accepted node reports where the node lies, not how deep."
-- fix      = ["Count the edges from the root to the last accepted node, and print that.", "Believe the commit length until then: it is what the request received."]
-- formula  = "a column of acceptance that equals the budget, the nodes or the tree's depth on every line, while C varies"
-- sides    = { "drafts by the counter" = "accepted_depth", "drafts that were accepted" = "accepted_drafts" }
-- unlike   = [
--   "A chain whose drafts are all accepted in a few steps: at least 20 steps, or 3 printed lines, are asked for.",
--   "A counter with the root counted: one more everywhere, which is a convention.",
-- ]
-- explains = ["throughput_contradicts_commit", "sources_disagree"]
-- faults   = ["F20", "F21", "F59", "F60", "F67"]
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
-- Steps with a record of their accepted rows: what the counter equals in every one where it is wrong.
counted AS (
    SELECT run, source, line, accepted_depth, accepted_drafts, accepted, nodes, budget, list_max(depths) AS tree_depth, batch, len(emitted) AS emitted, cut,
        max(len(accepted) - 1) OVER (PARTITION BY run, step, batch) AS of_batch,
        avg(len(accepted) - 1) OVER (PARTITION BY run, request ORDER BY step) AS mean, avg(len(accepted) - 1) OVER (PARTITION BY run ORDER BY source, line) AS mean_of_run
    FROM step WHERE accepted IS NOT NULL AND NOT coalesce(warmup, false)
),
wrong AS (
    SELECT r.run, TRY_CAST(r.observed AS DOUBLE) AS observed, len(c.accepted) - 1 + (r.field = 'commit_len')::INTEGER AS due, c.*
    FROM replay r JOIN counted c ON c.run = r.run AND c.source = r.source AND c.line = r.line
    -- A commit length at odds with a depth that is right contradicts it: depth_contradicts_commit.
    WHERE r.identity = 'I1' AND (r.field IN ('accepted_depth', 'accepted_drafts') OR (r.field = 'commit_len' AND c.accepted_depth IS NULL AND c.accepted_drafts IS NULL))
),
equal AS (
    SELECT run, bool_and(observed = due + 1) AS root, bool_and(observed = due - 1 AND cut IS NOT NULL) AS emitted,
        bool_and(observed = tree_depth) AS tree, bool_and(observed = nodes) AS nodes, bool_and(observed = budget) AS budget, bool_and(observed = accepted[-1]) AS "row",
        bool_and(observed = of_batch AND batch > 1) AS batch, count(*) > 2 AND (bool_and(abs(observed - mean) < 1e-6) OR bool_and(abs(observed - mean_of_run) < 1e-6)) AS mean
    FROM wrong GROUP BY run
),
named AS (
    SELECT run, CASE WHEN root THEN 'the root is counted' WHEN emitted THEN 'it is what was emitted less one, though no bonus was sent' WHEN tree THEN 'the tree is that deep'
            WHEN nodes THEN 'the tree has so many nodes' WHEN budget THEN 'it is the budget' WHEN "row" THEN 'it is the number of the last accepted row'
            WHEN batch THEN 'it is the largest of the batch' WHEN mean THEN 'it is the mean of all steps so far' END AS equals,
        nullif(concat_ws(', ', CASE WHEN emitted THEN 'F67' END, CASE WHEN tree OR nodes OR budget OR "row" THEN 'F20' END, CASE WHEN root THEN 'F21' END, CASE WHEN batch THEN 'F59' END, CASE WHEN mean THEN 'F60' END), '') AS faults,
        emitted AS harmless
    FROM equal
)
SELECT run, format('accepted depth is {:.0f} on all {} {}s, which is {}; {:.2f} drafts are accepted on average', depth, rows, unit, equals, accepted_drafts) AS message, NULL AS severity,
    depth AS accepted_depth, accepted_drafts, rows, NULL AS request, NULL AS step, 'F20' AS faults, lines
FROM constant WHERE equals IS NOT NULL AND run NOT IN (SELECT run FROM wrong)
UNION ALL
SELECT run, format('{}: {} is {:.4g}, by the accepted rows it is {}{}', in_step(request, step, steps), replace(field, '_', ' '), TRY_CAST(observed AS DOUBLE), expected, coalesce('; ' || equals, '')),
    CASE WHEN harmless THEN 'low' ELSE 'critical' END, TRY_CAST(observed AS DOUBLE), TRY_CAST(expected AS DOUBLE), steps, request, step, coalesce(faults, 'F20, F59, F60'), lines
FROM broken(['I1'], ['accepted_depth', 'accepted_drafts', 'commit_len']) JOIN named USING (run)
