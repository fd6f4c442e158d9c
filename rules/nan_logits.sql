-- title    = "Logits are not numbers"
-- severity = "critical"
-- family   = "runtime"
-- needs    = { event = ["kind"], problem = [], prefill = [], decode = [], config = [] }
-- applies  = "server"
-- why      = "A NaN in one row of logits makes the sampler draw arbitrary tokens, and what it drew is written to the KV cache of that request: the rest of its answer is garbage, with status 200. A sampler that replaces NaN hides it; one that does not kills the process."
-- fix      = [
--   "Correlate the messages with cache hits and context: start once with the prefix cache off (--disable-radix-cache, --no-enable-prefix-caching).",
--   "Give cache, state and logits a higher precision (--kv-cache-dtype auto, bfloat16 instead of float16), one at a time.",
--   "Then change the attention backend of the draft and of the target, and try without speculation.",
-- ]
-- formula  = "at least one message of the sampler, of a kernel's check or of an exception that names NaN in logits or probabilities"
-- sides    = { "NaN messages" = "messages", "accept length since" = "accept_len_since", "accept length before" = "accept_len_before" }
-- unlike   = [
--   "Dummy weights (--load-format dummy) or the dummy tokens of a latency test: nothing can come of them but NaN.",
--   "`nan%` of a window in which nothing was drafted or occupied.",
--   "An option that is called after NaN, as printed with the arguments.",
-- ]
-- causes   = [
--   { name = "cache", cause = "a cache hit brings uninitialised draft or state cache", test = "the same prompts with the prefix cache off: no message, so a cached row was never written" },
--   { name = "precision", cause = "a low-precision cache, state or float16 overflows", test = "--kv-cache-dtype auto and bfloat16: no message, so it overflowed" },
--   { name = "kernel", cause = "an attention or sampling kernel fails at this width or context", test = "another attention backend, everything else alike" },
-- ]
-- reports  = ["sgl-project/sglang#32968", "sgl-project/sglang#19897", "sgl-project/sglang#14369", "sgl-project/sglang#33187"]
-- explains = ["illegal_memory_access", "start_failed", "peer_lost", "speculative_assertion", "acceptance_too_perfect", "draft_never_accepted", "server_died"]

WITH said AS (
    SELECT run, source, line, time, rank, detail AS text, value FROM event
    WHERE kind = 'nan' AND NOT regexp_matches(detail, '(?i)server_args|--[a-z-]*nan|nan.detection|nan%')
    UNION ALL
    SELECT run, source, line, time, rank, detail, NULL FROM event WHERE kind = 'device_assert' AND regexp_matches(detail, '(?i)\bnan\b|\binf detected')
    UNION ALL
    SELECT run, source, line, time, rank, message, NULL FROM problem
    WHERE regexp_matches(message, '(?i)\bnans?\b') AND regexp_matches(message, '(?i)logit|prob|sampl|inf|tensor|hidden|detect')
),
-- Weights that are none, and programs that feed made-up tokens.
dummy AS (
    SELECT run FROM config WHERE key = 'load_format' AND value ILIKE 'dummy'
    UNION SELECT run FROM event WHERE kind = 'frame' AND regexp_matches(detail, 'bench_one_batch|bench_latency|bench_offline')
),
-- Cache hits of the prompts right before, by the same rank if it says so.
hit AS (
    SELECT s.run, avg((f.cached_tokens > 0)::INTEGER) AS cached_share, count(f.line) AS prompts
    FROM said s ASOF JOIN (SELECT run, source, line, cached_tokens FROM prefill WHERE run IN (SELECT run FROM said)) f ON f.run = s.run AND f.source = s.source AND f.line < s.line
    GROUP BY s.run
),
usual AS (SELECT run, avg((cached_tokens > 0)::INTEGER) AS cached_share, count(*) AS prompts FROM prefill WHERE run IN (SELECT run FROM said) GROUP BY run),
summed AS (
    SELECT run, count(*) AS messages, sum(value)::BIGINT AS passes, string_agg(DISTINCT rank, ', ' ORDER BY rank) AS ranks, count(DISTINCT rank) AS number,
        arg_min(text, (source, line)) AS text, min(time) AS first_time, min(line) AS first_line, arg_min(source, line) AS first_source,
        arg_min(cite(source, line), (source, line), 3) AS places
    FROM said WHERE run NOT IN (FROM dummy) GROUP BY run
),
-- The prompt right before the first of them, where it came out of the cache.
prompted AS (
    SELECT m.run, f.cached_tokens, cite(f.source, f.line) AS place
    FROM summed m ASOF JOIN (SELECT run, source, line, cached_tokens FROM prefill WHERE run IN (SELECT run FROM said)) f
        ON f.run = m.run AND f.source = m.first_source AND f.line < m.first_line
    WHERE f.cached_tokens > 0
),
accepted AS (
    SELECT s.run, median(d.accept_len) FILTER (d.line < s.first_line) AS before, median(d.accept_len) FILTER (d.line > s.first_line) AS since,
        max(d.ctx_len) FILTER (d.line < s.first_line) AS ctx_len
    FROM summed s JOIN decode d ON d.run = s.run AND d.source = s.first_source WHERE d.usable GROUP BY s.run
),
asked AS (
    SELECT run, string_agg(key || ' ' || value, ', ' ORDER BY key) AS low FROM (
        SELECT run, key, arg_max(value, line) AS value FROM config
        WHERE (key IN ('kv_cache_dtype', 'mamba_ssm_dtype') AND regexp_matches(value, '(?i)fp8|fp4|e4m3|e5m2|float16$|int8'))
            OR (key IN ('dtype') AND value IN ('float16', 'half')) OR (key = 'quantization' AND regexp_matches(value, '(?i)fp4|fp8'))
        GROUP BY run, key
    ) GROUP BY run
),
died AS (
    SELECT run, min(line) AS line, arg_min(source, line) AS source FROM problem
    WHERE killed AND fatal AND (regexp_matches(message, '(?i)\bnans?\b|device-side assert|illegal memory'))
    GROUP BY run
)
SELECT
    s.run,
    format('NaN in logits or probabilities: {} message{}{}{}{}{}{}{}', messages, CASE WHEN messages > 1 THEN 's' ELSE '' END,
        CASE WHEN passes > 0 THEN format(' of {} forward pass{}', passes, CASE WHEN passes > 1 THEN 'es' ELSE '' END) ELSE '' END,
        CASE WHEN number > 0 THEN format(' from {} rank{} ({})', number, CASE WHEN number > 1 THEN 's' ELSE '' END, ranks) ELSE '' END,
        CASE WHEN h.prompts >= 3 AND h.cached_share >= 0.8 AND u.cached_share < 0.6 THEN
            format('; {:.0f} % of them follow a prompt with cache hits, of all prompts {:.0f} % have some', 100 * h.cached_share, 100 * u.cached_share) ELSE '' END,
        CASE WHEN w.cached_tokens IS NOT NULL THEN format('; {:,} tokens of the prompt before the first came from the cache', w.cached_tokens) ELSE '' END,
        CASE WHEN a.before IS NOT NULL AND a.since IS NOT NULL AND abs(a.since - a.before) > 0.25 * a.before THEN
            format('; accept length {:.2f} before the first, {:.2f} after it', a.before, a.since) ELSE '' END,
        CASE WHEN d.line IS NOT NULL THEN '; the process died of it' ELSE '' END) AS message,
    list_filter([CASE WHEN h.prompts >= 3 AND h.cached_share >= 0.8 AND u.cached_share < 0.6 THEN 'cache' END,
                 CASE WHEN q.low IS NOT NULL THEN 'precision' END], lambda one: one IS NOT NULL) AS causes,
    messages, passes, ranks, shortened(text, 200) AS text, w.cached_tokens, h.cached_share, u.cached_share AS cached_share_of_all, a.before AS accept_len_before,
    a.since AS accept_len_since, a.ctx_len, q.low AS low_precision,
    list_filter(list_concat(places, [w.place, CASE WHEN d.line IS NOT NULL THEN cite(d.source, d.line) END])[:4], lambda one: one IS NOT NULL) AS lines
FROM summed s LEFT JOIN prompted w USING (run) LEFT JOIN hit h USING (run) LEFT JOIN usual u USING (run) LEFT JOIN accepted a USING (run)
LEFT JOIN asked q USING (run) LEFT JOIN died d USING (run)
