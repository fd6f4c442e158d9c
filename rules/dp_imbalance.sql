-- title    = "One data-parallel rank is loaded, the others wait"
-- severity = "medium"
-- family   = "capacity"
-- needs    = { decode = ["running", "time"], prefill = [], event = [], run = ["server"] }
-- enough   = { decode = 20 }
-- applies  = "run IN (SELECT run FROM (SELECT DISTINCT run, rank FROM decode) WHERE regexp_matches(coalesce(rank, ''), 'DP[0-9]+|^0*[1-9][0-9]*$'))"
-- enable   = "keep the decode lines of all ranks for some minutes"
-- why      = "With data-parallel attention all ranks take each step together: the rank with the most requests sets its time, and what queues there could run on another rank at no cost."
-- fix      = [
--   "Route by load: --load-balance-method total_requests or total_tokens (older: minimum_tokens, shortest_queue), or let the router read each rank's load.",
--   "Look for what binds requests to a rank: cache-aware or sticky routing with one long shared prefix, round robin over requests of very different length.",
--   "If stickiness is wanted for its cache hits, compare both: hits lost against ranks that idle.",
-- ]
-- formula  = "load = running + queued per rank in equal windows of time; most > 3 x least and most - least >= 8 in >= 60 % of the windows between ramp-up and drain, the same rank on top in most of them"
-- sides    = { "requests, fullest rank" = "load_most", "requests, emptiest rank" = "load_least", "mean of the ranks" = "load_mean" }
-- unlike   = [
--   "Ramp-up and drain, which no router balances: windows with less than half of the usual load are left out.",
--   "Ranks that take turns at the top.",
--   "Pipeline stages and tensor-parallel ranks, which repeat each other's lines.",
-- ]
-- causes   = [
--   { name = "routing", cause = "requests are dealt out without regard to the load", test = "the same traffic with --load-balance-method total_tokens: the loads come together" },
--   { name = "sticky", cause = "a shared prefix or a session key binds the traffic to one rank", test = "random prompts without a common prefix: the loads are even" },
--   { name = "long_requests", cause = "the rank holds the long answers and is never emptied", test = "the same traffic with one token limit for all: the loads are even" },
-- ]
-- reports  = ["sgl-project/sglang#6872", "sgl-project/sglang#35898"]
-- params   = { factor = 3.0, requests = 8.0, share = 0.6, windows = 8, window_s = 4.0 }

-- A data-parallel rank of SGLang is part of the rank's name, an engine of vLLM is a bare number.
WITH spoken AS (
    SELECT run, source, line, time, replica, running, queued FROM (
        SELECT run, source, line, time, CASE WHEN regexp_matches(rank, 'DP[0-9]+') THEN regexp_extract(rank, 'DP[0-9]+') WHEN regexp_matches(rank, '^[0-9]+$') THEN rank END AS replica,
            running, coalesce(queued, 0) + coalesce(preallocated, 0) AS queued
        FROM decode WHERE complete AND running IS NOT NULL AND time IS NOT NULL
            AND run IN (SELECT run FROM (SELECT DISTINCT run, rank FROM decode) WHERE regexp_matches(rank, 'DP[0-9]+|^[0-9]+$'))
    ) WHERE replica IS NOT NULL
),
-- Windows in which every busy rank speaks: two of its intervals, at least some seconds.
pace AS (
    SELECT run, greatest($window_s, 2 * median(apart)) AS window_s
    FROM (SELECT run, epoch(time) - epoch(lag(time) OVER (PARTITION BY run, replica ORDER BY time, line)) AS apart FROM spoken) GROUP BY run
),
-- A rank that has nothing to do says nothing. It counts if it was ever heard of.
replica AS (
    SELECT run, replica FROM spoken
    UNION SELECT run, regexp_extract(rank, 'DP[0-9]+') FROM event WHERE regexp_matches(coalesce(rank, ''), 'DP[0-9]+')
    UNION SELECT run, regexp_extract(rank, 'DP[0-9]+') FROM prefill WHERE regexp_matches(coalesce(rank, ''), 'DP[0-9]+')
),
moment AS (
    SELECT s.run, s.replica, floor(epoch(s.time) / p.window_s) AS slot, avg(s.running + s.queued) AS load, avg(s.running) AS running, max(s.queued) AS queued,
        arg_max(cite(s.source, s.line), (s.running + s.queued, s.source, s.line)) AS place
    FROM spoken s JOIN pace p USING (run) GROUP BY s.run, s.replica, slot
),
grid AS (
    SELECT w.run, w.slot, r.replica, coalesce(m.load, 0) AS load, coalesce(m.running, 0) AS running, coalesce(m.queued, 0) AS queued, m.place
    FROM (SELECT DISTINCT run, slot FROM moment) w JOIN replica r USING (run) LEFT JOIN moment m ON m.run = w.run AND m.slot = w.slot AND m.replica = r.replica
),
compared AS (
    SELECT run, slot, count(*) AS ranks, max(load) AS most, min(load) AS least, sum(load) AS total, arg_max(replica, (load, replica)) AS top, arg_min(replica, (load, replica)) AS bottom,
        arg_max(queued, (load, replica)) AS queued, arg_max(place, (load, replica)) AS place, arg_min(place, (load, replica)) AS other
    FROM grid GROUP BY run, slot HAVING count(*) > 1
),
settled AS (
    SELECT * FROM (SELECT *, median(total) OVER (PARTITION BY run) AS usual,
        row_number() OVER (PARTITION BY run ORDER BY slot) AS nth, row_number() OVER (PARTITION BY run ORDER BY slot DESC) AS last FROM compared)
    WHERE total >= usual / 2 AND nth > 1 AND last > 1
),
uneven AS (
    SELECT *, most > $factor * least AND most - least >= $requests AS uneven FROM settled
),
summed AS (
    SELECT run, count(*) AS windows, count(*) FILTER (uneven) AS uneven, any_value(ranks) AS ranks, mode(top) FILTER (uneven) AS top, mode(bottom) FILTER (uneven) AS bottom,
        median(most) FILTER (uneven) AS most, median(least) FILTER (uneven) AS least, median(total / ranks) FILTER (uneven) AS mean, max(queued) FILTER (uneven) AS queued
    FROM uneven GROUP BY run
)
SELECT
    s.run,
    format('{} holds {:.0f} requests while {} holds {:.0f} (medians of {} of {} windows, {} ranks, {:.0f} on average){}', s.top, s.most, s.bottom, s.least, s.uneven, s.windows, s.ranks, s.mean,
        CASE WHEN s.queued > 0 THEN format('; up to {} wait on it', s.queued) ELSE '' END) AS message,
    s.top AS loaded_rank, s.most AS load_most, s.bottom AS idle_rank, s.least AS load_least, s.mean AS load_mean, s.queued AS queued_most, s.windows, s.uneven AS windows_uneven,
    (SELECT list_concat(first_few(list(place)), first_few(list(other)))[:4] FROM (SELECT place, other FROM uneven u WHERE u.run = s.run AND u.uneven ORDER BY slot LIMIT 2)) AS lines
FROM summed s
WHERE s.windows >= $windows AND s.uneven >= $share * s.windows
    AND (SELECT count(*) FROM uneven u WHERE u.run = s.run AND u.uneven AND u.top = s.top) >= $share * s.uneven
