-- title    = "A draft was accepted that the target did not choose"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["accepted", "node_tokens", "target_tokens"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the tokens of the nodes and the target choice at every row"
-- why      = "An exact rule accepts a node only if it carries the target's choice at its parent. A draft accepted without that is text that the target did not write."
-- fix      = [
--   "Is acceptance simulated, or a threshold below 1 in use? Both accept what the target did not choose.",
--   "Compare the tokens of the tree with those that were verified: padding, an exchanged row or a stale buffer shifts one against the other.",
-- ]
-- formula  = "token(row) = target(parent(row)) for each accepted row (identity I2)"
-- sides    = { "token accepted" = "observed", "token the target chose" = "expected" }
-- unlike   = [
--   "A run with simulated acceptance: it says so in its settings, and is told once for all.",
--   "A last row that was cut by a stop.",
-- ]
-- explains = ["walk_stopped_early", "bonus_from_wrong_row", "differs_from_target", "emitted_differs_from_accepted", "acceptance_too_perfect"]
-- faults   = ["F31", "F32", "F33", "F58", "F36"]

SELECT run, format('{}: row {} was accepted with token {}, the target chose {} at its parent', in_step(request, step, steps), entry, observed, expected) AS message,
    request, step, field, expected, observed, CASE WHEN observed = '0' OR expected = '0' THEN 'F31' ELSE 'F58, F31' END AS faults, steps, lines
FROM broken(['I2'], [])
