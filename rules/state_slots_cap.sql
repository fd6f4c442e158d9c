-- title    = "Slots for the recurrent state run out long before the KV pool"
-- severity = "high"
-- family   = "capacity"
-- needs    = { decode = ["running", "queued", "usage"], event = [], config = [], run = ["server"] }
-- enough   = { decode = 5 }
-- applies  = "run IN (SELECT run FROM event WHERE kind IN ('state_limit', 'state_cache')) OR run IN (SELECT DISTINCT run FROM decode WHERE state_usage IS NOT NULL)"
-- enable   = "keep the decode lines (log level info) of a time with a queue"
-- why      = "A hybrid model keeps a recurrent state for each request, and with speculation and a prefix cache several of them. Their pool is cut from the memory that is left, so that it may hold two or three requests where the KV pool has room for dozens."
-- fix      = [
--   "Give the state cache more room: --max-mamba-cache-size at slots per request x requests wanted, or a larger --mamba-full-memory-ratio.",
--   "Make a state smaller (--mamba-ssm-dtype bfloat16) or need fewer: fewer draft tokens, another --mamba-scheduler-strategy, no prefix cache.",
--   "Count the KV pool again afterwards: what the states take is missing there.",
-- ]
-- formula  = "requests that fit = floor(state slots / slots per request); running stays there on >= 80 % of the decode lines with a queue, KV pool less than 80 % full"
-- sides    = { "requests running" = "running", "requests waiting" = "queued_most", "KV pool in use" = "usage_median" }
-- unlike   = [
--   "A capped limit that no traffic ever reaches: nothing waits.",
--   "A running limit of 48 on a model without recurrent state (running_cap_lowered).",
--   "State usage of 1.0 without a queue: cached states that can be evicted.",
-- ]
-- causes   = [
--   { name = "slots_per_request", cause = "each request takes several slots: its state, its checkpoints, and the drafts being verified", test = "half the draft tokens, or speculation off: the start-up line shows a higher limit" },
--   { name = "pool_too_small", cause = "the pool of states is derived from leftover memory", test = "--max-mamba-cache-size doubled: running rises to twice the value" },
-- ]
-- reports  = ["sgl-project/sglang#36889", "sgl-project/sglang#23643", "sgl-project/sglang#33004"]
-- explains = ["running_cap_lowered"]
-- params   = { lines = 5, pinned = 0.8, usage = 0.8, state_usage = 0.9, told_usage = 0.5, told_lines = 10 }

WITH said AS (
    SELECT run, arg_max("after", line) FILTER (kind = 'state_limit') AS fits, arg_max(value, line) AS slots,
        arg_max(TRY_CAST(detail AS DOUBLE), line) FILTER (kind = 'state_limit') AS per_request,
        arg_max(before / value, line) FILTER (kind = 'state_cache') AS gb_each, arg_max("after", line) FILTER (kind = 'state_cache') AS drafts_gb,
        coalesce(arg_max(cite(source, line), line) FILTER (kind = 'state_limit'), arg_max(cite(source, line), line)) AS place
    FROM event WHERE kind IN ('state_limit', 'state_cache') AND value > 0 GROUP BY run
),
-- Another limit than this one is not the state cache's doing. Releases before the line that says so
-- lower it without a word: then it is nobody's choice, and no default of speculation either.
limits AS (
    SELECT run, arg_max("after", line) FILTER (kind = 'capacity') AS running_limit, arg_max("after", line) FILTER (kind = 'running_limit') AS reset
    FROM event WHERE kind IN ('capacity', 'running_limit') GROUP BY run
),
argument AS (
    SELECT run, bool_or(key = 'max_running_requests' AND value IN ('None', 'null')) AS unasked,
        coalesce(arg_max(TRY_CAST(value AS DOUBLE), line) FILTER (key = 'dp_size'), 1) AS ranks
    FROM config GROUP BY run
),
asked AS (
    SELECT run, running_limit, coalesce(unasked AND NOT coalesce(running_limit IN (reset, floor(reset / greatest(ranks, 1))), false), false) AS unasked
    FROM limits LEFT JOIN argument USING (run)
),
queued AS (
    SELECT run, coalesce(rank, '') AS rank, source, line, running, queued, greatest(usage, swa_usage) AS usage, state_usage, state_slots,
        max(running) OVER (PARTITION BY run, coalesce(rank, '')) AS most
    FROM decode WHERE complete AND running > 0 AND queued > 0
),
pinned AS (
    SELECT run, rank, any_value(most) AS most, min(running) AS fewest, count(*) AS lines, count(*) FILTER (running >= most - (CASE WHEN most > 8 THEN 1 ELSE 0 END)) AS at_limit, median(usage) AS usage,
        median(state_usage) AS state_usage, median(state_slots / running) AS slots_each, max(queued) AS queued_most,
        [arg_min(cite(source, line), line), arg_max(cite(source, line), {'q': queued, 'l': line})] AS proof
    FROM queued GROUP BY run, rank
    HAVING at_limit >= $lines AND at_limit >= $pinned * count(*)
)
SELECT
    p.run,
    format('running stays at {} on {} of {} decode lines with a queue (up to {} waiting) while the KV pool is {:.0f} % full: {}{}', most, at_limit, lines, queued_most, 100 * usage,
        CASE WHEN s.fits IS NOT NULL THEN format('{:.0f} state slots{} hold {:.0f} requests', s.slots, coalesce(format(' / {:.0f} a request', s.per_request), ''), s.fits)
             ELSE format('the state pool is {:.0f} % full{}', 100 * state_usage, coalesce(format(', {:.0f} slots a request', slots_each), '')) END,
        coalesce(format('; each further request costs {:.2f} GB of states', coalesce(s.per_request, slots_each) * s.gb_each), '')) AS message,
    [CASE WHEN coalesce(s.per_request, slots_each) > 1 THEN 'slots_per_request' ELSE 'pool_too_small' END] AS causes,
    most AS running, s.slots AS state_slots, coalesce(s.per_request, slots_each) AS slots_per_request, coalesce(s.per_request, slots_each) * s.gb_each AS gb_per_request,
    s.drafts_gb AS drafts_gb, usage AS usage_median, state_usage AS state_usage_median, queued_most,
    list_filter(list_concat([s.place], proof), lambda one: one IS NOT NULL) AS lines
FROM pinned p LEFT JOIN said s USING (run) LEFT JOIN asked a USING (run)
WHERE queued_most >= 1 AND CASE
    WHEN s.fits IS NOT NULL THEN most = s.fits AND usage < $usage
    -- Without the server's word the pool itself has to be full, and no other limit in sight.
    ELSE state_usage >= $state_usage AND usage < $told_usage AND at_limit >= $told_lines
        AND (most < coalesce(a.running_limit, most + 1) OR (most = a.running_limit AND a.unasked)) END
QUALIFY row_number() OVER (PARTITION BY p.run ORDER BY at_limit DESC, p.rank) = 1
