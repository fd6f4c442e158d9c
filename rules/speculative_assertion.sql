-- title    = "The speculative path contradicts itself and dies"
-- severity = "critical"
-- family   = "runtime"
-- needs    = { problem = ["type"], decode = [], acceptance = [], prefill = [], event = [], run = ["speculates"] }
-- why      = "Draft, verification and commit hand each other lists of tokens, slots and hidden states. Where one counts otherwise (a second request, a finished one, a context beyond the draft's limit, a prefill node with another hidden size), a check or a shape fails and the scheduler dies with every request in it."
-- fix      = [
--   "Find the pattern: one request or two, the step after a request ends, the context at which it dies, a grammar, a cache hit. The last report and prompt are quoted.",
--   "Compare the context with the draft's position limit (max_position_embeddings) and the width with the graph sizes.",
--   "Start with --disable-overlap-schedule, then with top-k 1 and the documentation's number of steps; search the message with the version.",
-- ]
-- formula  = "the first exception that killed a serving process is an assertion, a shape, an index or an attribute, in frames of draft, verify or accept"
-- unlike   = [
--   "An exception that one request gets and the server survives.",
--   "Memory, an illegal access, NaN, a lost peer: other findings, whatever frame they end in.",
--   "A combination of settings that is refused (combination_unsupported), or a capture that fails before serving (graph_capture_failed).",
-- ]
-- causes   = [
--   { name = "pattern", cause = "a batch changed under the speculative state: a request ended, joined, was cut by a grammar or retracted", test = "the same prompts one at a time: survives, so it is the mix" },
--   { name = "limit", cause = "the context passed the draft's position limit or a buffer's length", test = "the same prompt cut to half its length: survives" },
--   { name = "pair", cause = "draft and target (or prefill and decode node) differ in hidden size or width", test = "compare hidden_size of both configurations, and the speculative arguments of both nodes" },
--   { name = "overlap", cause = "the overlapped scheduler uses the state of a step that is not done", test = "--disable-overlap-schedule: survives" },
-- ]
-- reports  = ["sgl-project/sglang#13590", "sgl-project/sglang#3574", "ggml-org/llama.cpp#22105", "sgl-project/sglang#24215", "vllm-project/vllm#36122"]
-- explains = ["start_failed", "peer_lost", "server_died"]

WITH cause AS (
    SELECT p.*, r.speculates FROM problem p JOIN run r USING (run)
    WHERE p.cause AND p.killed
        -- a first request that dies in the warm-up is served, too
        AND (NOT p.at_start OR regexp_matches(p.frames, 'event_loop|run_busy_loop|_run_engine|forward_batch_generation|forward_batch_speculative|execute_model'))
        AND NOT regexp_matches(coalesce(p.frames, ''), '(?i)captur|_dummy_run|profile_run|:load_model')
        AND p.type NOT IN ('OutOfMemoryError', 'MemoryError', 'ImportError', 'ModuleNotFoundError', 'OutOfResources', 'Killed')
        AND NOT regexp_matches(p.message, '(?i)out of memory|not enough memory|ALLOC_FAILED|allocate memory|illegal memory|device-side|misaligned|launch failure|\bnans?\b|NCCL|gloo|peer|ninja|nvcc|ptxas|no kernel image|no module named|undefined symbol|compute capability|shared memory, Required|timed? ?out')
),
spec AS (
    SELECT * FROM cause
    WHERE (
            -- the last frames count: every speculative server passes its worker on the way to the target
            regexp_matches(array_to_string(string_split(frames, ', ')[-6:], ', '), '(?i)(?:eagle|draft|dflash|dspark|ddtree|treeflash|ngram|spec_|speculat|mtp|nextn|multi_layer|medusa|suffix_|rejection_sampl|propos|batch_expansion)[a-z0-9_]*\.py:|(?:^|[: ])\w*(?:verify|draft|accept|spec_|speculat|propos)\w*')
            OR regexp_matches(message, '(?i)\b(?:spec_?info|draft|drafts|drafter|verif\w+|accept_?len\w*|accepted|num_draft_tokens|spec_token|speculat\w+|eagle3?|dflash)\b|speculative\.cpp|spec_|draft')
        )
        AND type IN ('AssertionError', 'RuntimeError', 'IndexError', 'AttributeError', 'TypeError', 'KeyError', 'ValueError', 'NotImplementedError',
            'UnboundLocalError', 'NameError', 'ZeroDivisionError', 'GGML_ASSERT', 'GGML_ABORT', 'fatal error', 'what', 'Exception')
        AND (speculates OR frames IS NOT NULL OR type LIKE 'GGML%')
),
healthy AS (
    SELECT d.run, arg_max({'line': d.line, 'source': d.source, 'running': d.running, 'ctx_len': d.ctx_len, 'accept_len': d.accept_len}, (d.time, d.source, d.line)) AS last
    FROM decode d JOIN spec s ON s.run = d.run
    WHERE coalesce(d.time <= s.time, d.source = s.source AND d.line < s.line) AND d.complete GROUP BY d.run
),
-- vLLM tells acceptance on a line of its own, and what it was about to run when it dies.
counted AS (
    SELECT a.run, arg_max(a.commit_len, (a.source, a.line)) AS commit_len FROM acceptance a JOIN spec s ON s.run = a.run AND s.source = a.source
    WHERE a.line < s.line AND a.commit_len >= 1 GROUP BY a.run
),
dumped AS (SELECT run, arg_min(value, (source, line)) AS ctx_len FROM event WHERE kind = 'dump' AND value > 0 GROUP BY run),
prompt AS (
    SELECT f.run, arg_max(cite(f.source, f.line), f.line) AS place, arg_max({'new': f.new_requests, 'running': f.running, 'cached': f.cached_tokens}, f.line) AS last
    FROM prefill f JOIN spec s ON s.run = f.run AND f.source = s.source AND f.line < s.line GROUP BY f.run
),
told AS (
    SELECT s.*, CASE WHEN h.last IS NOT NULL THEN {'line': h.last.line, 'source': h.last.source, 'running': h.last.running, 'ctx_len': coalesce(h.last.ctx_len, m.ctx_len), 'accept_len': coalesce(h.last.accept_len, k.commit_len)} END AS last, q.place AS prompt_place, q.last AS prompt,
        nullif(regexp_extract(frames, '[^ ]+$'), '') AS innermost,
        coalesce(nullif(array_to_string(regexp_extract_all(frames, '(?i)[a-z0-9_]*(?:eagle|draft|dflash|spec|ngram|mtp)[a-z0-9_]*\.py:\w+')[-1:], ''), ''), NULL) AS spec_frame
    FROM spec s LEFT JOIN healthy h USING (run) LEFT JOIN counted k USING (run) LEFT JOIN dumped m USING (run) LEFT JOIN prompt q USING (run)
)
SELECT
    run,
    format('{}{} in {}{}{}', type, CASE WHEN coalesce(message, '') NOT IN ('', type) THEN ' (' || shortened(message, 180) || ')' ELSE '' END,
        coalesce(innermost, 'the speculative path'),
        CASE WHEN spec_frame <> innermost THEN ', called from ' || spec_frame ELSE '' END,
        CASE WHEN last IS NOT NULL THEN format('; last report: {} running{}{}', last.running, CASE WHEN last.ctx_len IS NOT NULL THEN format(', {:,} tokens of context', round(last.ctx_len)::BIGINT) ELSE '' END,
                CASE WHEN last.accept_len IS NOT NULL THEN format(', accept length {:.2f}', last.accept_len) ELSE '' END)
             WHEN prompt_place IS NOT NULL AND speculates AND NOT type LIKE 'GGML%' THEN '; no step was reported before it' ELSE '' END) AS message,
    list_filter([CASE WHEN regexp_matches(message, '(?i)max.?position|position|exceed|too long|longer than|maximum|context') THEN 'limit' END,
                 CASE WHEN regexp_matches(message, '(?i)hidden|Expected size [0-9]+ but got') THEN 'pair' END,
                 CASE WHEN regexp_matches(frames, 'overlap|_v2\.py') THEN 'overlap' END], lambda one: one IS NOT NULL) AS causes,
    type AS exception, shortened(message, 300) AS text, innermost, spec_frame, rank, last.running AS running, last.ctx_len AS ctx_len, last.accept_len AS accept_len,
    prompt.new AS new_requests, prompt.cached AS cached_tokens,
    list_filter([cite(source, line), CASE WHEN last IS NOT NULL THEN cite(last.source, last.line) END, prompt_place], lambda one: one IS NOT NULL) AS lines
FROM told
