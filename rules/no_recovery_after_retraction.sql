-- title    = "Decoding stays slow after the KV pool was full once"
-- severity = "high"
-- family   = "capacity"
-- needs    = { decode = ["running", "tokens_per_s"], event = [], run = ["server"] }
-- enough   = { decode = 20 }
-- applies  = "run IN (SELECT run FROM event WHERE kind = 'retraction')"
-- enable   = "keep the decode lines of some minutes before and after the retraction"
-- why      = "A retraction costs its prompt once more; then the server should be as fast as before. Where the same number of requests decodes at a third of the speed from then on, it has fallen onto another path: graphs, allocator, or a pool that is searched at every step."
-- fix      = [
--   "Restart as a stopgap, and keep the pool below 1.0: fewer running requests, more conservative admission, a smaller context limit.",
--   "Profile ten steps after the retraction and compare them with ten before: the part that grew names the path.",
--   "Update, and report the two step times with the version and the model's attention kinds.",
-- ]
-- formula  = "speed of a request (throughput / running): median of the lines after the retraction < 1/3 of the ten before, at >= 70 % of the running count, with graphs, for at least ten lines and two minutes or to the end, and never back"
-- sides    = { "tokens/s of a request now" = "speed_after", "before the retraction" = "speed_before" }
-- unlike   = [
--   "Fewer running requests after it: throughput falls with them, the speed of each does not.",
--   "Prompts that are computed again: such lines are left out.",
--   "A storm of retractions, each with its own loss (retraction_storm).",
--   "Steps without a graph because the batch left the captured sizes (batch_outside_graphs).",
-- ]
-- causes   = [
--   { name = "allocator_path", cause = "with a full or fragmented pool every step searches for slots or moves data on the host", test = "flush the cache over the API while it is slow: fast again, so it is the pool's state" },
--   { name = "shared_pools", cause = "one of several pools (sliding window, state) stays exhausted and is refilled at every step", test = "look at the other usage fields on the slow lines: one of them is near 1; a larger share for it helps" },
-- ]
-- reports  = ["sgl-project/sglang#26248"]
-- explains = ["throughput_decays_with_uptime"]
-- params   = { fall = 3.0, before = 10, least_before = 5, after = 10, running = 0.7, seconds = 60.0, back = 0.67, recovered = 0.1 }

-- The first retraction of the run; every rank prints it.
WITH retraction AS (
    SELECT run, source, min(line) AS line, arg_min(time, line) AS time, arg_min("after", line) AS ratio, count(DISTINCT time) AS times
    FROM event WHERE kind = 'retraction' GROUP BY run, source
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY source) = 1
),
sided AS NOT MATERIALIZED (
    SELECT d.run, d.rank, d.source, d.line, d.time, d.running, d.tokens_per_s / d.running AS speed, d.step_ms, d.graph, d.ctx_len,
        greatest(d.usage, d.swa_usage, d.state_usage) AS usage, d.line > r.line AS late, r.line AS retraction_line, r.time AS retracted
    FROM decode d JOIN retraction r ON r.run = d.run AND r.source = d.source
    WHERE d.complete AND d.running > 0 AND d.tokens_per_s > 0 AND NOT d.after_prefill AND NOT coalesce(d.prompt_tokens_per_s > 0.1 * d.tokens_per_s, false)
        AND (d.line > r.line OR d.usable)
),
eve AS (
    SELECT run, rank, unnest(arg_max({'speed': speed, 'running': running, 'step_ms': step_ms, 'ctx_len': ctx_len, 'usage': usage, 'source': source, 'line': line}, line, $before), recursive := true)
    FROM sided WHERE NOT late GROUP BY run, rank
),
before AS (
    SELECT run, rank, count(*) AS rows, median(speed) AS speed, median(running) AS running, median(step_ms) AS step_ms, median(ctx_len) AS ctx_len, max(usage) AS usage,
        arg_max(cite(source, line), line) AS place
    FROM eve GROUP BY run, rank HAVING count(*) >= $least_before
),
slow AS (  -- hardly any line is as fast as before
    SELECT s.run, s.rank FROM sided s JOIN before b ON b.run = s.run AND b.rank IS NOT DISTINCT FROM s.rank
    WHERE s.late AND s.running >= $running * b.running
    GROUP BY s.run, s.rank HAVING count(*) >= $after AND avg((s.speed > $back * b.speed)::INTEGER) <= $recovered
),
after AS (
    SELECT s.run, s.rank, any_value(b.speed) AS speed_before, any_value(b.running) AS running_before, any_value(b.step_ms) AS step_before, any_value(b.ctx_len) AS ctx_before, any_value(b.usage) AS usage, any_value(b.place) AS place,
        count(*) AS rows, median(s.speed) AS speed, median(s.running) AS running, median(s.step_ms) AS step_ms, median(s.ctx_len) AS ctx_len,
        avg((s.graph IS NOT DISTINCT FROM false)::INTEGER) AS without_graph,
        epoch(max(s.time)) - epoch(any_value(s.retracted)) AS seconds, any_value(s.retracted) AS retracted, any_value(s.source) AS source, any_value(s.retraction_line) AS line,
        arg_min(cite(s.source, s.line), s.line, 5) AS slow_lines, arg_max(cite(s.source, s.line), s.line) AS last_line
    FROM sided s JOIN slow w ON w.run = s.run AND w.rank IS NOT DISTINCT FROM s.rank JOIN before b ON b.run = s.run AND b.rank IS NOT DISTINCT FROM s.rank
    WHERE s.late AND s.running >= $running * b.running
    GROUP BY s.run, s.rank
)
SELECT
    a.run,
    format('before the retraction at {} a request decoded {:.1f} tokens/s, after it {:.1f} ({:.1f}x slower, {:.0f} and {:.0f} running){}, and it is not back after {:.0f} s ({} lines)',
        coalesce(strftime(retracted, '%H:%M:%S'), format('line {}', line)), speed_before, speed, speed_before / speed, running_before, running,
        CASE WHEN step_ms > 0 THEN format(': a step takes {:.1f} ms instead of {:.1f}', step_ms, step_before) ELSE '' END, seconds, rows) AS message,
    1 - speed / speed_before AS impact,
    speed_before, speed AS speed_after, running_before, running AS running_after, step_before AS step_before_ms, step_ms AS step_after_ms, usage AS usage_before, seconds, rows AS lines_after,
    [place, cite(source, line), slow_lines[5], last_line] AS lines
FROM after a
WHERE speed < speed_before / $fall AND (seconds >= $seconds OR rows >= 3 * $after)
    AND without_graph < 0.5
    AND NOT coalesce(ctx_len > 2 * ctx_before, false)  -- a step that grows with its context
QUALIFY row_number() OVER (PARTITION BY a.run ORDER BY speed / speed_before, rank::VARCHAR) = 1
