-- title    = "The server stopped making progress while requests were running"
-- severity = "critical"
-- family   = "runtime"
-- needs    = { event = [], decode = [], prefill = [], problem = [], config = [], run = [] }
-- applies  = "server AND (ended IS NOT NULL OR run IN (SELECT run FROM event WHERE kind = 'cancel'))"
-- why      = "A scheduler that decodes reports every few seconds. Silence with requests in the batch means that a kernel spins, that ranks wait for each other, or that one of them is gone; what is logged afterwards (health checks, NCCL errors, dead engines) only says that somebody noticed."
-- fix      = [
--   "Compare the stacks of all ranks at that time (py-spy dump --native; of llama.cpp gdb -p PID and thread apply all bt): the same frame everywhere is a kernel that spins, different frames are ranks that disagree.",
--   "Look at what was special in the last report: a context near the length limit, a new batch size, a first long prompt. Repeat it with tensor parallelism 1, then without speculation, then without graphs.",
--   "Raise the watchdog's or the executor's limit only where a first compilation or a long prompt explains the silence.",
-- ]
-- formula  = "time since the last report with requests running, against its usual interval; proven by a watchdog, a collective or RPC timeout, repeated waits, a failed health check or windows without a token"
-- sides    = { "time without a report" = "silence_s", "usual interval" = "usual_interval_s" }
-- unlike   = [
--   "An idle server: no report, and nobody waits.",
--   "A log that simply ends: nothing says that time went on.",
--   "First compilation, a module that is loaded lazily, a long prompt that is being computed.",
--   "A process that died of an exception is silent, too: that exception is the finding.",
--   "A client of llama.cpp that gives up while a prompt is computed: its task ends behind the batch.",
-- ]
-- causes   = [
--   { name = "disagreement", cause = "ranks disagree on a width, a length or whether to run a step, and wait for each other in a collective", test = "py-spy dump on every rank: different frames; tensor parallelism 1: no hang" },
--   { name = "spin", cause = "a kernel does not end (tree sampling, a spin lock, a page table)", test = "py-spy dump on every rank: the same frame, GPUs at 100 % and little power; graphs off and another sampling backend: no hang" },
--   { name = "compilation", cause = "a kernel is compiled or loaded at the first request of its kind", test = "warm up with the same request: the second one is not silent" },
--   { name = "transfer", cause = "a prefill or decode node, or a cache, waits for one that is gone", test = "the same requests on one node without separation" },
-- ]
-- reports  = ["sgl-project/sglang#33549", "sgl-project/sglang#35822", "sgl-project/sglang#33642", "vllm-project/vllm#44185", "vllm-project/vllm#41402", "sgl-project/sglang#22511", "ggml-org/llama.cpp#27388"]
-- explains = ["peer_lost", "start_failed", "illegal_memory_access", "speculative_assertion", "out_of_memory_serving", "server_died"]
-- params   = { silence_s = 30.0, intervals = 10.0, stall_s = 120.0, stall_intervals = 30.0, windows = 6, rare = 0.02, given_up_s = 300.0 }

-- Every report and every prompt. A window of vLLM in which requests ran and not one token came of
-- them is no progress.
WITH spoken AS NOT MATERIALIZED (
    SELECT run, coalesce(rank, '') AS rank, source, line, time, 'decode' AS kind, running, tokens, tokens_per_s, usage, ctx_len,
        NOT (coalesce(running > 0, false) AND tokens_per_s = 0 AND coalesce(prompt_tokens_per_s, 0) = 0) AS progress
    FROM decode WHERE time IS NOT NULL
    UNION ALL
    SELECT run, coalesce(rank, ''), source, line, time, 'prefill', coalesce(running, 0) + coalesce(new_requests, 0), NULL, NULL, usage, NULL, true
    FROM prefill WHERE time IS NOT NULL
),
-- Who noticed, and when.
witness AS (
    SELECT run, source, line, time, rank, CASE
            WHEN regexp_matches(name, '(?i)watchdog') THEN 'watchdog' WHEN name = 'Health check failed' THEN 'health check' WHEN kind = 'wait' THEN 'wait' END AS what, value, TRY_CAST(detail AS TIME) AS heartbeat
    FROM event WHERE kind = 'wait' OR (kind = 'life' AND regexp_matches(name, '(?i)watchdog|Health check failed'))
    UNION ALL
    SELECT run, source, line, time, rank, CASE WHEN type = 'collective operation timeout' THEN 'collective timeout' ELSE 'call timeout' END,
        TRY_CAST(regexp_extract(message, 'ran for ([0-9]+) milliseconds', 1) AS DOUBLE) / 1000, NULL
    FROM problem WHERE NOT at_start AND (type = 'collective operation timeout' OR regexp_matches(message, 'RPC call to \w+ timed out'))
),
-- Most runs have no witness at their end, no window without a token and no silence as long as a
-- stall, which would hold a whole slot of half its length.
slot AS (
    SELECT run, epoch_us(time) // (500000 * greatest(1, $stall_s, $stall_intervals))::BIGINT AS slot, max(CASE WHEN progress THEN time END) AS time, bool_and(progress) AS progress
    FROM spoken GROUP BY run, slot
),
lived AS (
    SELECT run, max(time) AS until, count(*) <= max(slot) - min(slot) OR NOT bool_and(progress) AS silent FROM slot GROUP BY run
),
concerned AS (
    SELECT run FROM lived WHERE silent
    UNION
    SELECT w.run FROM witness w LEFT JOIN lived l USING (run) WHERE coalesce(w.time >= l.until, true)
),
beat AS (FROM spoken WHERE run IN (FROM concerned)),
spaced AS (
    SELECT *, epoch(lead(time) OVER own - time) AS gap_s, lead(kind) OVER own AS next_kind, lead(running) OVER own AS next_running,
        lead(tokens) OVER own AS next_tokens, lead(tokens_per_s IGNORE NULLS) OVER own AS next_speed, lead(source) OVER own AS next_source, lead(line) OVER own AS next_line, lead(time) OVER own AS next_time,
        row_number() OVER own AS nth
    FROM beat WHERE progress
    WINDOW own AS (PARTITION BY run, rank ORDER BY time, source, line)
),
usual AS (
    SELECT run, greatest(1, coalesce(quantile_cont(gap_s, 0.75) FILTER (kind = 'decode' AND running > 0), 1)) AS interval_s,
        count(*) FILTER (kind = 'decode') AS reports, bool_or(kind = 'prefill') AS prompts
    FROM spaced GROUP BY run
),
last AS (
    SELECT run, arg_max({'time': time, 'source': source, 'line': line, 'kind': kind, 'running': running, 'ctx_len': ctx_len, 'rank': rank}, (time, source, line)) AS last
    FROM beat WHERE progress GROUP BY run
),
-- What was still running there: every rank that spoke within a few intervals of the last report.
batch AS (
    SELECT b.run, sum(b.running)::BIGINT AS running FROM (
        SELECT run, rank, arg_max(running, (time, source, line)) AS running, max(time) AS time FROM beat GROUP BY run, rank
    ) b JOIN last l USING (run) JOIN usual u USING (run)
    WHERE b.time >= l.last.time - to_seconds(3 * u.interval_s) GROUP BY b.run
),
-- Windows without a token, after the last one with some.
frozen AS (
    SELECT b.run, count(*) AS windows, epoch(max(b.time) - min(b.time)) AS span_s, max(b.running) AS running, max(b.usage) - min(b.usage) AS usage_moved,
        min(cite(b.source, b.line)) AS place, max(b.time) AS time
    FROM beat b LEFT JOIN last l USING (run)
    WHERE NOT b.progress AND coalesce(b.time > l.last.time, true) GROUP BY b.run
),
-- A watchdog that kills does so after seconds; a soft one only tells, and the server goes on.
after AS (
    SELECT w.* FROM witness w LEFT JOIN last l USING (run) LEFT JOIN lived v USING (run)
    WHERE (l.last IS NULL AND NOT coalesce(w.what = 'watchdog' AND v.until > w.time + INTERVAL 10 SECOND, false)) OR w.time > l.last.time OR (w.time IS NULL OR w.time = l.last.time) AND w.source = l.last.source AND w.line > l.last.line
),
noticed AS (
    SELECT run, min(time) AS first_time, max(time) AS last_time, arg_min(cite(source, line), (time, source, line)) AS place, min(source) AS source, min(line) AS line,
        arg_min(what, (time, source, line)) AS what, list_sort(list(DISTINCT what)) AS kinds,
        count(*) FILTER (what = 'wait') AS waits, sum(value) FILTER (what = 'wait') AS waited_s, max(value) FILTER (what <> 'wait') AS limit_s,
        count(DISTINCT rank) AS ranks, string_agg(DISTINCT rank, ', ' ORDER BY rank) AS who, min(heartbeat) AS heartbeat
    FROM after GROUP BY run
),
-- Something else came first: an exception that kills, or somebody who stopped the server.
earlier AS (
    SELECT p.run FROM problem p LEFT JOIN noticed n USING (run)
    WHERE p.killed AND NOT p.follows AND p.fatal AND (n.run IS NULL OR coalesce(p.time < n.first_time, false) OR (p.source = n.source AND p.line < n.line))
    UNION
    SELECT e.run FROM event e LEFT JOIN noticed n USING (run) LEFT JOIN last l USING (run)
    WHERE e.kind = 'life' AND regexp_matches(e.name, '(?i)sigterm|gracefully|shutdown')
        AND (n.run IS NULL OR coalesce(e.time < n.first_time, false) OR (e.source = n.source AND e.line < n.line))
        AND NOT coalesce(e.time < l.last.time, false)
),
died AS (SELECT run, min(cite(source, line)) AS place FROM event WHERE kind = 'life' AND regexp_matches(name, '(?i)sigquit|crashed|kill_process_tree') GROUP BY run),
-- The innermost call of the server's own code in the main thread of every scheduler that was asked.
main AS (
    SELECT m.source, m.line, s.line AS call_line, s.detail AS call, m.run FROM (SELECT run, source, line FROM event WHERE kind = 'stack' AND name = 'MainThread') m
    ASOF JOIN (SELECT source, line, detail FROM event WHERE kind = 'stack' AND name <> 'MainThread' AND detail LIKE '%.py:%'
        AND NOT regexp_matches(detail, '^(?:torch/|threading|selectors|subprocess)')) s ON s.source = m.source AND s.line > m.line
),
stacks AS (SELECT run, count(*) AS dumps, count(DISTINCT call) AS calls, mode(call) AS call FROM main GROUP BY run),
silent AS (
    SELECT run, l.last, n.*, f.windows, f.span_s, f.place AS frozen_place, f.usage_moved, u.interval_s, u.reports, greatest(coalesce(b.running, 0), coalesce(f.running, 0)) AS running,
        greatest(CASE WHEN list_contains(n.kinds, 'collective timeout') THEN n.limit_s ELSE 0 END, epoch(coalesce(CASE WHEN n.what = 'health check' THEN n.first_time ELSE n.last_time END, f.time) - l.last.time), coalesce(epoch(f.time - l.last.time), 0)) AS silence_s, d.place AS death, s.dumps, s.calls, s.call,
        round(2 * date_diff('second', l.last.time::TIME, n.heartbeat) / 3600.0) / 2 AS hours
    FROM (SELECT run FROM run)
    LEFT JOIN last l USING (run) LEFT JOIN noticed n USING (run) LEFT JOIN frozen f USING (run) LEFT JOIN usual u USING (run) LEFT JOIN batch b USING (run)
    LEFT JOIN died d USING (run) LEFT JOIN stacks s USING (run)
    WHERE run NOT IN (FROM earlier) AND (n.run IS NOT NULL OR f.run IS NOT NULL)
),
hung AS (
    SELECT * FROM silent
    WHERE list_has_any(kinds, ['watchdog', 'collective timeout', 'call timeout'])
        -- a probe is a request, too; a prompt may take its time
        OR (list_contains(kinds, 'health check') AND last IS NOT NULL AND silence_s >= greatest($silence_s, $intervals * interval_s)
            AND (last.kind = 'decode' OR death IS NOT NULL OR silence_s >= 2 * $silence_s))
        -- a first compilation waits as well, but not twice, and not after a token of that request
        OR (running > 0 AND waits >= 2 AND coalesce(waited_s, 0) >= 120 AND last IS NOT NULL)
        OR (running > 0 AND windows >= $windows AND coalesce(usage_moved, 0) = 0 AND last IS NOT NULL)
),
-- A silence that ended: the batch of before it went on after it, without a prompt in between.
stall AS (
    SELECT s.run, count(*) AS stalls, max(gap_s) AS gap_s, arg_max(cite(source, line), gap_s) AS place, arg_max(cite(next_source, next_line), gap_s) AS next_place,
        arg_max(running, gap_s) AS running, arg_max(time, gap_s) AS time, any_value(interval_s) AS interval_s, arg_max(ctx_len, gap_s) AS ctx_len
    FROM spaced s JOIN usual u USING (run)
    WHERE u.prompts AND u.reports >= 10 AND s.kind = 'decode' AND s.running > 0 AND s.nth > 5
        AND gap_s >= greatest($stall_s, $stall_intervals * interval_s)
        AND ((next_kind = 'decode' AND next_running >= s.running AND next_tokens >= s.tokens) OR (next_kind = 'prefill' AND next_running > s.running))
        -- the next report's tokens are spread over the silence, unless only the clock was set
        AND coalesce(next_speed < tokens_per_s / 2, true)
        -- by nobody else's report, and not because the server was told to wait
        AND NOT EXISTS (FROM beat o WHERE o.run = s.run AND o.time > s.time AND o.time < s.next_time)
    GROUP BY s.run HAVING count(*) <= greatest(1, $rare * any_value(u.reports))  -- more of them are a log that was thinned
),
-- llama.cpp reports nothing between a request's begin and its end, and it ends a task that its client
-- gave up behind the current batch. One that clients give up again and again, with nothing from any
-- slot, stands still.
moved AS (SELECT run, source, max(line) AS line FROM event WHERE kind IN ('slot', 'progress') GROUP BY run, source),
held AS (
    SELECT run, source, arg_max(detail, line) AS task, arg_max(cite(source, line), line) AS place, max(line) AS line FROM (
        SELECT run, source, detail, max(line) AS line FROM event WHERE kind = 'slot' GROUP BY run, source, detail HAVING arg_max(name, line) = 'launch'
    ) GROUP BY run, source
),
ignored AS (
    SELECT run, any_value(h.task) AS task, any_value(h.place) AS place, count(DISTINCT c.detail) AS clients,
        max(coalesce(epoch(c.time), c.value)) - min(coalesce(epoch(c.time), c.value)) AS silence_s, arg_min(cite(c.source, c.line), c.line) AS first_place, arg_max(cite(c.source, c.line), c.line) AS last_place
    FROM event c JOIN held h USING (run, source) JOIN moved m USING (run, source)
    WHERE c.kind = 'cancel' AND c.line > m.line GROUP BY run
    HAVING clients >= 2 AND silence_s >= $given_up_s
)
SELECT
    run, 'critical' AS severity,
    format('{}{}{}{}{}',
        CASE WHEN last IS NULL THEN 'no report at all' WHEN coalesce(silence_s, 0) >= 1 THEN format('no progress for {:.0f} s after {}', silence_s, strftime(last.time, '%H:%M:%S'))
             ELSE 'no progress after ' || strftime(last.time, '%H:%M:%S') END,
        CASE WHEN running > 0 THEN format(' although {} request{} running (usual interval {:.0f} s)', running, CASE WHEN running = 1 THEN ' was' ELSE 's were' END, interval_s) ELSE '' END,
        CASE WHEN windows > 0 THEN format(', {} window{} without a token', windows, CASE WHEN windows > 1 THEN 's' ELSE '' END) ELSE '' END,
        CASE WHEN run IS NOT NULL AND what IS NOT NULL THEN format('; noticed first by {}{}{}',
            CASE what WHEN 'wait' THEN format('a process that waits for another ({} times)', waits) WHEN 'watchdog' THEN 'the watchdog' WHEN 'health check' THEN 'the health check'
                      WHEN 'collective timeout' THEN 'a collective that timed out' ELSE 'a call to the workers that timed out' END,
            CASE WHEN limit_s IS NOT NULL AND what <> 'wait' THEN format(' (limit {:.0f} s)', limit_s) ELSE '' END,
            CASE WHEN ranks > 1 THEN format(' on {} ranks ({})', ranks, who) WHEN ranks = 1 THEN ' on ' || who ELSE '' END) ELSE '' END,
        -- the process that checks may live in another time zone than the one that decodes
        concat(CASE WHEN heartbeat IS NOT NULL AND last IS NOT NULL THEN format('; last heartbeat {}{}', heartbeat,
                CASE WHEN abs(hours) >= 1 THEN format(' by a clock that is {} h off', round(hours)::INTEGER) ELSE '' END) ELSE '' END,
            CASE WHEN last.ctx_len IS NOT NULL THEN format('; {:,} tokens of context', round(last.ctx_len)::BIGINT) ELSE '' END,
            CASE WHEN dumps > 1 AND calls = 1 THEN format('; all {} stacks are in {}', dumps, call) WHEN dumps > 1 THEN format('; the {} stacks are in {} different places', dumps, calls) ELSE '' END)) AS message,
    CASE WHEN dumps > 1 AND calls = 1 THEN ['spin'] WHEN dumps > 1 THEN ['disagreement'] WHEN last IS NULL OR reports < 2 THEN ['compilation'] ELSE [] END AS causes,
    silence_s, last.time AS last_progress, interval_s AS usual_interval_s, running AS running, last.ctx_len AS ctx_len, kinds AS noticed_by, who AS ranks, dumps, calls,
    list_filter([CASE WHEN last IS NOT NULL THEN cite(last.source, last.line) END, frozen_place, place, death], lambda one: one IS NOT NULL) AS lines
FROM hung
UNION ALL
SELECT
    run, 'medium',
    format('{} with requests running: {:.0f} s after {} without a report (usual interval {:.0f} s), then the same batch went on',
        CASE WHEN stalls > 1 THEN format('{} silences', stalls) ELSE 'a silence' END, gap_s, strftime(time, '%H:%M:%S'), interval_s),
    ['compilation'], gap_s, time, interval_s, running, ctx_len, [], NULL, NULL, NULL, [place, next_place]
FROM stall WHERE run NOT IN (SELECT run FROM hung) AND run NOT IN (SELECT run FROM event WHERE kind = 'update')
UNION ALL
SELECT
    run, 'critical',
    format('task {} was begun and never ended: {} clients gave up, the last {:.0f} s after the first, and no slot said anything in between', task, clients, silence_s),
    ['spin'], silence_s, NULL, NULL, 1, NULL, ['clients'], NULL, NULL, NULL, [place, first_place, last_place]
FROM ignored
