-- title    = "The device waits for the host's walk"
-- severity = "medium"
-- family   = "trace"
-- needs    = { step = ["walk_ms", "step_ms"] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the times of the stages"
-- why      = "To walk a tree takes a few comparisons a node once the choices are on the host. Where it takes a large part of the step, the host asks the device once a node, or the device idles while it computes."
-- fix      = ["Fetch the choices of all rows in one copy, then walk.", "Count the synchronisations of a step: one or two, whatever the tree's size."]
-- formula  = "walk / step at least 0.3 over at least 8 steps"
-- sides    = { "walk on the host" = "walk_ms", "step" = "step_ms" }
-- unlike   = [
--   "A first step that compiles or allocates.",
--   "A device that is so fast that everything is host: compare with plain decoding.",
-- ]
-- causes   = [
--   { name = "synchronise", cause = "the walk asks the device for each node", test = "the number of synchronisations a step at budgets 8 and 64: it grows with the nodes" },
--   { name = "python", cause = "the walk is a Python loop over tensors", test = "the same loop over lists that were fetched in one copy" },
-- ]
-- reports  = ["sgl-project/sglang#27509"]
-- explains = ["slower_than_baseline"]
-- faults   = ["F48"]
-- params   = { share = 0.3, steps = 8 }

WITH timed AS (
    SELECT run, request, step, source, line, nodes, walk_ms, step_ms, walk_ms / step_ms AS share,
        median(walk_ms / step_ms) OVER (PARTITION BY run, request ORDER BY step ROWS BETWEEN CURRENT ROW AND 6 FOLLOWING) AS ahead
    FROM step WHERE step_ms > 0 AND walk_ms IS NOT NULL AND NOT coalesce(warmup, false)
),
slow AS (
    SELECT run, count(*) AS steps, arg_min(request, (source, line)) AS request, arg_min(step, (source, line)) AS step, median(share) AS share, median(walk_ms) AS walk_ms, median(step_ms) AS step_ms,
        median(1000 * walk_ms / greatest(nodes, 1)) AS us_per_node, arg_min(cite(source, line), (source, line), 4) AS lines
    FROM timed WHERE share > $share AND ahead > $share GROUP BY run
)
SELECT run, format('{}: the walk takes {:.1f} ms, {:.0f} % of the step ({:.0f} us a node)', in_step(request, step, steps), walk_ms, 100 * share, us_per_node) AS message,
    share - 0.02 AS impact, request, step, share, walk_ms, step_ms, us_per_node, 'F48' AS faults, steps, lines
FROM slow WHERE steps >= $steps
