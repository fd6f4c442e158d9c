-- title    = "Rows see more or less than their ancestors"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["visible", "parents"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the mask as a layer was given it (--trace-detail mask)"
-- why      = "A row sees the whole past, its ancestors and itself. One sibling too many and the target answers for a text that nobody will write; acceptance can even rise by it."
-- fix      = [
--   "Clear the rectangle of the step before: its columns are past now.",
--   "Padding is seen by nobody, and sees at least one column.",
--   "Check the stride and the offset of each request in a flattened mask with two requests of different length.",
-- ]
-- formula  = "visible(row) = visible(parent) + the row itself, and all of the past"
-- sides    = { "seen by the row" = "sees", "its own path" = "may_see" }
-- unlike   = [
--   "A sliding layer, which hides what lies behind its window.",
-- ]
-- explains = ["differs_from_target", "tree_below_chain"]
-- faults   = ["F5", "F6", "F35"]

SELECT run, CASE
        WHEN field LIKE 'visible%' THEN format('{}: row {} sees the tree rows 0x{}, its ancestors and itself are 0x{}', in_step(request, step, steps), entry, observed, expected)
        ELSE format('{}: row {} sees {} columns of the past, there are {}', in_step(request, step, steps), entry, observed, expected)
    END AS message,
    request, step, field, expected, observed,
    CASE WHEN field LIKE 'visible%' THEN '0x' ELSE '' END || observed AS sees, CASE WHEN field LIKE 'visible%' THEN '0x' ELSE '' END || expected AS may_see, CASE field WHEN 'visible' THEN 'F6, F5' WHEN 'visible_more' THEN 'F5' ELSE 'F35, F6' END AS faults, steps, lines
FROM broken(['mask'], ['visible', 'visible_more', 'past_visible'])
