-- title    = "Requests go on after their clients have left"
-- severity = "high"
-- family   = "capacity"
-- needs    = { run = ["server"], event = [], decode = [] }
-- applies  = "server"
-- why      = "The front end has dropped a request that the scheduler still decodes, up to its token limit: it holds a place in the batch and its slots, and every step of it writes a line. A few of them fill a server that looks busy and answers nobody."
-- fix      = [
--   "Update: forwarding the abort when a client disconnects was broken in some releases (SGLang 0.5.18 and 0.5.19 among them).",
--   "Until then give every request a token limit, and restart when running never falls to zero.",
--   "Look at what makes clients leave: a timeout shorter than an answer, a gateway that retries.",
-- ]
-- formula  = "a request for which output without an owner arrives at least 10 times over at least 10 s; health checks left out"
-- sides    = { "went on without a client" = "longest_s", "outputs without an owner" = "times" }
-- unlike   = [
--   "A few such lines within a second or two of an abort: the step was under way.",
--   "Health checks, which drop their request as soon as any sign of life comes.",
-- ]
-- causes   = [
--   { name = "disconnect", cause = "a client left in the middle of a stream and the abort was not passed on", test = "cancel one streaming request by hand: its lines go on after 10 s" },
--   { name = "batch_transition", cause = "the abort came while the request moved between batches and was lost", test = "cancel many requests at once: some of them go on, others stop" },
-- ]
-- reports  = ["sgl-project/sglang#36333", "sgl-project/sglang#36876", "sgl-project/sglang#37833"]
-- explains = ["running_cap_lowered", "throughput_decays_with_uptime"]
-- params   = { times = 10, seconds = 10.0 }

WITH orphan AS (
    SELECT run, name AS request, count(*) AS times, min(time) AS first_time, max(time) AS last_time,
        arg_min(cite(source, line), line) AS first_place, arg_max(cite(source, line), line) AS last_place
    FROM event WHERE kind = 'zombie' AND name IS NOT NULL AND NOT name ILIKE '%health%' GROUP BY run, name
),
lasting AS (
    SELECT * FROM orphan WHERE times >= $times AND epoch(last_time) - epoch(first_time) >= $seconds
),
summed AS (
    SELECT run, count(*) AS requests, sum(times)::BIGINT AS times, min(first_time) AS first_time, max(last_time) AS last_time,
        arg_max(request, times) AS worst, max(times) AS worst_times, max(epoch(last_time) - epoch(first_time)) AS longest_s,
        list_concat([arg_min(first_place, first_place.line), arg_max(last_place, last_place.line)], arg_max(first_place, times, 2)) AS places
    FROM lasting GROUP BY run
),
-- The least that ran in that time: it never falls below the number of zombies.
beside AS (
    SELECT s.run, min(d.running) AS least, max(d.queued) AS queued
    FROM summed s JOIN decode d ON d.run = s.run AND d.time BETWEEN s.first_time AND s.last_time WHERE d.complete GROUP BY s.run
)
SELECT
    run,
    format('{} {} on for up to {:.0f} s after {} client left: output without an owner arrived {:,} times from {} to {}{}{}', requests,
        CASE WHEN requests = 1 THEN 'request went' ELSE 'requests went' END, longest_s, CASE WHEN requests = 1 THEN 'its' ELSE 'their' END, times,
        strftime(first_time, '%H:%M:%S'), strftime(last_time, '%H:%M:%S'),
        CASE WHEN least > 0 THEN format('; never fewer than {} running in that time', least) ELSE '' END,
        CASE WHEN queued > 0 THEN format(', up to {} waiting', queued) ELSE '' END) AS message,
    requests, times, first_time, last_time, longest_s, worst AS worst_request, worst_times, least AS least_running, queued AS queued_most,
    list_distinct(places) AS lines
FROM summed LEFT JOIN beside USING (run)
