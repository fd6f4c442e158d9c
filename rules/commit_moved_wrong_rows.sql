-- title    = "The commit keeps rows that were not accepted"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["accepted", "kv_source"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record source and target rows of the commit; checksums prove the bytes (--trace-detail checksums)"
-- why      = "What stays in the cache are the accepted rows, in their order, and the recurrent state of the last of them. From other rows the next step reads a text that was never written."
-- fix      = [
--   "Gather by the accepted rows before writing: a copy in place is safe in ascending order only.",
--   "Two names of one tensor are compacted twice; a cache group that is left out, never.",
--   "Promote the state of the last accepted row, not that of the row with the number of accepted drafts. A checkpoint for the prefix cache is that of an accepted row, too.",
-- ]
-- formula  = "source rows of the commit = accepted rows, in order; state row = last accepted row"
-- sides    = { "kept by the commit" = "observed", "to be kept" = "expected" }
-- unlike   = [
--   "Rows that are where they belong already and are not copied.",
-- ]
-- explains = ["differs_from_target", "tree_below_chain"]
-- faults   = ["F10", "F11", "F12", "F37", "F38", "F39", "F52", "F61", "F65", "F66"]

SELECT run, CASE field
        WHEN 'kv_source' THEN format('{}: cache rows {} were kept, the accepted ones are {}', in_step(request, step, steps), observed, expected)
        WHEN 'kv_target' THEN format('{}: the accepted rows went to {}, they belong to {}', in_step(request, step, steps), observed, expected)
        WHEN 'state_row' THEN format('{}: the state of row {} was kept, the last accepted row is {}', in_step(request, step, steps), observed, expected)
        WHEN 'checkpoint_rows' THEN format('{}: the prefix cache took the state of row {} for its first {} tokens, which end at row {}', in_step(request, step, steps), observed, entry, expected)
        WHEN 'state_sources' THEN format('{}: row {} went on from the state of row {}, its parent is {}', in_step(request, step, steps), entry, observed, expected)
        WHEN 'kv_after' THEN format('{}: the committed rows do not hold the bytes of the accepted ones', in_step(request, step, steps))
        WHEN 'kv_before' THEN format('{}: rows that the step before committed have changed since', in_step(request, step, steps))
        WHEN 'state_after' THEN format('{}: the state that was kept is not that of the last accepted row', in_step(request, step, steps))
        WHEN 'state_before' THEN format('{}: the state is not the one that the step before left', in_step(request, step, steps))
        ELSE format('{}: the drafter read other features than those of the accepted rows', in_step(request, step, steps))
    END AS message,
    CASE WHEN field = 'feature_in' THEN 'high' END AS severity,
    request, step, field, expected, observed,
    CASE field WHEN 'kv_source' THEN 'F10, F65' WHEN 'kv_target' THEN 'F10, F65' WHEN 'state_row' THEN 'F38, F66' WHEN 'checkpoint_rows' THEN 'F66' WHEN 'state_sources' THEN 'F37' WHEN 'kv_after' THEN 'F10, F11, F52'
        WHEN 'kv_before' THEN 'F52' WHEN 'state_after' THEN 'F39, F38' WHEN 'state_before' THEN 'F39, F38, F52' ELSE 'F12, F61' END AS faults, steps, lines
FROM broken(['commit'], ['kv_source', 'kv_target', 'state_row', 'checkpoint_rows', 'state_sources', 'kv_before', 'kv_after', 'state_after', 'state_before', 'feature_in'])
