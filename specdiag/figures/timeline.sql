-- title = "The run over time"
-- tells = "What the server reported, in the log's own clock; a band spans the lowest and the highest of many reports. Vertical lines are findings, events and new starts; shaded are start-up and idle time."
-- place = 10
-- draw = "line"
-- ordered = true
-- needs = ["decode", "prefill", "metric", "other_commit WHERE time IS NOT NULL"]
-- x = { title = "time", scale = "time" }
-- rows = { speed = { title = "tokens/s" }, accept = { title = "accept length" }, requests = { title = "requests" }, cache = { title = "cache used, %" } }
WITH silent AS (FROM shown WHERE run NOT IN (SELECT run FROM decode WHERE run IN (FROM shown))),
told AS MATERIALIZED (  -- every report; where a server printed none, what was traced or scraped
    SELECT run, source, line, time, rank, true AS decodes, idle,
        CASE WHEN NOT idle THEN tokens_per_s END AS tokens_per_s,  -- the report after a pause tells the mean over the pause
        CASE WHEN accept_len IS NOT NULL OR commit_len <> 1 THEN commit_len END AS commit_len, running, queued, 100 * usage AS usage
    FROM decode WHERE time IS NOT NULL AND run IN (FROM shown)
    UNION ALL
    SELECT run, source, line, time, rank, false, false, NULL, NULL, running, queued, 100 * usage FROM prefill WHERE time IS NOT NULL AND run IN (FROM shown)
    UNION ALL
    SELECT run, source, line, time, NULL, true, false, tokens_per_s, commit_len, running, NULL, NULL
    FROM commit_sample WHERE kind IN ('step', 'acceptance') AND time IS NOT NULL AND run IN (FROM silent)
    UNION ALL
    SELECT run, source, min(line), time, NULL, false, false, NULL, NULL,
        sum(value) FILTER (name IN ('sglang:num_running_reqs', 'vllm:num_requests_running')),
        sum(value) FILTER (name IN ('sglang:num_queue_reqs', 'vllm:num_requests_waiting')),
        100 * max(value) FILTER (name IN ('sglang:token_usage', 'vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'))
    FROM metric WHERE regexp_matches(name, '^(sglang|vllm):(num_|token_usage|kv_cache|gpu_cache)') AND time IS NOT NULL AND run IN (FROM silent)
    GROUP BY run, source, time
),
extent AS (
    SELECT run, min(source) AS source, min(started) AS started, max(ended) AS ended, greatest(count(*) FILTER (rank <> ''), 1) AS ranks, count(*) FILTER (rank <> '') AS named, sum(n) AS reports
    FROM (SELECT run, rank, min(source) AS source, min(time) AS started, max(time) AS ended, count(*) AS n FROM told GROUP BY run, rank) GROUP BY run
),
placed AS (  -- lives of a server in one file are one picture
    SELECT e.*, CASE WHEN count(DISTINCT s.path) OVER (PARTITION BY parse_filename(s.path)) = 1 THEN parse_filename(s.path) ELSE regexp_replace(run, '#[0-9]+$', '') END AS panel
    FROM extent e JOIN source s USING (source)
),
roomy AS (SELECT *, least(greatest(1500 // count(*) OVER (PARTITION BY panel), 60), 600) AS room FROM placed),
home AS (  -- up to eight ranks are lines of their own; of a long log stretches are shown
    SELECT *, named <= 8 AND reports <= 2 * room AS whole, greatest(date_diff('millisecond', started, ended) // room, 1) AS width FROM roomy
),
stretch AS (
    SELECT t.run, h.panel, CASE WHEN h.ranks BETWEEN 2 AND 8 THEN coalesce(t.rank::VARCHAR, '') ELSE '' END AS series, any_value(h.ranks) AS ranks, count(*) AS n, NOT any_value(h.whole) AS many,
        bool_or(t.decodes) AS decodes, bool_or(t.idle) AS idle, make_timestamp((epoch_us(min(t.time)) + epoch_us(max(t.time))) // 2) AS x,
        avg(tokens_per_s) AS speed, min(tokens_per_s) AS speed_low, max(tokens_per_s) AS speed_high,
        avg(commit_len) AS accept, min(commit_len) AS accept_low, max(commit_len) AS accept_high,
        avg(t.running) AS running, min(t.running) AS running_low, max(t.running) AS running_high,
        avg(t.queued) AS queued, min(t.queued) AS queued_low, max(t.queued) AS queued_high,
        avg(usage) AS cache, min(usage) AS cache_low, max(usage) AS cache_high,
        min(t.source * 1000000000000 + t.line) AS first
    FROM told t JOIN home h ON h.run = t.run
    GROUP BY t.run, h.panel, 3, CASE WHEN h.whole THEN t.line * 100000 + t.source ELSE epoch_ms(t.time) // h.width END
),
drawn AS (
    SELECT run, panel, series, 'speed' AS part, 1 AS nth, first, n, many, x, speed AS y, speed_low AS low, speed_high AS high, first // 1000000000000 AS source, first % 1000000000000 AS line FROM stretch
    UNION ALL
    SELECT run, panel, series, 'accept', 2, first, n, many, x, accept, accept_low, accept_high, first // 1000000000000 AS source, first % 1000000000000 AS line FROM stretch
    UNION ALL
    SELECT run, panel, CASE WHEN ranks BETWEEN 2 AND 8 THEN series ELSE 'running' END, 'requests', 3, first, n, many, x, running, running_low, running_high, NULL, NULL FROM stretch
    UNION ALL
    SELECT run, panel, trim('queued ' || series), 'requests', 4, first, n, many, x, queued, queued_low, queued_high, NULL, NULL FROM stretch
    QUALIFY ranks = 1 OR max(queued) OVER (PARTITION BY run, series) > 0
    UNION ALL
    SELECT run, panel, series, 'cache', 5, first, n, many, x, cache, cache_low, cache_high, NULL, NULL FROM stretch
),
proof AS (  -- the lines that findings cite, with a time
    SELECT c.finding, c.title, c.severity, c.run, t.source, t.line, t.time, t.tokens_per_s, t.commit_len, coalesce(t.rank::VARCHAR, '') AS rank FROM (FROM cited SEMI JOIN shown USING (run)) c JOIN told t ON t.source = c.source AND t.line = c.line
    UNION ALL
    SELECT c.finding, c.title, c.severity, c.run, e.source, e.line, e.time, NULL, NULL, NULL FROM cited c JOIN event e ON e.source = c.source AND e.line = c.line
    UNION ALL
    SELECT c.finding, c.title, c.severity, c.run, p.source, p.line, p.time, NULL, NULL, NULL FROM cited c JOIN problem p ON p.source = c.source AND p.line = c.line
    UNION ALL
    SELECT c.finding, c.title, c.severity, c.run, a.source, a.line, a.time, NULL, NULL, NULL FROM cited c JOIN acceptance a ON a.source = c.source AND a.line = c.line
),
said AS (  -- of an event that comes again the first, and how often
    SELECT run, label, min(time) AS time, max(n) AS n, min(urgent) AS urgent FROM (
        SELECT run, rank, time, count(*) OVER (PARTITION BY run, rank, label) AS n, label, urgent FROM (
            SELECT run, rank, time, CASE kind IN ('crash', 'device_assert', 'nan', 'leak', 'life', 'retraction') WHEN true THEN 1 ELSE 2 END AS urgent,
                CASE kind WHEN 'hook' THEN concat_ws(' ', name, detail) WHEN 'crash' THEN concat_ws(' ', name, 'crashed') WHEN 'life' THEN coalesce(name, kind)
                    WHEN 'nan' THEN 'NaN' WHEN 'capture_begin' THEN concat_ws(' ', 'graph capture', nullif(name, '')) WHEN 'zombie' THEN 'request left behind'
                    ELSE replace(kind, '_', ' ') END AS label
            FROM event WHERE run IN (FROM shown) AND time IS NOT NULL AND kind NOT IN ('weights', 'capacity', 'capture_end', 'capture_sizes', 'frame', 'stack', 'arguments', 'state_cache', 'state_limit', 'simulated', 'hybrid')
            UNION ALL
            SELECT run, rank, time, 0, type FROM problem WHERE time IS NOT NULL AND (cause OR killed)
        )
    ) GROUP BY run, label
),
gap AS (
    SELECT run, panel, x, lag(x) OVER w AS before, lag(follows) OVER w AS follows, idle
    FROM (SELECT run, panel, first, x, idle, decodes, lead(x) OVER (PARTITION BY run ORDER BY x, first) AS follows FROM stretch WHERE ranks = 1) WHERE decodes
    WINDOW w AS (PARTITION BY run ORDER BY x, first)
)
SELECT run, panel, 'line' AS draw, series, part, x, y, CASE WHEN many THEN low END AS low, CASE WHEN many THEN high END AS high, NULL AS label, CASE WHEN n = 1 THEN source END AS source, CASE WHEN n = 1 THEN line END AS line, nth, first FROM drawn WHERE y IS NOT NULL
UNION ALL
SELECT r.run, coalesce(h.panel, r.stem), 'line', '', 'speed', r.started, 0, NULL, NULL, NULL, NULL, NULL, 1, NULL
FROM (SELECT run, started, regexp_replace(run, '#[0-9]+$', '') AS stem FROM run ANTI JOIN shown USING (run) WHERE started IS NOT NULL) r
LEFT JOIN (SELECT regexp_replace(run, '#[0-9]+$', '') AS stem, min(panel) AS panel FROM home GROUP BY stem) h USING (stem)
UNION ALL
SELECT p.run, h.panel, 'point', CASE WHEN h.ranks BETWEEN 2 AND 8 THEN p.rank ELSE '' END, unnest(['speed', 'accept']), p.time, unnest([p.tokens_per_s, p.commit_len]), NULL, NULL, NULL, p.source, p.line, 0, p.source * 1000000000000 + p.line
FROM (SELECT DISTINCT run, source, line, time, tokens_per_s, commit_len, rank FROM proof) p JOIN home h ON h.run = p.run AND NOT h.whole
UNION ALL
(SELECT p.run, h.panel, 'mark', 'findings', NULL, p.time, NULL, NULL, NULL, p.title, p.source, p.line, 6, NULL
FROM (FROM proof WHERE time IS NOT NULL QUALIFY row_number() OVER (PARTITION BY finding ORDER BY time, source, line) = 1) p JOIN home h USING (run)
QUALIFY row_number() OVER (PARTITION BY h.panel ORDER BY list_position(['critical', 'high', 'medium', 'low', 'info'], p.severity), p.time, p.finding) <= 12)
UNION ALL
(SELECT s.run, h.panel, 'mark', 'events', NULL, s.time, NULL, NULL, NULL, CASE WHEN s.n > 1 THEN format('{} ({} times)', s.label, s.n) ELSE s.label END, NULL, NULL, 7, NULL
FROM said s JOIN home h USING (run)
QUALIFY row_number() OVER (PARTITION BY s.run ORDER BY s.urgent, s.time, s.label) <= 12)
UNION ALL
SELECT run, panel, 'mark', 'starts', NULL, started, NULL, NULL, NULL, run, NULL, NULL, 8, NULL FROM home QUALIFY row_number() OVER (PARTITION BY panel ORDER BY started, run) > 1
UNION ALL
SELECT e.run, any_value(h.panel), 'shade', 'start-up', NULL, min(e.time), NULL, NULL, epoch_ms(min(e.time) FILTER (e.kind = 'ready')), 'start-up', NULL, NULL, 9, NULL
FROM event e JOIN home h USING (run) WHERE e.time IS NOT NULL GROUP BY e.run
HAVING min(e.time) FILTER (e.kind = 'ready') > min(e.time)
UNION ALL
(SELECT run, panel, 'shade', 'idle', NULL, before, NULL, NULL, epoch_ms(follows), 'idle', NULL, NULL, 10, NULL FROM gap WHERE idle AND follows > before
QUALIFY row_number() OVER (PARTITION BY run ORDER BY epoch_us(follows) - epoch_us(before) DESC, before) <= 60)
ORDER BY panel, run, nth, series, part, x, first, label
