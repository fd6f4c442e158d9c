-- title    = "A graph capture failed, and not for lack of memory"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = ["type"], event = [], config = [] }
-- why      = "A capture runs every batch size once, with made-up inputs. A part that copies to the host, allocates, or takes another shape for the drafted width dies there. The server wraps the exception in advice about memory, which does not help here."
-- fix      = [
--   "Switch off only the graphs that failed: --disable-prefill-cuda-graph or --disable-decode-cuda-graph where the version has them, else --disable-cuda-graph (vLLM: --enforce-eager, or a smaller cudagraph mode).",
--   "Capture only sizes that you serve (--cuda-graph-bs, --cuda-graph-max-bs) and name the first one that fails.",
--   "Take another attention backend for the model whose capture failed (--speculative-draft-attention-backend for the draft).",
-- ]
-- formula  = "the first exception of the start comes out of a capture (its frames, its own words, or a capture that began and did not end) and names neither memory nor a compiler, a library or the GPU"
-- sides    = { "memory free before it" = "free_before_capture_gb" }
-- unlike   = [
--   "A capture that runs out of memory (out_of_memory_at_start).",
--   "A compiler that is too old, a kernel that is missing, a combination that is refused: reported by the capture, caused elsewhere.",
--   "A capture that was given up with a warning while the server started without it.",
-- ]
-- causes   = [
--   { name = "draft", cause = "the draft model or its backend cannot be captured at this width", test = "start without speculation: captured, so it is the draft's or the verification's graph" },
--   { name = "host", cause = "a part inside the capture synchronises, copies to the host or allocates", test = "switch the newest optional feature off (metrics, expert statistics, LoRA, torch.compile): captured" },
--   { name = "shape", cause = "a buffer is sized for one token a request, or for another number of drafted tokens", test = "--speculative-num-draft-tokens and steps of the documentation's example, page size 1: captured" },
-- ]
-- reports  = ["sgl-project/sglang#35437", "sgl-project/sglang#35275", "sgl-project/sglang#10106", "sgl-project/sglang#39173", "vllm-project/vllm#48749"]
-- explains = ["start_failed", "speculative_assertion", "server_died"]

WITH cause AS (SELECT * FROM problem WHERE cause AND at_start),
-- The last capture of the rank that began before it, and did not end.
begun AS (
    SELECT c.run, arg_max({'name': e.name, 'free_gb': e.value, 'sizes': e.detail, 'tokens': e."after", 'source': e.source, 'line': e.line}, e.line) AS capture
    FROM cause c JOIN event e ON e.run = c.run AND e.source = c.source AND e.line < c.line
    WHERE e.kind = 'capture_begin' AND (c.rank IS NULL OR e.rank IS NULL OR e.rank = c.rank) AND NOT EXISTS (
        FROM event f WHERE f.run = e.run AND f.source = e.source AND f.kind = 'capture_end'
            AND f.line > e.line AND f.line < c.line AND coalesce(f.rank, '') = coalesce(e.rank, '')
    )
    GROUP BY c.run
),
wrapped AS (
    SELECT run, min(line) AS line, arg_min(source, line) AS source, count(*) AS times FROM problem
    WHERE at_start AND regexp_matches(message, '(?i)captur.{0,30}graph.{0,10} failed') GROUP BY run
),
failed AS (
    SELECT c.*, b.capture, w.line AS wrap_line, w.source AS wrap_source, w.times,
        nullif(regexp_extract(frames, '[^ ]+$'), '') AS innermost,
        regexp_matches(message, '(?i)captur|cudaErrorStreamCapture') AS says_so
    FROM cause c LEFT JOIN begun b USING (run) LEFT JOIN wrapped w USING (run)
    WHERE (regexp_matches(frames, '(?i)captur|graph_runner:|cuda_?graph_setup|full_cuda_graph') OR b.capture IS NOT NULL OR w.line IS NOT NULL
            OR regexp_matches(message, '(?i)captur.{0,30}graph.{0,10} failed|stream is capturing|during capture|StreamCapture'))
        -- said by a parent or a client, or about something else than the capture
        AND type NOT IN ('ImportError', 'ModuleNotFoundError', 'OutOfMemoryError', 'MemoryError', 'Killed', 'Initialization failed', 'error', 'nvcc', 'ptxas', 'OutOfResources', 'CalledProcessError')
        AND NOT regexp_matches(message, '(?i)out of memory|not enough memory|ALLOC_FAILED|allocate memory|nvcc|ptxas|gpu-name|ninja|error building extension|undefined symbol|cannot open shared|no kernel image|compute capability|\bsm_?[0-9]{2,3}|no module named|cannot import name|_OpNamespace|module ''[a-z0-9_.]+'' has no attribute|shared memory, Required')
)
SELECT
    run,
    format('the capture of the {}graphs died of {}{}{}{}',
        CASE WHEN capture.name <> '' THEN capture.name || ' '
             WHEN regexp_matches(frames, '(?i)draft_extend') THEN 'draft extend '
             WHEN regexp_matches(frames, '(?i)draft|eagle|dflash|spec') THEN 'draft '
             WHEN regexp_matches(frames, '(?i)piecewise|prefill') THEN 'prefill ' ELSE '' END,
        type, CASE WHEN coalesce(message, '') NOT IN ('', type) THEN ': ' || shortened(message, 200) ELSE ' without a message' END,
        CASE WHEN innermost IS NOT NULL THEN ' in ' || innermost ELSE '' END,
        CASE WHEN capture.free_gb IS NOT NULL THEN format('; {:.2f} GB were free before it, memory is not the cause', capture.free_gb) ELSE '' END) AS message,
    list_filter([CASE WHEN regexp_matches(frames, '(?i)draft|eagle|dflash|nextn|mtp') OR capture.name ILIKE '%draft%' THEN 'draft' END,
                 CASE WHEN regexp_matches(message, '(?i)not permitted|unsupported|StreamCapture|during capture') THEN 'host' END,
                 CASE WHEN regexp_matches(message, '(?i)shape|size|dimension|expects|must match') THEN 'shape' END], lambda one: one IS NOT NULL) AS causes,
    capture.name AS capture, capture.sizes AS sizes, capture.free_gb AS free_before_capture_gb, innermost, rank, type AS exception, shortened(message, 300) AS text,
    list_filter([CASE WHEN capture IS NOT NULL THEN cite(capture.source, capture.line) END, cite(source, line),
                 CASE WHEN wrap_line > line THEN cite(wrap_source, wrap_line) END], lambda one: one IS NOT NULL) AS lines
FROM failed
