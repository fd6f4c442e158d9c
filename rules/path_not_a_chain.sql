-- title    = "Accepted rows are no path of the tree"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["accepted", "parents"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record accepted rows and parents of every step"
-- why      = "The walk goes from the root to a child, and on to a child of that. Rows that do not follow each other as parent and child were not walked: either the list is wrong, or the tree that was verified is not the one on record."
-- fix      = [
--   "Compare the parents that the walk reads with those that built the mask: a tree that was sorted again needs both renumbered.",
--   "Look at the drawing of the step (`specdiag tree`): where the path leaps, one of the two rows is from another tree.",
-- ]
-- formula  = "parent(accepted[i + 1]) = accepted[i], accepted[0] = root (identity I1)"
-- sides    = { "row that is its parent" = "observed", "row accepted before it" = "expected" }
-- unlike   = [
--   "Row numbers that leave the root out: one less everywhere is a convention.",
-- ]
-- explains = ["accepted_token_mismatch", "bonus_from_wrong_row", "walk_stopped_early", "emitted_differs_from_accepted", "depth_contradicts_commit", "counter_is_not_acceptance", "differs_from_target", "commit_moved_wrong_rows", "kv_length_wrong"]
-- faults   = ["F8", "F20", "F42", "F58", "F65"]

SELECT run, format('{}: accepted row {} follows row {}, but its parent is row {}', in_step(request, step, steps), entry, expected, observed) AS message,
    request, step, field, expected, observed, 'F8, F58' AS faults, steps, lines
FROM broken(['I1'], ['accepted'])
