-- title    = "Out of memory before the server was ready"
-- severity = "critical"
-- family   = "capacity"
-- needs    = { problem = ["type"], event = [], config = [], run = ["draft_tokens"] }
-- why      = "Weights, draft weights, KV pools and graphs share the memory. --mem-fraction-static gives weights and pools their share; graphs and activations need what is left, and a wide draft with a long capture list needs much. Messages advise to raise the fraction (the pool found no room) or to lower it (capture found none): with a draft model both can come in turn."
-- fix      = [
--   "If the capture or a plain allocation failed: lower --mem-fraction-static by what was missing, shorten the capture list (--cuda-graph-max-bs) or draft fewer tokens.",
--   "If no room was left for the KV cache: raise --mem-fraction-static, or make room with a smaller or quantised draft, more tensor parallelism or a shorter context.",
--   "If both errors come in turn, the draft is not counted in the fraction: find the value between them, then shorten the capture list.",
--   "Check `nvidia-smi` for another process on the same GPU.",
-- ]
-- formula  = "an allocation or capture error that speaks of memory, before the server is ready"
-- sides    = { "memory wanted" = "wanted", "memory free" = "free", "free before the capture" = "free_before_capture_gb" }
-- unlike   = [
--   "A capture error without a word on memory (graph_capture_failed).",
--   "Exit code 137 alone: anybody may have sent the signal.",
-- ]
-- causes   = [
--   { name = "capture", cause = "graphs of a wide draft with a long list of batch sizes do not fit", test = "--cuda-graph-max-bs 8" },
--   { name = "fraction", cause = "weights and pools take too much, the draft is not counted", test = "--mem-fraction-static lower by 0.05" },
--   { name = "host", cause = "the host or the container has less memory than the weights take on their way", test = "the container's memory.max against the size of the checkpoint; free -g while it loads" },
--   { name = "neighbour", cause = "another process holds memory of the card", test = "nvidia-smi before the start" },
-- ]
-- reports  = ["sgl-project/sglang#6875", "sgl-project/sglang#3430", "sgl-project/sglang#4330"]
-- explains = ["start_failed", "graph_capture_failed"]

WITH cause AS (SELECT run, source, line, type, message FROM problem WHERE cause AND at_start),
-- A compiler that fails inside a capture is no lack of memory, nor is a pool that is full of requests.
short AS (
    SELECT *,
        regexp_extract(message, '(?i)Tried to allocate ([0-9.]+ [KMGT]i?B)', 1) AS wanted,
        regexp_extract(message, 'of which ([0-9.]+ [KMGT]i?B) is free', 1) AS free,
        regexp_extract(message, 'total capacity of ([0-9.]+ [KMGT]i?B)', 1) AS total,
        regexp_extract(message, '(?i)minimum viable = [^=]*= ([0-9.]+)|above ([0-9.]+)', 1) AS viable,
        regexp_matches(message, '(?i)leave no|maximum number of tokens that can be stored in KV cache|(?:increas|rais)(?:e|ing) .{0,4}(?:--)?(?:mem.fraction|gpu.memory.util)|No available memory for the cache|larger than the available KV cache') AS pool,
        regexp_matches(message, 'DefaultCPUAllocator|Cannot allocate memory') OR type IN ('MemoryError', 'OOM killer') AS host
    FROM cause
    WHERE (type IN ('OutOfMemoryError', 'MemoryError', 'ErrorOutOfDeviceMemory', 'OOM killer')
            OR regexp_matches(message, '(?i)out of memory|not enough (?:gpu |device |kv cache |free )?memory|leave no (?:gpu )?memory|no available memory|insufficient (?:gpu |device )?memory|memoryallocation|ALLOC_FAILED|memory capacity is unbalanced|free memory on device|larger than the available KV cache memory|maximum number of tokens that can be stored in KV cache|ErrorOutOfDeviceMemory|OUT_OF_(?:DEVICE|HOST)_MEMORY|failed to allocate|unable to allocate|exceeds .{0,24}mamba cache blocks|can.t allocate memory|cannot allocate memory'))
        AND NOT regexp_matches(message, '(?i)prefill out of memory|decode out of memory|nvcc|ptxas')
        AND run NOT IN (SELECT run FROM problem WHERE fatal AND regexp_matches(message, 'Unsupported gpu architecture|is not defined for option'))
),
-- The last capture that began before it, and did not end, is the one that failed.
capture AS (
    SELECT s.run,
        arg_max(e.name, e.line) AS name, arg_max(e.value, e.line) AS free_gb, arg_max(e.detail, e.line) AS sizes,
        arg_max(cite(e.source, e.line), e.line) AS place
    FROM short s JOIN event e ON e.run = s.run AND e.source = s.source AND e.line < s.line
    WHERE e.kind = 'capture_begin' AND NOT EXISTS (
        FROM event f WHERE f.run = e.run AND f.source = e.source AND f.kind = 'capture_end'
            AND f.line > e.line AND f.line < s.line AND coalesce(f.rank, '') = coalesce(e.rank, '')
    )
    GROUP BY s.run
),
listed AS (
    SELECT run, max(size) AS largest FROM (
        SELECT run, unnest(string_split(detail, ', '))::INTEGER AS size FROM event
        WHERE kind IN ('capture_sizes', 'capture_begin') AND regexp_matches(detail, '^[0-9]+(?:, [0-9]+)*$')
    ) GROUP BY run
),
asked AS (
    SELECT run, any_value(value) FILTER (key IN ('mem_fraction_static', 'gpu_memory_utilization')) AS fraction,
        any_value(value) FILTER (key = 'speculative_num_draft_tokens') AS draft_tokens
    FROM config WHERE value <> 'None' GROUP BY run
),
last_free AS (
    SELECT s.run, arg_max(e.value, e.line) AS after_weights_gb
    FROM short s JOIN event e ON e.run = s.run AND e.source = s.source AND e.line < s.line AND e.kind = 'weights'
    GROUP BY s.run
),
told AS (
    SELECT s.*, c.* EXCLUDE (run), l.largest, a.fraction, f.after_weights_gb,
        coalesce(run.draft_tokens, TRY_CAST(a.draft_tokens AS INTEGER)) AS draft_tokens
    FROM short s JOIN run USING (run)
    LEFT JOIN capture c USING (run) LEFT JOIN listed l USING (run) LEFT JOIN asked a USING (run)
    LEFT JOIN last_free f USING (run)
)
SELECT
    run,
    CASE
        WHEN message ILIKE '%mamba cache blocks%' THEN 'the state cache holds fewer requests than the running limit: ' || shortened(message, 200)
        WHEN pool THEN format('the weights leave no room for the KV cache{}: {}',
            CASE WHEN fraction IS NOT NULL THEN ' at memory fraction ' || fraction ELSE '' END, shortened(message, 200))
        WHEN host THEN 'the host ran out of memory during the start: ' || shortened(message, 160)
        WHEN message ILIKE '%unbalanced%' OR message ILIKE '%free memory on device%' THEN
            'memory of the GPU is taken already, probably by another process: ' || shortened(message, 160)
        WHEN place IS NOT NULL THEN format('the capture of the {}graphs ran out of memory{}{}{}',
            CASE WHEN name <> '' THEN name || ' ' ELSE '' END,
            CASE WHEN free_gb IS NOT NULL THEN format(': {:.2f} GB were free before it', free_gb) ELSE '' END,
            CASE WHEN wanted <> '' THEN ', ' || wanted || ' was wanted' ELSE '' END,
            CASE WHEN coalesce(largest, draft_tokens) IS NOT NULL OR fraction IS NOT NULL THEN format(' ({})', concat_ws(', ',
                CASE WHEN largest IS NOT NULL THEN format('capture list up to {}', largest) END,
                CASE WHEN draft_tokens IS NOT NULL THEN format('{} draft tokens', draft_tokens) END,
                CASE WHEN fraction IS NOT NULL THEN 'memory fraction ' || fraction END)) ELSE '' END)
        ELSE format('the start ran out of GPU memory{}{}: {}',
            CASE WHEN wanted <> '' THEN ' (' || wanted || ' was wanted)' ELSE '' END,
            CASE WHEN fraction IS NOT NULL THEN ' at memory fraction ' || fraction ELSE '' END, shortened(message, 160))
    END AS message,
    nullif(wanted, '') AS wanted, nullif(free, '') AS free, nullif(total, '') AS total,
    free_gb AS free_before_capture_gb, after_weights_gb, nullif(name, '') AS capture, largest AS largest_captured,
    draft_tokens, TRY_CAST(fraction AS DOUBLE) AS memory_fraction, type AS exception,
    -- which way to turn the fraction: the messages advise both
    CASE WHEN pool THEN 'raise' WHEN host THEN NULL ELSE 'lower' END AS fraction_should,
    CASE WHEN host THEN ['host'] ELSE [] END AS causes,
    CASE WHEN place IS NULL OR host THEN [cite(source, line)] ELSE [place, cite(source, line)] END AS lines
FROM told
