-- title    = "Requests queue behind a running limit that speculation lowered"
-- severity = "medium"
-- family   = "capacity"
-- needs    = { decode = ["running", "queued", "usage"], event = [], config = [], run = ["speculates"] }
-- enough   = { decode = 10 }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM decode WHERE queued > 0)"
-- enable   = "keep the decode lines (log level info) of a time with a queue"
-- why      = "With speculation a server runs at most 48 requests unless told otherwise. The rest waits, although the KV pool has room for more."
-- fix      = [
--   "Set --max-running-requests to what the pool holds, and --cuda-graph-max-bs with it, so that the larger batches run from graphs.",
--   "Compare with plain decoding at that batch first: beyond some batch speculation loses (speculation_loses_at_concurrency).",
-- ]
-- formula  = "of decode lines with a queue >= 80 % at the limit (or one below), KV pool less than half full (median), and the limit is one that the server set: reset line, capacity line, post-capture sizing; divided by the data-parallel ranks"
-- sides    = { "requests running" = "running", "requests waiting" = "queued_most", "KV pool in use" = "usage_median" }
-- unlike   = [
--   "A limit that the user set to this value: a choice.",
--   "Slots of the recurrent state that are used up (state_slots_cap).",
--   "A queue while the first prompts are computed: the batch is not at the limit then.",
--   "A full KV pool: then the limit is memory.",
-- ]
-- causes   = [
--   { name = "default_limit", cause = "the default for speculation (48) applies because no limit was given", test = "--max-running-requests at twice the value: the queue shrinks and the usage rises" },
--   { name = "sized_after_capture", cause = "the limit was lowered after the graphs were captured, to what was left", test = "a lower --mem-fraction-static or fewer captured sizes: the capacity line shows a higher limit" },
--   { name = "per_rank", cause = "the limit is divided by the number of data-parallel ranks", test = "--max-running-requests times the number of ranks: each rank runs more" },
-- ]
-- reports  = ["sgl-project/sglang#34290", "sgl-project/sglang#33199"]
-- params   = { lines = 10, pinned = 0.8, usage = 0.5, state_usage = 0.9 }

WITH size AS (
    SELECT run, rank, running, count(*) AS rows FROM decode WHERE complete AND running > 0 AND queued > 0 GROUP BY run, rank, running
),
held AS (  -- at one size
    SELECT run, rank, most FROM (SELECT *, max(running) OVER (PARTITION BY run, rank) AS most FROM size) GROUP BY run, rank, most
    HAVING sum(rows) FILTER (running >= most - 1) >= $lines AND sum(rows) FILTER (running >= most - 1) >= $pinned * sum(rows)
),
queued AS (
    SELECT d.run, coalesce(d.rank, '') AS rank, d.source, d.line, d.running, d.queued, greatest(d.usage, d.swa_usage) AS full, d.state_usage, h.most
    FROM decode d JOIN held h ON h.run = d.run AND h.rank IS NOT DISTINCT FROM d.rank WHERE d.complete AND d.running > 0 AND d.queued > 0
),
pinned AS (
    SELECT run, rank, any_value(most) AS most, count(*) AS lines, count(*) FILTER (running >= most - 1) AS at_limit,
        median("full") AS usage, median(state_usage) AS state_usage, arg_min(queued, line) AS queued_first, arg_max(queued, line) AS queued_last, max(queued) AS queued_most,
        [arg_min(cite(source, line), line), arg_max(cite(source, line), {'q': queued, 'l': line})] AS proof
    FROM queued GROUP BY run, rank
    HAVING median("full") < $usage AND NOT coalesce(median(state_usage) >= $state_usage, false) AND max(queued) >= 2
),
argument AS (
    SELECT run, arg_max(TRY_CAST(value AS DOUBLE), line) FILTER (key IN ('max_running_requests', 'max_num_seqs')) AS asked,
        coalesce(bool_or(key = 'max_running_requests' AND value IN ('None', 'null')), false) AS unasked,
        coalesce(arg_max(TRY_CAST(value AS DOUBLE), line) FILTER (key = 'dp_size'), 1) AS ranks
    FROM config GROUP BY run
),
-- The last word on the limit: the capacity line is printed by a rank, the reset line by the launcher.
limits AS (
    SELECT run, kind, "after" AS value, before, cite(source, line) AS place FROM event WHERE kind IN ('running_limit', 'capacity') AND "after" > 0
),
announced AS (SELECT run, max(value) AS limit_announced, arg_max(place, value) AS announcement FROM limits WHERE kind = 'running_limit' GROUP BY run),
bound AS (
    SELECT p.*, l.value AS running_limit, l.kind, l.before, l.place, coalesce(a.ranks, 1) AS ranks, a.asked, coalesce(a.unasked, false) AS unasked,
        CASE WHEN l.kind = 'capacity' AND n.limit_announced > l.value * greatest(1, coalesce(a.ranks, 1)) THEN n.limit_announced END AS limit_announced, n.announcement
    FROM pinned p JOIN limits l USING (run) LEFT JOIN argument a USING (run) LEFT JOIN announced n USING (run)
    WHERE p.most IN (l.value, floor(l.value / greatest(1, coalesce(a.ranks, 1))))
        AND p.run NOT IN (SELECT run FROM event WHERE kind = 'state_limit')
    QUALIFY row_number() OVER (PARTITION BY p.run ORDER BY p.lines DESC, p.rank, l.kind = 'running_limit' DESC, l.place.line) = 1
)
-- Arguments are printed as resolved from 0.5.19 on: only the reset line tells that nobody asked for it.
SELECT
    run,
    format('running stays at {} on {} of {} decode lines with a queue (up to {} waiting) while the KV pool is {:.0f} % full: {}', most, at_limit, lines, queued_most, 100 * usage,
        CASE WHEN before > running_limit THEN format('the limit was lowered from {:.0f} to {:.0f} at start', before, running_limit)
             WHEN kind = 'running_limit' THEN format('the limit was reset to {:.0f} because of speculation', running_limit)
             ELSE format('the server came up with a limit of {:.0f}{}', running_limit, CASE WHEN limit_announced IS NOT NULL THEN format(', although it announced {:.0f}', limit_announced)
                 WHEN unasked THEN ', which nobody asked for' ELSE '' END) END
        || CASE WHEN most < running_limit AND ranks > 1 THEN format(', {} on each of {:.0f} ranks', most, ranks) ELSE '' END) AS message,
    -- whether somebody chose it is not known
    CASE WHEN kind = 'capacity' AND NOT unasked AND limit_announced IS NULL THEN 'low' END AS severity,
    [CASE WHEN most < running_limit THEN 'per_rank' WHEN before > running_limit THEN 'sized_after_capture' ELSE 'default_limit' END] AS causes,
    most AS running, running_limit, ranks, usage AS usage_median, queued_first, queued_last, queued_most, at_limit AS lines_at_limit,
    list_concat(CASE WHEN limit_announced IS NOT NULL THEN [announcement, place] ELSE [place] END, proof) AS lines
FROM bound
WHERE NOT (kind = 'capacity' AND coalesce(asked IN (most, running_limit), false))
