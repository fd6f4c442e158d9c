-- title    = "The drafter reads another context than the text"
-- severity = "high"
-- family   = "trace"
-- needs    = { step = ["ctx_len", "draft_kv_after"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the drafter's input and the length of its cache on both sides"
-- why      = "The drafter sees one row of target features for every committed token, from the rows that were accepted, and a block of the root and mask ids. Anything else costs acceptance and never the text, so nobody notices."
-- fix      = [
--   "Take the features of the accepted rows, in their order: the first C rows are the same on a chain only.",
--   "Crop the block from the draft cache after drafting.",
--   "Append the rows of the last step only; the whole context again is right but grows with it.",
-- ]
-- formula  = "draft cache after a step = context after it; rows appended = accepted rows of the step before (identity I7)"
-- sides    = { "used by the drafter" = "observed", "to be used" = "expected" }
-- unlike   = [
--   "A drafter with a cache that is trimmed to its window.",
-- ]
-- explains = ["draft_never_accepted", "acceptance_low_from_start", "acceptance_decays_with_context", "tree_below_chain", "slower_than_baseline", "step_time_superlinear", "text_is_hard", "stage_grows_with_context", "window_not_applied"]
-- faults   = ["F12", "F13", "F14", "F24", "F25", "F26", "F41", "F45", "F46", "F50", "F61", "F63"]

SELECT run, CASE field
        WHEN 'tap_layers' THEN format('{}: the features are those of layers {}, the drafter was made for {}', in_step(request, step, steps), observed, expected)
        WHEN 'tap_alias' THEN format('{}: the features are those of layers {}, they have to be {}: taps share a buffer (-1: no layer gave it)', in_step(request, step, steps), observed, expected)
        WHEN 'draft_turns' THEN format('{}: draft layer {} turns the root by {}, its rotary base and factor make {}', in_step(request, step, steps), entry, observed, expected)
        ELSE format('{}: {} is {}, it has to be {}', in_step(request, step, steps), replace(field, '_', ' '), observed, expected) END AS message,
    request, step, field, expected, observed,
    CASE field
        WHEN 'context_source' THEN 'F12'
        WHEN 'block_root' THEN 'F26'
        WHEN 'block_mask' THEN 'F25'
        WHEN 'block_width' THEN 'F41'
        WHEN 'block_start' THEN 'F14'
        WHEN 'context_rows' THEN CASE WHEN TRY_CAST(observed AS BIGINT) > TRY_CAST(expected AS BIGINT) THEN 'F46' ELSE 'F14, F63' END
        WHEN 'draft_kv_before' THEN CASE WHEN step = 0 THEN 'F50' WHEN TRY_CAST(observed AS BIGINT) > TRY_CAST(expected AS BIGINT) THEN 'F45' ELSE 'F63' END
        WHEN 'tap_layers' THEN 'F13'
        WHEN 'tap_alias' THEN 'F61'
        WHEN 'draft_turns' THEN 'F24'
        WHEN 'draft_kv_after' THEN CASE WHEN step = 0 THEN 'F50, F63' WHEN TRY_CAST(observed AS BIGINT) > TRY_CAST(expected AS BIGINT) THEN 'F45' ELSE 'F63' END
        ELSE 'F14' END AS faults, steps, lines
FROM broken(['I7', 'taps', 'rope'], ['tap_alias', 'tap_layers', 'block_root', 'block_mask', 'block_width', 'block_start', 'context_rows', 'draft_kv_before', 'draft_kv_after', 'context_start', 'context_source', 'draft_turns'])
