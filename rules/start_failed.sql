-- title    = "The server died before it was ready"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = ["type"], event = [] }
-- why      = "The process ended with an exception before it served anything. The first error in time is the cause; what other ranks and the parent process say after it follows from it."
-- fix      = [
--   "Read the traceback above the quoted line: its innermost frame says which part failed.",
--   "Start with one GPU, without speculation and with graphs off; add the options back one by one.",
--   "Search the message in the issues of the server, with the version.",
-- ]
-- formula  = "the first error that ended the process before it served anything"
-- unlike   = [
--   "An error that the start survives.",
--   "A stop by the user.",
--   "The messages of other ranks and of the parent process: they follow from the first.",
-- ]

WITH progress AS (
    SELECT run, source, max(line) AS last FROM event
    WHERE kind IN ('weights', 'capacity', 'capture_begin', 'capture_sizes', 'capture_end')
    GROUP BY run, source
),
life AS (
    SELECT run, source,
        min(line) FILTER (regexp_matches(name, '(?i)sigquit|crashed|kill_process_tree')) AS died,
        min(line) FILTER (regexp_matches(name, '(?i)sigterm|gracefully')) AS stopped
    FROM event WHERE kind = 'life' GROUP BY run, source
),
candidate AS (
    SELECT p.run, p.source, p.line, p.type, p.message, p.follows
    FROM problem p
    LEFT JOIN progress g USING (run, source)
    LEFT JOIN life l USING (run, source)
    WHERE p.at_start AND p.fatal
        -- stopped by its user, or by Python's own end
        AND p.type NOT IN ('CancelledError', 'SystemExit', 'GeneratorExit')
        AND NOT coalesce(l.stopped < p.line, false)
        -- the start went on after it, and nothing says that it ended
        AND NOT (coalesce(g.last > p.line, false) AND l.died IS NULL)
),
-- Where every message follows from another, the first of them is all there is.
cause AS (
    SELECT * FROM candidate QUALIFY row_number() OVER (PARTITION BY run ORDER BY follows, source, line) = 1
),
reached AS (
    SELECT c.run, arg_max(e.kind, e.line) AS stage
    FROM cause c JOIN event e ON e.run = c.run AND e.source = c.source AND e.line < c.line
    WHERE e.kind IN ('weights', 'capacity', 'capture_begin', 'capture_end') GROUP BY c.run
),
counted AS (
    SELECT run, count(*) AS exceptions FROM candidate GROUP BY run
)
SELECT
    run,
    format('the server died {}: {}{}{}',
        CASE stage WHEN 'weights' THEN 'after it loaded weights' WHEN 'capture_begin' THEN 'while it captured graphs'
                   WHEN 'capture_end' THEN 'after it captured graphs' WHEN 'capacity' THEN 'in its warm-up' ELSE 'before it loaded weights' END,
        type,
        CASE WHEN coalesce(message, '') <> '' AND message <> type THEN ': ' || shortened(message, 200) ELSE '' END,
        CASE WHEN exceptions > 1 THEN format(' (the first of {} exceptions; the others follow from it)', exceptions) ELSE '' END) AS message,
    type AS exception, shortened(message, 300) AS text, coalesce(stage, 'none') AS stage, exceptions,
    [cite(source, line)] AS lines
FROM cause JOIN counted USING (run) LEFT JOIN reached USING (run)
