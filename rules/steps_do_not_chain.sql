-- title    = "A step does not begin where the one before it ended"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["ctx_len", "accepted", "request"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record request, step number, root and start of every step"
-- why      = "The root of a step is the bonus of the one before, and its position is behind all that was committed. Otherwise the two sides of the loop keep different books."
-- fix      = [
--   "Find who advances the length: it moves by the accepted drafts and the bonus, once.",
--   "Under overlap the host may be a step ahead of the device: compare after the results have arrived.",
-- ]
-- formula  = "root(step + 1) = bonus(step) and start(step + 1) = start(step) + C (identity I5)"
-- sides    = { "step begins with" = "observed", "step before ended with" = "expected" }
-- unlike   = [
--   "Steps that the trace left out: numbers that do not follow each other are not compared.",
-- ]
-- explains = ["position_wrong", "kv_length_wrong", "draft_context_wrong", "differs_from_target"]
-- faults   = ["F3", "F16", "F17", "F36"]

SELECT run, CASE field
        WHEN 'root' THEN format('{}: the root is {}, the bonus before it was {}', in_step(request, step, steps), observed, expected)
        ELSE format('{}: it starts at {}, the step before ended at {}', in_step(request, step, steps), observed, expected)
    END AS message,
    request, step, field, expected, observed, CASE field WHEN 'root' THEN 'F16, F36' ELSE 'F3, F17' END AS faults, steps, lines
FROM broken(['I5'], ['root', 'ctx_len'])
