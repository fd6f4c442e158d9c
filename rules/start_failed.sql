-- title    = "The server died before it was ready"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = ["type"], event = [] }
-- why      = "The process ended with an exception before it served anything. The first error in time is the cause; what other ranks and the parent process say after it follows from it."
-- fix      = [
--   "Where the GPU failed, take the card out: `nvidia-smi -q` shows retired pages and links, `dmesg` the driver's Xid.",
--   "Where it is about what surrounds the server, change that and nothing else: `ss -ltnp` names who has the port, `hf auth whoami` the account that the hub sees, `df -h` the full disk; `nvidia-smi -L` inside the container the GPUs; a container wants --gpus, --shm-size or --ipc=host, and NCCL says more with NCCL_DEBUG=INFO.",
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
    -- older servers take their port after they said that they are ready
    WHERE (p.at_start OR regexp_matches(p.message, 'attempting to bind|bind HTTP server socket')) AND p.fatal
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
-- What surrounds the server is no fault of its own, and its traceback tells nothing more.
surrounded AS (
    SELECT run, CASE
        WHEN EXISTS (FROM event e WHERE e.run = cause.run AND e.kind = 'gpu_fault') OR message LIKE '%uncorrectable ECC%' THEN 'the GPU failed'
        WHEN regexp_matches(message, 'Failed core proc\(s\): .*: -9\b') THEN 'somebody killed the engine (SIGKILL), often the OOM killer: `dmesg` says so'
        WHEN regexp_matches(message, 'Failed core proc\(s\): .*: -(?:[4678]|11)\b') THEN 'the engine crashed in native code, with no word of why'
        WHEN regexp_matches(message, '(?i)address already in use|attempting to bind|bind HTTP server socket') THEN 'the port is taken or cannot be had'
        WHEN regexp_matches(message, '(?i)gated repo|(?:401|403) Client Error|access to model \S+ is restricted|invalid (?:user )?token') THEN 'the hub refuses access to the model'
        WHEN regexp_matches(message, '(?i)404 Client Error|is not a local folder and is not a valid model identifier|Repository Not Found|Repo id must be') THEN 'there is no such model'
        WHEN regexp_matches(message, '(?i)couldn.t connect to .?https?:|HTTPSConnectionPool|Max retries exceeded|name resolution|LocalEntryNotFound|cannot find an appropriate cached snapshot|outgoing traffic has been disabled') THEN 'the hub cannot be reached'
        WHEN regexp_matches(message, '(?i)No space left on device|disk quota exceeded') THEN 'a disk or shared memory is full'
        WHEN regexp_matches(message, '(?i)Permission denied|Read-only file system') THEN 'a file or a folder may not be read or written'
        WHEN regexp_matches(message, '(?i)can.t start new thread|Too many open files|Resource temporarily unavailable') THEN 'a limit of the system is reached (threads, processes, open files)'
        WHEN regexp_matches(message, '(?i)clients joined|waiting for clients') THEN 'not all nodes or ranks came'
        WHEN regexp_matches(message, '(?i)Bus error') THEN 'memory that was mapped is not there (shared memory of a container is small)'
        WHEN regexp_matches(message, '(?i)deserializing header|MetadataIncompleteBuffer|InvalidHeader|not within the file bounds|corrupted or incomplete|wrong number of tensors|invalid magic') THEN 'a file of the model is cut or corrupt'
        WHEN regexp_matches(message, '(?i)does not recognize this architecture|unknown model architecture|^Model architectures .* not supported|unknown pre-tokenizer') THEN 'this build does not know the model'
        WHEN regexp_matches(message, '(?i)could not find nvcc|nvcc: not found|CUDA_HOME environment variable is not set|Failed to find C compiler') THEN 'no compiler is there to build kernels with'
        WHEN regexp_matches(message, '(?i)No CUDA GPUs are available|invalid device ordinal|no CUDA-capable device|device\(s\) is/are busy') THEN 'the process does not see the GPUs that it was told to use'
        WHEN regexp_matches(message, '(?i)Error 802|system not yet initialized') THEN 'the fabric manager of the GPUs is not running, or is of another version than the driver'
        WHEN regexp_matches(message, '(?i)untagged enum ModelWrapper') THEN 'the installed tokenizers library is older than the model''s tokenizer'
        WHEN regexp_matches(message, '(?i)^[0-9]+ is not divisible by [0-9]+$|attention heads .{0,40}must be divisible by') THEN 'the model cannot be split over so many ranks'
        WHEN regexp_matches(message, '(?i)memory profiling') THEN 'another process freed or took memory of the GPU while it was measured'
        WHEN regexp_matches(message, '^NCCL error|ncclSystemError|ncclUnhandledCudaError|in: .{0,120}NCCLUtils') OR contains(type, 'DistBackendError') THEN 'NCCL could not connect the ranks'
    END AS what
    FROM cause
),
-- NCCL's own warning tells more than the exception that it leads to.
warned AS (
    SELECT c.run, arg_max({'source': e.source, 'line': e.line, 'detail': e.detail}, e.line) AS warning
    FROM cause c JOIN surrounded s USING (run) JOIN event e ON e.run = c.run AND e.source = c.source AND e.line < c.line
    WHERE e.kind = 'nccl_warning' AND s.what LIKE 'NCCL%' GROUP BY c.run
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
    format('{}{}: {}{}{}{}',
        coalesce(what || '; ', ''),
        'the server died ' || CASE stage WHEN 'weights' THEN 'after it loaded weights' WHEN 'capture_begin' THEN 'while it captured graphs'
                   WHEN 'capture_end' THEN 'after it captured graphs' WHEN 'capacity' THEN 'in its warm-up' ELSE 'before it loaded weights' END,
        CASE WHEN type = 'what' THEN 'exception: ' WHEN contains(coalesce(message, ''), type) THEN '' WHEN coalesce(message, '') = '' THEN type ELSE type || ': ' END,
        shortened(coalesce(message, ''), 200),
        coalesce('. NCCL warned: ' || shortened(warning.detail, 160), ''),
        CASE WHEN exceptions > 1 THEN format(' (the first of {} exceptions; the others follow from it)', exceptions) ELSE '' END) AS message,
    type AS exception, shortened(message, 300) AS text, coalesce(stage, 'none') AS stage, exceptions,
    CASE WHEN warning IS NULL THEN [cite(source, line)] ELSE [cite(source, line), cite(warning.source, warning.line)] END AS lines
FROM cause JOIN counted USING (run) JOIN surrounded USING (run) LEFT JOIN warned USING (run) LEFT JOIN reached USING (run)
