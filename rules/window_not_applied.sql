-- title    = "A layer reads another window than it was trained with"
-- severity = "high"
-- family   = "trace"
-- needs    = { step = ["window_low", "ctx_len"], config = [], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the lowest position that each layer reads, and the windows of the layers in the run record"
-- why      = "A sliding layer reads back to its window and no further, a full one to the beginning. In the drafter a wrong window costs acceptance as soon as the context is longer; in the target it changes the text."
-- fix      = [
--   "Pass the window of each layer to the path that verifies trees: a mask of its own replaces the one that had it.",
--   "Check that the window is taken per query, and that positions are not counted from the window.",
-- ]
-- formula  = "lowest position read = start - window + 1 of a sliding layer, 0 of a full one"
-- sides    = { "first position read" = "observed", "first of the window" = "expected" }
-- unlike   = [
--   "A context that is shorter than the window.",
-- ]
-- explains = ["acceptance_decays_with_context", "differs_from_target", "text_is_hard", "position_cliff", "visibility_leak"]
-- faults   = ["F7", "F22", "F23"]

SELECT run, format('{}: {} reads from position {} on, it has to be {}', in_step(request, step, steps),
        CASE WHEN field LIKE 'draft%' THEN format('draft layer {} ({})', entry, CASE WHEN field LIKE '%full%' THEN 'full' ELSE 'sliding' END)
             ELSE format('the {} layers of the target', CASE WHEN field LIKE '%full%' THEN 'full' ELSE 'sliding' END) END, observed, expected) AS message,
    CASE WHEN field LIKE 'target%' THEN 'critical' END AS severity,
    request, step, field, expected, observed,
    CASE WHEN field = 'draft_full_layer' THEN 'F23' WHEN field = 'draft_sliding_layer' THEN 'F22, F23' ELSE 'F7' END AS faults, steps, lines
FROM broken(['window'], [])
