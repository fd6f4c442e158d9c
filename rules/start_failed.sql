-- title    = "The server died before it was ready"
-- severity = "critical"
-- needs    = { problem = ["type"], event = [], prefill = [], config = [] }
-- why      = "The process ended with an exception before it served anything. The first error in time is the cause; what other ranks and the parent process say after it follows from it."
-- fix      = [
--   "Read the traceback above the quoted line: its innermost frame says which part failed.",
--   "Start with one GPU, without speculation and with graphs off; add the options back one by one.",
--   "Search the message in the issues of the server, with the version.",
-- ]

-- What a process says when another one is gone, and headlines, come last; a look-up that Python
-- tries and survives comes before what it caused.
WITH started AS (
    SELECT run FROM event WHERE kind IN ('weights', 'capacity', 'capture_begin', 'capture_end', 'capture_sizes')
    UNION SELECT run FROM config WHERE key IN ('model_path', 'model')
),
progress AS (
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
    SELECT p.run, p.source, p.line, p.type, p.message, l.died,
        p.type IN ('[sgl_kernel]', 'FATAL', 'error', 'Initialization failed', 'Engine core proc', 'KeyError', 'DistBackendError', 'DistNetworkError', 'EOFError', 'BrokenPipeError', 'ConnectionError', 'ConnectionResetError', 'ConnectionRefusedError')
            OR coalesce(p.message, '') = ''
            OR (p.type IN ('ImportError', 'ModuleNotFoundError') AND coalesce(g.last > p.line, false)) AS follows
    FROM problem p
    LEFT JOIN progress g USING (run, source)
    LEFT JOIN life l USING (run, source)
    WHERE p.at_start AND p.fatal
        -- stopped by its user, or by Python's own end
        AND p.type NOT IN ('CancelledError', 'SystemExit', 'GeneratorExit')
        AND NOT coalesce(l.stopped < p.line, false)
        -- the start went on after it, and nothing says that it ended
        AND NOT (coalesce(g.last > p.line, false) AND l.died IS NULL)
        -- prompts and no sign of a start: a cut from the middle of a log
        AND (p.run IN (SELECT run FROM started) OR p.run NOT IN (SELECT run FROM prefill))
),
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
        CASE WHEN coalesce(message, '') <> '' AND message <> type THEN ': ' || left(message, 200) ELSE '' END,
        CASE WHEN exceptions > 1 THEN format(' (the first of {} exceptions; the others follow from it)', exceptions) ELSE '' END) AS message,
    type AS exception, left(message, 300) AS text, coalesce(stage, 'none') AS stage, exceptions,
    [cite(source, line)] AS lines
FROM cause JOIN counted USING (run) LEFT JOIN reached USING (run)
