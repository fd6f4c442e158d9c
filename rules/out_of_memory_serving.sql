-- title    = "Out of memory while serving"
-- severity = "critical"
-- family   = "capacity"
-- needs    = { problem = ["type"], decode = [], config = [], run = ["ready"] }
-- why      = "Start-up leaves a fixed rest of memory for activations. A verification needs logits for running x drafted rows over the whole vocabulary, a long prompt needs a chunk's activations: what fits at start may not fit under load."
-- fix      = [
--   "Lower --mem-fraction-static (--gpu-memory-utilization) by what was missing, or the running limit (--max-running-requests, --max-num-seqs).",
--   "Draft fewer tokens: the logits of a verification grow with running x drafted tokens.",
--   "Where it died in a prompt: smaller chunks (--chunked-prefill-size, --max-num-batched-tokens).",
--   "Where the kernel killed it, the GPU's memory is not the matter: raise the container's limit or the host's memory, or make host caches and offloaded weights smaller.",
-- ]
-- formula  = "an allocation failed after the server was ready; rows of a verification = running x drafted tokens"
-- sides    = { "memory wanted" = "wanted", "memory free" = "free" }
-- unlike   = [
--   "Exit code 137 or the word Killed alone: who sent the signal is not known.",
--   "A pool that is full of requests: they are retracted and come back (retraction_storm).",
--   "A failed allocation before the server was ready (out_of_memory_at_start).",
-- ]
-- causes   = [
--   { name = "verify", cause = "the logits or the attention of a wide verification", test = "half the drafted tokens or half the running limit under the same load: survives" },
--   { name = "prefill", cause = "the activations of a prompt chunk", test = "--chunked-prefill-size 2048 with the same prompts: survives" },
--   { name = "fragments", cause = "reserved but unallocated memory in pieces", test = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: survives" },
--   { name = "pool", cause = "the KV pool has fewer free slots than the server counts", test = "the same load at half the running limit with the prefix cache off" },
--   { name = "host", cause = "memory of the host, not of the GPU: pinned buffers, a host cache (--hicache-size, --cpu-offload-gb), a limit of the container or a leak", test = "the container's memory.peak against its memory.max, and the process's RSS over an hour" },
-- ]
-- reports  = ["sgl-project/sglang#13765", "sgl-project/sglang#13826", "vllm-project/vllm#8073"]
-- explains = ["start_failed", "peer_lost", "illegal_memory_access", "speculative_assertion", "server_died"]

WITH short AS (
    SELECT *, regexp_matches(message, '(?i)(?:prefill|decode) out of memory|no space left for only one request|after retracting all other') AS pool
    FROM problem
    WHERE NOT at_start
        AND (type IN ('OutOfMemoryError', 'out of memory', 'ErrorOutOfDeviceMemory', 'OOM killer')
            OR regexp_matches(message, '(?i)\bout of memory|no space left for only one request|ALLOC_FAILED|memoryallocation|failed to allocate|ErrorOutOfDeviceMemory|OUT_OF_(?:DEVICE|HOST)_MEMORY|DefaultCPUAllocator: can.t allocate|cannot allocate memory'))
        AND NOT regexp_matches(message, '(?i)nvcc|ptxas|shared memory')
),
-- What killed a process before it is the cause.
first AS (
    SELECT s.*, count(*) OVER (PARTITION BY run) AS times FROM short s
    WHERE NOT EXISTS (FROM problem p WHERE p.run = s.run AND p.killed AND p.fatal AND NOT p.follows AND NOT p.at_start
        AND (coalesce(p.time < s.time, false) OR (p.source = s.source AND p.line < s.line))
        AND NOT regexp_matches(p.message, '(?i)out of memory|ALLOC_FAILED|allocat') AND p.type NOT IN ('OutOfMemoryError', 'OOM killer'))
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY time NULLS FIRST, source, line) = 1
),
healthy AS (
    SELECT d.run, arg_max({'line': d.line, 'source': d.source, 'running': d.running, 'ctx_len': d.ctx_len, 'queued': d.queued}, (d.time, d.source, d.line)) AS last
    FROM decode d JOIN first f ON f.run = d.run
    WHERE coalesce(d.time <= f.time, d.source = f.source AND d.line < f.line) AND d.complete GROUP BY d.run
),
asked AS (
    SELECT run, any_value(value) FILTER (key IN ('mem_fraction_static', 'gpu_memory_utilization')) AS fraction FROM config WHERE value <> 'None' GROUP BY run
),
told AS (
    SELECT f.*, h.last, run.draft_tokens, a.fraction,
        nullif(regexp_extract(message, '(?i)Tried to allocate ([0-9.]+ [KMGT]i?B)', 1), '') AS wanted,
        nullif(regexp_extract(message, 'of which ([0-9.]+ [KMGT]i?B) is free', 1), '') AS free,
        TRY_CAST(regexp_extract(message, 'with ([0-9.]+) GiB is reserved|and ([0-9.]+) GiB is reserved', 1) AS DOUBLE) AS reserved_gb,
        CASE WHEN pool THEN 'pool' WHEN type = 'OOM killer' THEN 'host'
             WHEN regexp_matches(frames, '(?i)verify|draft|logits|spec|sampler') THEN 'verify'
             WHEN regexp_matches(frames, '(?i)forward_extend|prefill|extend') THEN 'prefill' END AS part,
        nullif(regexp_extract(frames, '[^ ]+$'), '') AS innermost
    FROM first f JOIN run USING (run) LEFT JOIN healthy h USING (run) LEFT JOIN asked a USING (run)
)
SELECT
    run,
    CASE WHEN fatal THEN 'critical' ELSE 'low' END AS severity,  -- one request's, or somebody started it again
    format('{}{}{}{}{}{}',
        CASE WHEN pool THEN 'the KV pool had no free slots' WHEN part = 'host' THEN 'the host or the container had no memory left and the kernel killed a process' ELSE 'an allocation failed while serving' END,
        CASE WHEN wanted IS NOT NULL THEN format(': {} wanted{}', wanted, coalesce(', ' || free || ' free', '')) ELSE ': ' || shortened(message, 140) END,
        CASE WHEN innermost IS NOT NULL THEN ' in ' || innermost ELSE '' END,
        CASE WHEN last IS NOT NULL AND coalesce(part, '') <> 'host' THEN format('; last report: {} running{}{}', last.running,
            CASE WHEN draft_tokens > 1 THEN format(' x {} drafted = {:,} rows to verify', draft_tokens, last.running * draft_tokens) ELSE '' END,
            CASE WHEN last.ctx_len IS NOT NULL THEN format(', {:,} tokens of context each', round(last.ctx_len)::BIGINT) ELSE '' END) ELSE '' END,
        CASE WHEN fraction IS NOT NULL AND coalesce(part, '') <> 'host' THEN ', memory fraction ' || fraction ELSE '' END,
        CASE WHEN NOT fatal THEN '; the server went on' WHEN times > 1 THEN format(' (the first of {} such messages)', times) ELSE '' END) AS message,
    CASE WHEN part IS NOT NULL THEN [part] ELSE [] END AS causes,
    wanted, free, innermost, rank, last.running AS running, draft_tokens, last.running * draft_tokens AS verify_rows, last.ctx_len AS ctx_len,
    TRY_CAST(fraction AS DOUBLE) AS memory_fraction, type AS exception, times,
    CASE WHEN last IS NULL THEN [cite(source, line)] ELSE [cite(source, line), cite(last.source, last.line)] END AS lines
FROM told
