-- title    = "The device is idle because the host is slow"
-- severity = "medium"
-- family   = "speed"
-- needs    = { profile = ["busy_ms", "host_gap_ms"], profile_gap = [], profile_stage = [] }
-- applies  = "run IN (SELECT run FROM profile)"
-- enable   = "record the profiler trace with activities CPU and CUDA: without the launches nobody knows what a gap waits for"
-- why      = "A device works as fast as it is given work. Where work is launched only after the device ran dry, its next step waits for Python, for a copy to the host, or for launches one by one: a faster kernel gains nothing there."
-- formula  = "host_gap_ms / window_ms >= 0.3 over at least 20 marked steps (2000 kernels where none is marked); a gap is the host's where the work that ends it was launched after it began"
-- sides    = { "device at work" = "busy_share", "waiting for the host" = "host_gap_share" }
-- unlike   = [
--   "Pauses: nothing for more than three steps means that nobody asked for anything, and is left out.",
--   "Gaps that end with work launched before they began: a copy, another stream or another rank is waited for.",
--   "A trace with Python stacks: recording them slows the host down, so it is told as low at most.",
-- ]
-- causes   = [
--   { name = "launches", cause = "kernels are launched one by one: no graph covers draft or verification", test = "the same trace with graphs enabled for draft and verification: launches per step fall to a few, and the gaps with them" },
--   { name = "synchronisation", cause = "the host asks the device in the middle of a step, and only then launches on", test = "count synchronising calls and copies to the host between two launches of a step: one a step is needed, at its end" },
--   { name = "host_work", cause = "the host computes between the steps: tree walk, masks, scheduling, detokenising", test = "overlap scheduling on, or one request alone: the gap between steps shrinks if the scheduler made it" },
-- ]
-- fix      = [
--   "Look at what stands around the longest gaps: it is quoted below.",
--   "Capture draft and verification in graphs for the batch sizes that occur.",
--   "Fetch what the host needs in one copy at the end of the step, and launch the next step before it is looked at.",
-- ]
-- explains = ["slower_than_baseline", "host_bound_step"]
-- params   = { share = 0.3, steps = 20, kernels = 2000, launches = 24.0, waits = 0.1 }

-- One device speaks for its run: the one with the largest share.
WITH judged AS (
    SELECT *, host_gap_ms / window_ms AS share, launches / nullif(steps, 0) AS launches_per_step
    FROM profile
    WHERE window_ms > 0 AND host_gap_ms IS NOT NULL
        AND CASE WHEN steps > 0 THEN steps >= $steps ELSE kernels >= $kernels END
),
worst AS (SELECT * FROM judged QUALIFY row_number() OVER (PARTITION BY run ORDER BY share DESC, source, device) = 1),
cited AS (
    SELECT run, source, device, arg_max(after, gap_ms) AS after, max(gap_ms) AS longest_ms, arg_max(cite(source, line), gap_ms, 4) AS lines
    FROM profile_gap WHERE host GROUP BY run, source, device
)
SELECT run,
    format('device {} works {:.0f} % of {:,.0f} ms and waits {:.0f} % of them for launches of the host{}{}', device, 100 * busy_ms / window_ms, window_ms, 100 * share,
        CASE WHEN steps > 0 THEN format(': {:.2f} of {:.2f} ms a step, {:.0f} launches', host_gap_ms / steps, window_ms / steps, launches_per_step) ELSE '' END,
        CASE WHEN longest_ms IS NOT NULL THEN format('; the longest time is {:.2f} ms, before {}', longest_ms, shortened(after, 60)) ELSE '' END) AS message,
    CASE WHEN stacks THEN 'low' END AS severity,
    share AS impact,
    busy_ms / window_ms AS busy_share, share AS host_gap_share, host_gap_ms, window_ms, steps, launches_per_step, graph_launches, wait_ms, longest_ms,
    list_filter([
        CASE WHEN launches_per_step >= $launches AND coalesce(graph_launches, 0) < 0.5 * steps THEN 'launches' END,
        CASE WHEN wait_ms >= $waits * window_ms THEN 'synchronisation' END,
        'host_work'
    ], lambda cause: cause IS NOT NULL) AS causes,
    lines
FROM worst LEFT JOIN cited USING (run, source, device)
WHERE share >= $share
