-- title    = "An exception ended the server while it served"
-- severity = "critical"
-- family   = "runtime"
-- needs    = { problem = ["type"], decode = [], event = [], run = ["ended"] }
-- why      = "A scheduler or an engine does not survive an exception of its own: every request in it is lost. The first exception that is no consequence is the cause; other ranks, the parent and the clients only report the loss."
-- fix      = [
--   "Where the driver reports a fault of the GPU, look at no code: `nvidia-smi -q` (ECC, retired pages, NVLink), then take the card or the node out and run `dcgmi diag -r 3`.",
--   "Read the traceback above the quoted line: its innermost frame says which part failed.",
--   "Look for what was special in the last request and report before it, and repeat that alone.",
--   "Search the message in the issues of the server, with the version; start once without speculation to see whose it is.",
-- ]
-- formula  = "the first fatal exception that is no consequence, of a process that says or shows that it died of it, after the server was ready"
-- unlike   = [
--   "An exception of one request, after which the server goes on or of which no process died.",
--   "Exceptions by which a server stops when it is told to.",
-- ]
-- explains = ["peer_lost"]

WITH cause AS (
    SELECT *, nullif(regexp_extract(frames, '[^ ]+$'), '') AS innermost FROM problem
    WHERE cause AND killed AND NOT at_start AND type NOT IN ('Killed', 'CancelledError', 'SystemExit', 'GeneratorExit', 'KeyboardInterrupt')
),
healthy AS (
    SELECT d.run, arg_max({'line': d.line, 'source': d.source, 'running': d.running, 'time': d.time}, (d.time, d.source, d.line)) AS last
    FROM decode d JOIN cause c ON c.run = d.run
    WHERE coalesce(d.time <= c.time, d.source = c.source AND d.line < c.line) AND d.complete GROUP BY d.run
),
broken AS (SELECT run, arg_min({'source': source, 'line': line, 'detail': detail}, (source, line)) AS fault FROM event WHERE kind = 'gpu_fault' GROUP BY run),
counted AS (SELECT run, count(*) AS exceptions FROM problem WHERE fatal AND NOT at_start GROUP BY run)
SELECT
    run,
    format('{}{}{}{}{}{}', CASE WHEN fault IS NOT NULL THEN 'the GPU failed (' || rtrim(shortened(fault.detail, 100), '.') || '): ' WHEN message LIKE '%uncorrectable ECC%' THEN 'the GPU failed: ' ELSE '' END, CASE WHEN type = 'what' THEN 'exception: ' WHEN contains(coalesce(message, ''), type) THEN '' WHEN coalesce(message, '') = '' THEN type ELSE type || ': ' END, shortened(coalesce(message, ''), 200),
        CASE WHEN innermost IS NOT NULL THEN ' in ' || innermost ELSE '' END,
        CASE WHEN rank IS NOT NULL THEN ' on ' || rank ELSE '' END,
        concat(CASE WHEN last IS NOT NULL THEN format('; {} running at the last report', last.running) ELSE '' END,
            CASE WHEN exceptions > 1 THEN format(' (the first of {} exceptions; the others follow from it)', exceptions) ELSE '' END)) AS message,
    type AS exception, shortened(message, 300) AS text, innermost, rank, exceptions,
    [one for one in [cite(source, line), CASE WHEN fault IS NOT NULL THEN cite(fault.source, fault.line) END, CASE WHEN last IS NOT NULL THEN cite(last.source, last.line) END] if one IS NOT NULL] AS lines
FROM cause JOIN counted USING (run) LEFT JOIN healthy USING (run) LEFT JOIN broken USING (run)
