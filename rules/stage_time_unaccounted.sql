-- title    = "The stages do not add up to the step"
-- severity = "medium"
-- family   = "trace"
-- needs    = { step = ["step_ms", "draft_ms", "verify_ms", "ctx_len"] }
-- enough   = 16
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the time of the whole step beside those of its stages"
-- why      = "Drafting, verification and what is between them make the step. Time that no stage has is waiting: for the host, for a copy, for another process on the device. Stages that are timed on the device alone hide it, and the step that users wait for does not get faster by making them faster."
-- fix      = ["Time the stages where they begin and end for the host, without gaps between them, once beside the device's own times.", "Count what the host does between two launches: building the tree, copying metadata, scheduling, sending tokens."]
-- formula  = "1 - (draft + verify + ... + commit) / step at least 0.3 over at least 16 steps"
-- sides    = { "all stages" = "accounted_ms", "step" = "step_ms" }
-- unlike   = [
--   "Stages that are printed for a part of the step only, where the step's own time is missing.",
-- ]
-- causes   = [
--   { name = "host", cause = "the host works between two launches", test = "a profile of ten steps: gaps on the device" },
--   { name = "clock", cause = "stages are timed on the device and the step on the host", test = "both timed with the same clock" },
-- ]
-- explains = ["slower_than_baseline"]
-- params   = { share = 0.3, rows = 16 }

WITH told AS NOT MATERIALIZED (
    SELECT run, source, line, step_ms,
        greatest(draft_ms, 0) + greatest(topk_ms, 0) + greatest(build_ms, 0) + greatest(compile_ms, 0) + greatest(verify_ms, 0) + greatest(walk_ms, 0) + greatest(commit_ms, 0)
            + CASE WHEN other_ms IS NULL THEN 0 ELSE coalesce(list_sum(list_filter([TRY_CAST(json_extract_string(other_ms, '$."' || key || '"') AS DOUBLE) FOR key IN json_keys(other_ms)],
                lambda ms: ms > 0)), 0) END AS accounted_ms
    FROM step WHERE ctx_len > 0 AND draft_ms > 0 AND verify_ms > 0 AND NOT coalesce(warmup, false)
),
-- A step without a time of its own is as long as its stages.
summed AS NOT MATERIALIZED (SELECT * REPLACE (CASE WHEN step_ms > 0 THEN step_ms ELSE accounted_ms END AS step_ms) FROM told),
suspect AS (  -- three of four steps must have a gap, or nearly so
    SELECT run FROM summed GROUP BY run HAVING count(*) >= $rows AND count(*) FILTER (1 - accounted_ms / step_ms > $share / 2) >= 0.6 * count(*)
),
judged AS (
    SELECT run, count(*) AS steps, median(step_ms) AS step_ms, median(accounted_ms) AS accounted_ms, 1 - median(accounted_ms) / median(step_ms) AS unaccounted,
        quantile_cont(1 - accounted_ms / step_ms, 0.25) AS low, arg_min(cite(source, line), (source, line), 4) AS lines
    FROM summed WHERE run IN (FROM suspect) GROUP BY run
)
SELECT run, format('{:.0f} % of the step is in no stage: the stages make {:.1f} ms of {:.1f} ms, in the median of {} steps', 100 * unaccounted, accounted_ms, step_ms, steps) AS message,
    steps, step_ms, accounted_ms, unaccounted, lines
FROM judged WHERE unaccounted > $share AND low > $share / 2
