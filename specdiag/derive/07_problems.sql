-- Problems.

-- What a line of a traceback does not say itself: its time is that of the last line before it that
-- has one, its rank that of the record that opened the traceback, its frames those above it.
CREATE TEMP TABLE traced AS
WITH cited AS (SELECT DISTINCT source, line FROM raw.problem),
-- Of all the reports only those around: in the same 64 lines, or in the last before that have one.
filled AS (
    SELECT source, line // 64 AS bucket, bool_or(time IS NOT NULL) AS timed
    FROM (SELECT source, line, time FROM decode UNION ALL SELECT source, line, time FROM prefill)
    WHERE source IN (SELECT source FROM cited) GROUP BY source, bucket
),
around AS (
    SELECT source, line // 64 AS bucket FROM cited
    UNION
    SELECT f.source, f.bucket FROM cited c ASOF JOIN filled f ON f.source = c.source AND f.bucket < c.line // 64
    UNION
    SELECT f.source, f.bucket FROM cited c ASOF JOIN (FROM filled WHERE timed) f ON f.source = c.source AND f.bucket < c.line // 64
),
spoken AS (
    SELECT source, line, time, kind, rank FROM event WHERE source IN (SELECT source FROM cited)
    UNION ALL
    SELECT d.source, line, time, 'decode', rank FROM decode d SEMI JOIN around a ON a.source = d.source AND a.bucket = d.line // 64
    UNION ALL
    SELECT d.source, line, time, 'prefill', rank FROM prefill d SEMI JOIN around a ON a.source = d.source AND a.bucket = d.line // 64
),
clock AS (SELECT source, line, time FROM spoken WHERE time IS NOT NULL),
record AS (SELECT source, line, kind, rank FROM spoken WHERE kind NOT IN ('frame', 'native_frame', 'stack', 'nan', 'device_assert', 'dump', 'life')),
opened AS (
    SELECT c.source, c.line, CASE WHEN r.kind = 'crash' AND r.line >= c.line - 500 THEN r.line END AS opened, r.rank
    FROM cited c ASOF LEFT JOIN record r ON r.source = c.source AND r.line <= c.line
),
framed AS (
    SELECT o.source, o.line, string_agg(regexp_extract(f.detail, '[^/]+$') || ':' || f.name, ', ' ORDER BY f.line) AS frames
    FROM (
        SELECT e.source, e.line, e.detail, e.name, c.line AS owner
        FROM (SELECT source, line, detail, name FROM event WHERE kind = 'frame') e
        ASOF JOIN cited c ON c.source = e.source AND c.line > e.line
    ) f JOIN opened o ON o.source = f.source AND o.line = f.owner AND f.line > coalesce(o.opened, 0)
    GROUP BY o.source, o.line
    UNION ALL  -- a stack of C++ stands below what failed, the innermost first
    SELECT c.source, c.line, string_agg(e.name, ', ' ORDER BY e.line DESC)
    FROM (SELECT source, line, name FROM event WHERE kind = 'native_frame') e
    ASOF JOIN cited c ON c.source = e.source AND c.line < e.line
    WHERE e.line <= c.line + 100 GROUP BY c.source, c.line
)
SELECT o.source, o.line, k.time, CASE WHEN o.opened IS NOT NULL THEN o.rank END AS rank, o.opened IS NOT NULL AS crashed, f.frames
FROM opened o
ASOF LEFT JOIN clock k ON k.source = o.source AND k.line <= o.line
LEFT JOIN framed f ON f.source = o.source AND f.line = o.line;

-- First error wins, in the order of time, of the files and of their lines. A server that shows prompts
-- or an exception from its serving loop, and no sign of a start, is a cut from the middle of a log.
INSERT INTO problem BY NAME
WITH placed AS (
    SELECT p.run, p.place, t.crashed, b.* EXCLUDE (number, life, arm)
        REPLACE (coalesce(b.time, t.time) AS time, coalesce(b.rank, t.rank) AS rank, t.frames AS frames)
    FROM raw.problem b
    JOIN part p ON p.source = b.source AND p.life = b.life AND p.arm = ''
    LEFT JOIN traced t ON t.source = b.source AND t.line = b.line
),
located AS (SELECT run, source, min(place) AS place FROM part GROUP BY run, source),
moment AS (
    SELECT e.run, p.place, e.line, e.kind, e.time, e.name FROM event e
    JOIN located p ON p.run = e.run AND p.source = e.source
    WHERE e.kind NOT IN ('frame', 'native_frame', 'stack')
    UNION ALL  -- of the decode lines of a file the first and the last
    SELECT d.run, p.place, unnest([d.first_line, d.last_line]), 'decode', unnest([d.first_time, d.last_time]), NULL
    FROM (
        SELECT run, source, min(line) AS first_line, max(line) AS last_line, min(time) AS first_time, max(time) AS last_time
        FROM decode GROUP BY run, source
    ) d JOIN located p ON p.run = d.run AND p.source = d.source
),
lived AS (
    SELECT run,
        min({'place': place, 'line': line}) FILTER (kind IN ('ready', 'decode')) AS first_served,
        max({'place': place, 'line': line}) FILTER (kind IN ('ready', 'decode', 'slot')) AS last_served,  -- llama.cpp tells of its slots alone
        min(time) FILTER (kind IN ('ready', 'decode')) AS first_time,
        max(time) FILTER (kind IN ('ready', 'decode')) AS last_time,
        max({'place': place, 'line': line}) FILTER (kind IN ('weights', 'capacity', 'capture_begin', 'capture_sizes', 'capture_end')) AS last_progress,
        max({'place': place, 'line': line}) FILTER (kind = 'life' AND regexp_matches(name, '(?i)sigquit|crashed|kill_process_tree')) AS died
    FROM moment GROUP BY run
),
cut AS (
    SELECT run FROM (
        SELECT run FROM prefill UNION
        SELECT run FROM placed WHERE regexp_matches(frames, 'event_loop|run_busy_loop|run_event_loop|_engine_step|_run_engine|run_batch|execute_model')
    )
    WHERE run NOT IN (SELECT run FROM moment WHERE kind IN ('weights', 'capacity', 'capture_begin', 'capture_sizes', 'capture_end'))
        AND run NOT IN (SELECT run FROM asked WHERE model IS NOT NULL)
),
judged AS (
    SELECT b.* REPLACE (
        b.run NOT IN (SELECT run FROM cut) AND coalesce({'place': b.place, 'line': b.line} < l.first_served, true)
            AND NOT coalesce(b.time > l.first_time, false) AS at_start,
        coalesce({'place': b.place, 'line': b.line} > l.last_served, true) OR coalesce(b.time > l.last_time, false) AS fatal,
        (coalesce(b.message, '') = '' AND (b.frames IS NULL OR b.type IN ('ImportError', 'ModuleNotFoundError')))  -- the lines below tell
        OR b.type IN ('[sgl_kernel]', 'FATAL', 'Initialization failed', 'Engine core proc', 'Worker proc', 'WorkerProc',
            'DistBackendError', 'DistNetworkError', 'EOFError', 'BrokenPipeError', 'ConnectionError', 'ConnectionResetError',
            'ConnectionRefusedError', 'CancelledError', 'collective operation timeout', 'terminate called', 'Aborted', 'core dumped')
        OR b.type LIKE '%EngineDeadError'
        OR (b.type = 'error' AND b.message NOT LIKE '%: error: argument %')
        OR (b.type = 'ValidationError' AND b.message LIKE '%validation error%')  -- the next line tells
        OR (b.type = 'Fatal Python error' AND b.message LIKE '%Aborted')  -- torch's watchdog ends the process
        OR regexp_matches(b.message, ': (?:CUDA|ROCm|HIP|SYCL) error$')
        OR b.message LIKE '%_soundfile_data%'  -- soundfile looks for a bundled library first
        -- a parent that passes on what a child died of; a peer that is gone; a caller that waited
        OR regexp_matches(b.message, '(?i)Watchdog caught collective|see (?:root cause|stack trace|the stack trace)|stack trace above|root cause above|initialization failed due to|Engine process failed to start|Connection (?:closed|reset) by peer|remote process exited|ncclRemoteError|recvValue failed|recvBytes|Broken pipe|RPC call to \w+ timed out|^cancelled$|Rank \w+ scheduler is dead|child process.{0,30}(?:failed|died)')
        OR (b.type IN ('ImportError', 'ModuleNotFoundError') AND coalesce({'place': b.place, 'line': b.line} < l.last_progress, false)) AS follows,
        coalesce(b.crashed, false) OR coalesce({'place': b.place, 'line': b.line} < l.died, false)
        OR b.type IN ('terminate called', 'what', 'OOM killer', 'Segmentation fault', 'Fatal Python error', 'Aborted', 'core dumped', 'Killed', 'GGML_ASSERT',
            'GGML_ABORT', 'fatal error', 'CUDA error', 'ROCm error', 'HIP error', 'SYCL error', 'Memory access fault', 'watchdog thread terminated', 'Assertion')
        OR b.type LIKE '%EngineDeadError' OR b.type IN ('Engine core proc', 'Worker proc', 'WorkerProc')
        OR regexp_matches(coalesce(b.frames, ''), ':<module>.*:_run_engine') AS killed  -- a script with the engine inside
    )
    FROM placed b LEFT JOIN lived l USING (run)
),
-- A look-up that fails is often the first half of another exception, which tells more. (`Killed` tells
-- nothing: it is how SGLang ends its own processes.)
chained AS (
    SELECT * EXCLUDE (real_line, alone, ended) REPLACE (
        -- what a parent quotes, and the way that a process ended, tell where nothing else does
        (follows AND NOT (alone AND message LIKE 'Worker failed with error %') AND NOT (ended AND type IN ('Aborted', 'core dumped')))
            OR (type = 'KeyError' AND coalesce(real_line - line <= 100, false)) AS follows,
        killed OR coalesce(bool_or(type LIKE '%EngineDeadError' OR type = 'Engine core proc') OVER (
            PARTITION BY run ORDER BY place, line ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING), false) AND fatal AS killed
    )
    FROM (
        SELECT *, min(CASE WHEN NOT follows AND type NOT IN ('KeyError', 'Killed') THEN line END) OVER (
            PARTITION BY run, source ORDER BY line ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS real_line,
            bool_and(follows) OVER (PARTITION BY run) AS alone, bool_and(type IN ('Aborted', 'core dumped')) OVER (PARTITION BY run) AS ended
        FROM judged
    )
)
SELECT * EXCLUDE (place, crashed) REPLACE (
    fatal AND NOT follows AND row_number() OVER (PARTITION BY run, fatal AND NOT follows ORDER BY time NULLS FIRST, place, line) = 1 AS cause
)
FROM chained;

DROP TABLE traced;
