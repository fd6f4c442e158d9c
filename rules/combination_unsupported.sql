-- title    = "Settings that do not work together"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = ["type"], event = [], config = [], decode = [], run = [] }
-- why      = "Not every attention backend, page size, quantisation or parallel layout supports every speculative algorithm, and much is refused only after the weights are loaded. The message may name a family (EAGLE) for its relatives (EAGLE3, MTP, STANDALONE)."
-- fix      = [
--   "Change one setting of the pair that the message names; take the attention backend of target and draft first (--attention-backend, --speculative-draft-attention-backend).",
--   "Start once without the speculative options: if that works, the pair is proven. Where a kernel complains of its input, take the documentation's number of draft tokens.",
--   "Look the pair up in the support table of the server's documentation for this version; a newer version may allow it.",
-- ]
-- formula  = "a message that refuses a pair of settings, or an error of the speculative path right after the start, with such a pair in the arguments"
-- unlike   = [
--   "The same error without speculation: then the pair is not it.",
--   "An out-of-memory error that names an option.",
-- ]
-- causes   = [
--   { name = "backend", cause = "an attention backend has no speculative path for this algorithm, top-k or page size", test = "--attention-backend triton (or flashinfer), everything else as it was" },
--   { name = "quantisation", cause = "the draft inherits a quantisation or a KV type that its layers do not have", test = "--speculative-draft-model-quantization unquant" },
--   { name = "overlap", cause = "the overlap schedule or a parallel layout does not know the algorithm", test = "--disable-overlap-schedule; then data parallelism off" },
-- ]
-- reports  = ["sgl-project/sglang#23490", "sgl-project/sglang#35534", "sgl-project/sglang#36352"]
-- explains = ["start_failed", "graph_capture_failed", "speculative_assertion", "server_died"]

WITH death AS (
    SELECT run, min(line) AS line FROM event
    WHERE kind = 'life' AND regexp_matches(name, '(?i)sigquit|crashed|kill_process_tree') GROUP BY run
),
cause AS (
    SELECT p.run, p.source, p.line, p.type, p.message, p.frames, p.at_start
    FROM problem p LEFT JOIN death d USING (run)
    WHERE p.cause AND (p.at_start OR p.killed OR d.line > p.line)  -- a request that was refused kills no server
),
refused AS (
    SELECT * FROM cause
    WHERE type IN ('ValueError', 'AssertionError', 'NotImplementedError', 'RuntimeError', 'Exception', 'TypeError', 'error', 'Value error', 'Input error', 'load_model', 'V cache', 'failed to initialize the context')
        AND regexp_matches(message, '(?i)(?:not|n''t)(?: \w+){0,3} support|invalid choice|(?:unknown|invalid|unrecogni[sz]ed) (?:speculative|attention|quanti[sz]|algorithm|backend)|unsupported|only supports?\b|supported only|only supported|support(?:s|ed)? (?:only )?(?:by|for|with|on|in) |not (?:yet |currently )?implemented|not compatible|incompatible|only compatible|cannot be (?:used|combined|enabled)|can only be used|mutually exclusive|(?:should|must) belong to the same|no common block size|cannot be other|conflicts? with|must be (?:set|disabled|enabled|[0-9]+|one of|divisible by|at (?:least|most)|(?:less|greater|smaller|larger) than)|input should be|unexpected keyword|extra inputs|requires? (?:--)?[a-z_-]*(?:backend|page|topk|top_k|attention|quant|overlap|radix|graph|algorithm|flash)|requires? an? (?:dense|unquanti[sz]ed|non-quanti[sz]ed)\b|please (?:use|set|disable|enable|specify|adjust) ')
        AND regexp_matches(message, '(?i)backend|attention|page.?size|top.?k\b|quanti[sz]|\bfp8\b|\bfp4\b|nvfp4|\bawq\b|\bgptq\b|unquanti[sz]ed|lm.?head|specul|\bspec\b|eagle|\bmtp\b|nextn|dflash|dspark|ddtree|treeflash|\bngram\b|standalone|draft|overlap|kv.?cache.?dtype|radix|\blora\b|chunked.prefill|cuda.?graph|hicache|mamba|n_predict|[vk].cache|block.size|drafting layers|pipeline.parallel|tensor.parallel|disaggregat|torch.?compile|grammar')
        -- the GPU, a package, memory, an unknown model and a draft that does not fit are other findings
        AND NOT regexp_matches(message, '(?i)compute capability|\bsm ?_?(?:>=)? ?[0-9]{2,3}|CUDA arch|unsupported arch|GPUs?\b|nvcc|ptxas|undefined symbol|out of memory|not enough memory|mem.fraction|pip install|not installed|no module named|requires [a-z0-9_.-]+ ?(?:>=|==)|^Model architectures|Hopper|Blackwell|Ampere|vocab|hidden.?size|\bshape\b|state_dict|checkpoint')
),
-- Accepted at start and refused by nobody: these backends have no part that verifies drafts, and
-- die in the first forward pass with a message about something else.
blind AS (
    SELECT c.run, c.source, c.line, c.type, c.message, backend
    FROM cause c
    JOIN (SELECT run, any_value(value) AS backend FROM config
          WHERE key IN ('attention_backend', 'decode_attention_backend') AND value IN ('torch_native', 'flex_attention') GROUP BY run) USING (run)
    JOIN (SELECT run, any_value(value) AS algorithm FROM config
          WHERE key = 'speculative_algorithm' AND value NOT IN ('None', 'NONE', '') GROUP BY run) USING (run)
    WHERE c.type IN ('AttributeError', 'TypeError', 'IndexError', 'AssertionError', 'NotImplementedError')
        AND c.run NOT IN (SELECT run FROM refused)
        AND c.message NOT LIKE '%has no attribute%_cpu%'
        AND NOT regexp_matches(c.message, 'module ''|_OpNamespace|(?i)compute capability|\bsm_?[0-9]{2,3}')
        AND EXISTS (FROM event e WHERE e.run = c.run AND e.kind = 'weights' AND e.line < c.line)
),
-- Nor does a backend, or a runner under pipeline parallelism, whose class lacks what speculation
-- calls. Whatever has served once has it.
lacking AS (
    SELECT c.*, regexp_extract(c.message, '''(\w+)'' object has no attribute', 1) AS class,
        regexp_extract(c.message, 'has no attribute ''(\w+)''', 1) AS attribute
    FROM cause c JOIN run r USING (run)
    WHERE c.type = 'AttributeError' AND r.speculates
        AND regexp_matches(c.message, '''\w*(?:Backend|Metadata|Builder)\w*'' object has no attribute|object has no attribute ''_?(?:drafter|speculator|draft_worker|draft_model_runner)''')
        AND c.run NOT IN (SELECT run FROM refused UNION SELECT run FROM blind)
        AND NOT EXISTS (FROM decode d WHERE d.run = c.run AND d.source = c.source AND d.line < c.line)
),
-- A width that a kernel does not take is no mistake in the eyes of the server: the kernel complains
-- of its input, in the draft's or the verification's first pass.
narrow AS (
    SELECT c.*, r.draft_tokens, regexp_extract(c.frames, '[^ ]+$') AS innermost
    FROM cause c JOIN run r USING (run)
    WHERE r.speculates AND r.draft_tokens > 0 AND c.type IN ('RuntimeError', 'ValueError', 'AssertionError', 'InternalError', 'CompilationError')
        AND c.run NOT IN (SELECT run FROM refused UNION SELECT run FROM blind)
        AND regexp_matches(c.frames, '(?i)(?:draft|eagle|dflash|dspark|ddtree|mtp|nextn|spec)[a-z0-9_]*\.py:|:\w*(?:verify|draft)\w*')
        AND NOT EXISTS (FROM decode d WHERE d.run = c.run AND d.source = c.source AND d.line < c.line)
        AND (
            (r.draft_tokens <= 2 AND regexp_matches(regexp_extract(c.frames, '[^ ]+$'), '(?i)fp4|fp8|quant|marlin|gptq|awq')
                AND regexp_matches(c.message, '(?i)contiguous|stride|align|divisible|multiple of'))
            OR (regexp_matches(c.message, '(?i)must be a power of (?:2|two)') AND r.draft_tokens & (r.draft_tokens - 1) <> 0)
        )
),
asked AS (
    SELECT run, string_agg(key || ' ' || value, ', ' ORDER BY key) AS settings
    FROM (
        SELECT run, key, arg_max(value, line) AS value FROM config
        WHERE key IN ('speculative_algorithm', 'attention_backend', 'decode_attention_backend', 'prefill_attention_backend',
                      'speculative_draft_attention_backend', 'page_size', 'speculative_eagle_topk', 'quantization',
                      'speculative_draft_model_quantization', 'kv_cache_dtype')
            AND value NOT IN ('None', '', 'auto', 'False')
        GROUP BY run, key
    ) GROUP BY run
),
said AS (
    SELECT run, source, line, type, message, true AS pairs, format('the {} died of a combination that this build does not support: {}',
        CASE WHEN at_start THEN 'start' ELSE 'server' END, shortened(message, 200)) AS what
    FROM refused
    UNION ALL
    SELECT run, source, line, type, message, false, format('the first forward pass died with {} ({}): the attention backend {} does not support speculative decoding', type, shortened(message, 120), backend)
    FROM blind
    UNION ALL
    SELECT run, source, line, type, message, true, format('the first forward pass died because {} has no {}: it has no part for speculative decoding', class, attribute)
    FROM lacking
    UNION ALL
    SELECT run, source, line, type, message, true, format('{} drafted tokens are a width that {} does not take: {}', draft_tokens, innermost, shortened(message, 160))
    FROM narrow
)
SELECT
    run,
    what || CASE WHEN pairs AND settings <> '' THEN ' (asked for: ' || settings || ')' ELSE '' END AS message,
    settings, type AS exception, shortened(message, 300) AS text,
    [cite(source, line)] AS lines
FROM said LEFT JOIN asked USING (run)
