-- title    = "A kernel read or wrote where it may not"
-- severity = "critical"
-- family   = "runtime"
-- needs    = { problem = ["type"], decode = [], acceptance = [], event = [], config = [] }
-- why      = "A kernel used an address or an index outside of its tensors. The process cannot go on: every later call fails with the same error, and other ranks lose a peer. The error is reported by whichever call comes next, so the frame that the traceback names is not the place unless launches were blocking."
-- fix      = [
--   "Start once without CUDA graphs, then without the overlap schedule, then with another attention backend for target and draft, then without speculation: the first change that cures it names the part.",
--   "Reproduce it with CUDA_LAUNCH_BLOCKING=1 and graphs off: only then does the traceback name the kernel that failed.",
--   "Report the last healthy line with it: batch size, context, acceptance, and whether the number of steps to the crash is constant.",
-- ]
-- formula  = "the first exception that is no consequence says illegal memory access, misaligned address, launch failure or device-side assert"
-- unlike   = [
--   "An allocation that failed first: the access error after it is its consequence (out_of_memory_serving).",
--   "NCCL and Gloo messages after it: ranks that lost this one.",
--   "A GPU that the driver gave up on (Xid 79, uncorrectable ECC): no kernel is to blame (server_died).",
--   "A check of the sampler for NaN: its logits were broken before (nan_logits).",
-- ]
-- causes   = [
--   { name = "padding", cause = "a batch that no graph was captured for is padded, and a kernel reads the padding rows", test = "--disable-cuda-graph (or --disable-cuda-graph-padding) with the same load: no crash, so it is the graph's padding" },
--   { name = "index", cause = "a token id or a position lies outside of a table: the draft's vocabulary, its position limit, a page", test = "shorter contexts and a drafter with the target's vocabulary: no assert, so it was that table" },
--   { name = "overlap", cause = "a buffer is reused while the step before still reads it", test = "--disable-overlap-schedule with the same load" },
--   { name = "backend", cause = "an attention or sampling kernel does not handle this width, page size or context", test = "another --attention-backend and --speculative-draft-attention-backend, everything else alike" },
-- ]
-- reports  = ["z-lab/dflash#38", "z-lab/dflash#146", "vllm-project/vllm#55279", "sgl-project/sglang#9521", "sgl-project/sglang#6309"]
-- explains = ["start_failed", "graph_capture_failed", "peer_lost", "speculative_assertion", "server_died"]

WITH fault AS (
    SELECT *, row_number() OVER (PARTITION BY run ORDER BY time NULLS FIRST, source, line) AS nth, count(*) OVER (PARTITION BY run) AS times
    FROM problem
    WHERE regexp_matches(message, '(?i)illegal memory access|IllegalAddress|ILLEGAL_ADDRESS|misaligned address|device-side assert|unspecified launch failure|illegal instruction was encountered|Memory access fault by GPU')
        -- llama.cpp serves nobody after it: what it printed was a prompt
        AND (fatal OR run NOT IN (SELECT run FROM event WHERE kind = 'slot'))
),
-- What a process died of before is the cause; NaN is caught by a check of its own.
first AS (
    SELECT f.* FROM fault f
    WHERE nth = 1
        AND NOT EXISTS (FROM problem p WHERE p.run = f.run AND p.killed AND p.fatal AND NOT p.follows
            AND (coalesce(p.time < f.time, false) OR (p.source = f.source AND p.line < f.line))
            AND regexp_matches(p.message, '(?i)out of memory|not enough memory|ALLOC_FAILED'))
        -- a card that is lost, or whose memory is broken, fails every kernel
        AND NOT EXISTS (FROM event e WHERE e.run = f.run AND e.kind = 'gpu_fault')
        AND NOT EXISTS (FROM event e WHERE e.run = f.run AND e.kind = 'device_assert' AND regexp_matches(e.detail, '(?i)\bnan\b|\binf detected'))
),
asserted AS (
    SELECT run, arg_min(detail, line) AS condition, arg_min(name, line) AS kernel, min(line) AS line, arg_min(source, line) AS source
    FROM event WHERE kind = 'device_assert' GROUP BY run
),
healthy AS (
    SELECT d.run, arg_max({'line': d.line, 'source': d.source, 'running': d.running, 'ctx_len': d.ctx_len, 'accept_len': d.accept_len, 'graph': d.graph}, (d.time, d.source, d.line)) AS last
    FROM decode d JOIN first f ON f.run = d.run
    WHERE coalesce(d.time <= f.time, d.source = f.source AND d.line < f.line) AND d.complete GROUP BY d.run
),
-- vLLM tells acceptance on a line of its own, and what it was about to run when it dies.
counted AS (
    SELECT a.run, arg_max(a.commit_len, (a.source, a.line)) AS commit_len FROM acceptance a JOIN first f ON f.run = a.run AND f.source = a.source
    WHERE a.line < f.line AND a.commit_len >= 1 GROUP BY a.run
),
dumped AS (SELECT run, arg_min(value, (source, line)) AS ctx_len FROM event WHERE kind = 'dump' AND value > 0 GROUP BY run),
captured AS (
    SELECT run, list_distinct(flatten(list(list_transform(string_split(detail, ', '), lambda size: TRY_CAST(size AS BIGINT))))) AS sizes
    FROM event WHERE kind IN ('capture_sizes', 'capture_begin') AND regexp_matches(detail, '^[0-9]+(?:, [0-9]+)*$') GROUP BY run
),
ranks AS (
    SELECT run, string_agg(DISTINCT rank, ', ' ORDER BY rank) AS ranks, count(DISTINCT rank) AS number FROM fault WHERE rank IS NOT NULL GROUP BY run
),
told AS (
    SELECT f.*, {'line': h.last.line, 'source': h.last.source, 'running': h.last.running, 'ctx_len': coalesce(h.last.ctx_len, m.ctx_len), 'accept_len': coalesce(h.last.accept_len, k.commit_len)} AS last, h.last IS NOT NULL AS seen, a.condition, a.kernel, a.line AS assert_line, a.source AS assert_source, r.ranks, r.number AS ranks_seen,
        regexp_matches(f.message, '(?i)device-side assert') OR a.condition IS NOT NULL AS index,
        coalesce(h.last.graph AND NOT list_contains(c.sizes, h.last.running), false) AS padded,
        nullif(regexp_extract(f.frames, '[^ ]+$'), '') AS innermost
    FROM first f LEFT JOIN healthy h USING (run) LEFT JOIN counted k USING (run) LEFT JOIN dumped m USING (run) LEFT JOIN asserted a USING (run) LEFT JOIN captured c USING (run) LEFT JOIN ranks r USING (run)
)
SELECT
    run,
    format('{} died of {}{}{}{}{}',
        CASE WHEN at_start THEN 'the start' ELSE 'the server' END,
        CASE WHEN index THEN 'an index out of bounds in a kernel' || coalesce(format(' ({}: {})', kernel, condition), coalesce(' (' || condition || ')', ''))
             ELSE '"' || shortened(regexp_replace(message, '^.*CUDA error: ', ''), 100) || '"' END,
        CASE WHEN rank IS NOT NULL THEN ' on ' || rank || CASE WHEN ranks_seen > 1 THEN format(' first ({} ranks report it)', ranks_seen) ELSE '' END ELSE '' END,
        CASE WHEN seen THEN format('; last healthy report: {} running{}{}{}', last.running,
            CASE WHEN last.ctx_len IS NOT NULL THEN format(', {:,} tokens of context', round(last.ctx_len)::BIGINT) ELSE '' END,
            CASE WHEN last.accept_len IS NOT NULL THEN format(', accept length {:.2f}', last.accept_len) ELSE '' END,
            CASE WHEN padded THEN ', a batch size that has no graph of its own' ELSE '' END) ELSE '' END,
        CASE WHEN innermost IS NOT NULL THEN '. The frame that reports it (' || innermost || ') need not be the place' ELSE '' END,
        CASE WHEN times > 1 AND coalesce(ranks_seen, 0) < 2 THEN format(' ({} messages of one fault)', times) ELSE '' END) AS message,
    CASE WHEN index THEN ['index'] WHEN padded THEN ['padding'] ELSE [] END AS causes,
    type AS exception, shortened(message, 300) AS text, rank, ranks, innermost, condition,
    last.running AS running, last.ctx_len AS ctx_len, last.accept_len AS accept_len, padded, times,
    [one for one in [cite(source, line), CASE WHEN assert_line IS NOT NULL THEN cite(assert_source, assert_line) END,
                     CASE WHEN seen THEN cite(last.source, last.line) END] if one IS NOT NULL] AS lines
FROM told
