-- title    = "Prompts keep running requests from decoding"
-- severity = "high"
-- family   = "speed"
-- needs    = { prefill = ["running", "time"], decode = [], run = ["server"] }
-- enough   = { prefill = 8 }
-- applies  = "run IN (SELECT run FROM prefill WHERE running > 0 AND coalesce(bootstrapping, inflight) IS NULL GROUP BY run HAVING count(*) >= 8)"
-- why      = "The scheduler computes a prompt whenever one can be admitted, and decodes only when none can. Under a steady arrival of long prompts the requests that are already running wait for seconds per step; they stay longer, more of them pile up, and throughput falls."
-- fix      = [
--   "Give decoding its turn: --prefill-decode-interval or --max-consecutive-prefill-batches where the version has it, or --enable-mixed-chunk (not with speculation).",
--   "Make a turn shorter: a smaller --chunked-prefill-size, fewer prompts at once (--prefill-max-requests).",
--   "Admit less: a lower --max-running-requests or a limit at the router; or separate prefill from decode nodes.",
-- ]
-- formula  = "between two decode lines of a rank: seconds per decode step = running x C / throughput, against the median of lines without prompts; starved where >= 8 prompt batches stand between, each step took >= 10 x as long and >= 0.5 s; all in all >= 25 % of the busy time and three times, or two minutes in one piece"
-- sides    = { "step while prompts run" = "per_step_ms", "step without prompts" = "undisturbed_ms" }
-- unlike   = [
--   "A prefill node, which never decodes.",
--   "The start of a benchmark: prompts are computed while nothing runs yet.",
--   "Few decode lines because --decode-log-interval is large: time per step is taken from the throughput, not from the distance of lines.",
--   "A server at rest between short requests: no prompt waits behind the one that is computed.",
-- ]
-- causes   = [
--   { name = "prefill_first", cause = "prompts go first without a limit, and there is always one to compute", test = "half the arrival rate: decode lines come at their usual distance again" },
--   { name = "chunk_too_large", cause = "each turn of prompts takes long: the chunk is large for this GPU", test = "--chunked-prefill-size 2048: the longest wait between two tokens falls in proportion" },
--   { name = "one_long_prompt", cause = "a single very long prompt is computed chunk by chunk in one go", test = "the same load without the longest prompts: no stall" },
-- ]
-- reports  = ["sgl-project/sglang#32549", "sgl-project/sglang#31395", "sgl-project/sglang#39717"]
-- params   = { batches = 8, slower = 10.0, step_ms = 500.0, freeze_s = 5.0, times = 3, share = 0.25, long_s = 120.0, clean_ms = 200.0, ramp_s = 60.0, rest_s = 20.0, pressed = 0.5, long_prompt = 2000 }

-- What decoding waited for ends with a slow line, or with the log.
WITH report AS NOT MATERIALIZED (
    SELECT run, source, rank, line, time, step_ms FROM decode WHERE complete AND prompt_tokens_per_s IS NULL
),
batch AS (
    FROM prefill WHERE time IS NOT NULL AND running IS NOT NULL AND coalesce(bootstrapping, inflight) IS NULL
),
waiting AS (
    SELECT run FROM report WHERE step_ms >= $step_ms
    UNION
    SELECT b.run FROM batch b LEFT JOIN (SELECT run, source, rank, max(line) AS line FROM report GROUP BY run, source, rank) d
        ON d.run = b.run AND d.source = b.source AND d.rank IS NOT DISTINCT FROM b.rank
    WHERE b.running > 0 AND b.line > coalesce(d.line, 0) GROUP BY b.run, b.source, b.rank HAVING count(*) >= $batches
),
-- Every prompt batch with the decode line that comes next: those of one next line are a stretch.
prompt AS (
    SELECT p.run, coalesce(p.rank, '') AS rank, p.source, p.line, p.time, p.running, p.queued, p.new_tokens, p.pending_tokens, coalesce(d.line, 9000000000) AS next_line, d.time AS next_time, d.step_ms
    FROM batch p
    ASOF LEFT JOIN (SELECT * REPLACE (coalesce(rank, '') AS rank) FROM report WHERE run IN (FROM waiting)) d
        ON d.run = p.run AND d.source = p.source AND d.rank = coalesce(p.rank, '') AND d.line >= p.line
    WHERE p.run IN (FROM waiting)
),
dense AS (
    SELECT run, rank, source, next_line FROM prompt GROUP BY ALL HAVING count(*) FILTER (running > 0) >= $batches
),
-- A pause before a prompt that finds nothing running is a rest, and no part of the stretch.
stretch AS (
    SELECT run, rank, source, next_line, count(*) FILTER (running > 0) AS batches,
        avg((coalesce(queued > 0, false) OR coalesce(pending_tokens > 0, false) OR new_tokens >= $long_prompt)::INTEGER) AS pressed,
        arg_min(running, line) AS running_first, max(running) AS running_most, sum(new_tokens) FILTER (running > 0) AS tokens, max(pending_tokens) AS pending,
        any_value(next_time) IS NOT NULL AS closed, any_value(step_ms) AS step_ms,
        epoch(coalesce(any_value(next_time), max(time))) - epoch(min(time) FILTER (running > 0)) - coalesce(sum(apart_s) FILTER (apart_s > $rest_s AND running = 0 AND line > first_running), 0) AS seconds,
        arg_min(cite(source, line), line) FILTER (running > 0) AS first_place,
        CASE WHEN any_value(next_time) IS NULL THEN arg_max(cite(source, line), line) ELSE cite(source, next_line) END AS last_place
    FROM (
        SELECT *, epoch(time) - epoch(lag(time) OVER w) AS apart_s, min(CASE WHEN running > 0 THEN line END) OVER (PARTITION BY run, rank, source, next_line) AS first_running
        FROM prompt JOIN dense USING (run, rank, source, next_line)
        WINDOW w AS (PARTITION BY run, rank, source, next_line ORDER BY line)
    ) GROUP BY run, rank, source, next_line
),
busy AS (  -- seconds in which anything was said
    SELECT run, 10 * count(DISTINCT ten) AS busy_s FROM (
        SELECT run, floor(epoch(time) / 10) AS ten FROM decode WHERE running > 0 UNION ALL SELECT run, floor(epoch(time) / 10) FROM prefill
    ) WHERE run IN (FROM waiting) GROUP BY run
),
clean AS (
    SELECT run, CASE WHEN count(*) >= 3 THEN median(step_ms) ELSE $clean_ms END AS clean_ms, count(*) AS lines
    FROM decode WHERE usable AND NOT after_prefill AND step_ms > 0 AND run IN (FROM waiting) GROUP BY run
),
-- How many steps lie between two lines, from lines without prompts; without any the server's word.
paced AS (
    SELECT run, median(steps) AS interval FROM (
        SELECT run, 1000 * (epoch(time) - epoch(lag(time) OVER (PARTITION BY run, rank, source ORDER BY line))) / step_ms AS steps
        FROM decode WHERE (run, source, coalesce(rank, '')) IN (SELECT (run, source, rank) FROM stretch WHERE NOT closed)
    ) WHERE steps > 0 GROUP BY run
),
judged AS (
    SELECT s.*, coalesce(c.clean_ms, $clean_ms) AS clean_ms, c.lines >= 3 AS known,
        -- a stretch from rest may first fill the batch; what is over is waited for
        seconds - CASE WHEN coalesce(running_first, 0) = 0 THEN $ramp_s ELSE 0 END AS waited_s,
        CASE WHEN closed THEN s.step_ms ELSE 1000 * seconds / coalesce(p.interval, r.log_interval, 40) END AS per_step_ms
    FROM stretch s JOIN run r USING (run) LEFT JOIN clean c USING (run) LEFT JOIN paced p USING (run)
),
starved AS (
    SELECT *, waited_s >= $freeze_s AND pressed >= $pressed
        AND per_step_ms >= $slower * clean_ms AND per_step_ms >= $step_ms
        -- the open end of a log, and a log without decode lines, must be long beyond doubt
        AND (closed OR waited_s >= $long_s) AS starved
    FROM judged
),
summed AS (
    SELECT run, count(*) FILTER (starved) AS times, sum(waited_s) FILTER (starved) AS waited_s, max(waited_s) FILTER (starved) AS longest_s,
        sum(batches) FILTER (starved) AS batches, sum(tokens) FILTER (starved) AS tokens, median(per_step_ms) FILTER (starved) AS per_step_ms, any_value(clean_ms) AS clean_ms, bool_or(known) AS known,
        arg_min(running_first, next_line) FILTER (starved) AS running_first, max(running_most) FILTER (starved) AS running_most, max(pending) FILTER (starved) AS pending,
        list_concat([arg_max(first_place, waited_s) FILTER (starved), arg_max(last_place, waited_s) FILTER (starved)], arg_min(last_place, next_line, 2) FILTER (starved)) AS lines
    FROM starved GROUP BY run, rank
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY sum(waited_s) FILTER (starved) DESC NULLS LAST, rank) = 1
)
SELECT
    run,
    format('{} {} prompt batches were computed in {:.0f} s while up to {} requests ran{}: a decode step came every {:.1f} s{}{}', CASE WHEN times > 1 THEN format('{} times decoding waited for prompts:', times) ELSE 'decoding waited for prompts:' END,
        batches, waited_s, running_most, CASE WHEN times > 1 THEN format(' (at most {:.0f} s between two decode lines)', longest_s) ELSE '' END, per_step_ms / 1000,
        CASE WHEN known THEN format(' instead of every {:.0f} ms', clean_ms) ELSE '' END,
        CASE WHEN pending > 0 THEN format('; up to {:,} prompt tokens were waiting', pending) ELSE '' END) AS message,
    CASE WHEN waited_s / batches >= 2 THEN ['chunk_too_large'] WHEN times = 1 AND coalesce(running_most - running_first, 0) <= 2 THEN ['one_long_prompt'] ELSE ['prefill_first'] END AS causes,
    times, waited_s, longest_s, waited_s / nullif(busy_s, 0) AS share, batches AS prompt_batches, tokens AS prompt_tokens, per_step_ms, clean_ms, CASE WHEN known THEN clean_ms END AS undisturbed_ms, running_most, pending AS pending_tokens, list_distinct(lines) AS lines
FROM summed JOIN busy USING (run)
WHERE (times >= $times OR longest_s >= $long_s) AND waited_s >= $share * busy_s
