-- title    = "Batches outside the captured sizes run without a graph"
-- severity = "medium"
-- family   = "speed"
-- needs    = { decode = ["running", "tokens_per_s"], event = [], config = [], run = ["server"] }
-- applies  = "run IN (SELECT DISTINCT run FROM decode WHERE graph IS NOT NULL) OR run IN (SELECT run FROM event WHERE kind = 'capture_sizes')"
-- enough   = { decode = 5 }
-- enable   = "serve long enough at both batch sizes: five decode lines with a graph, five without"
-- why      = "A graph is captured for a list of batch sizes. A larger batch, or one in a gap of the list, launches its kernels one by one: the step gets slower at once by what the host needs, not by what the batch costs."
-- fix      = [
--   "Capture up to the running limit: --cuda-graph-max-bs (vLLM: max_cudagraph_capture_size, in tokens: running limit x (drafts + 1)).",
--   "Or lower --max-running-requests to the largest captured size, if memory for more graphs is short.",
--   "Check after the restart that decode lines say True at the batch sizes named here.",
-- ]
-- formula  = "of usable decode lines: graph flag False in >= 90 % of those outside the captured sizes and in <= 10 % inside; jump = median step outside (up to twice the size) / median step inside (down to half of it)"
-- sides    = { "step outside the graphs" = "step_outside_ms", "step just inside" = "step_inside_ms", "largest batch captured" = "largest_captured" }
-- unlike   = [
--   "A step that grows gradually with the batch (speculation_loses_at_concurrency).",
--   "`cuda graph: False` on prefill lines, on all decode lines (decode_graph_disabled), or here and there at any batch size: a rank follows the largest batch of the others.",
--   "Windows in which prompts were computed: they are left out of step times.",
-- ]
-- causes   = [
--   { name = "capture_limit", cause = "the largest captured size is below the number of requests that may run", test = "--cuda-graph-max-bs at the running limit (a little memory more): the flag is True and the jump is gone" },
--   { name = "tokens_per_request", cause = "capture sizes are tokens: with k drafts a request takes k + 1 of them", test = "capture sizes times (k + 1): the jump moves to that batch" },
--   { name = "gap", cause = "padding to the next size is switched off and the list has no entry for this batch", test = "without --disable-cuda-graph-padding: the flag is True" },
--   { name = "switched_off", cause = "a policy switched speculation off, and no graph was captured for plain decoding", test = "a fixed number of drafts at this batch size: the flag is True" },
-- ]
-- reports  = ["sgl-project/sglang#21005", "sgl-project/sglang#6669", "vllm-project/vllm#30330", "vllm-project/vllm#27325"]
-- explains = ["speculation_loses_at_concurrency"]
-- params   = { lines = 5, inside = 0.1, outside = 0.9, jump = 1.5 }

WITH setting AS (
    SELECT run, key, arg_max(value, line) AS value, arg_max(cite(source, line), line) AS place FROM config GROUP BY run, key
),
-- Sizes as requests. SGLang lists requests, vLLM tokens: a request takes a row for each draft and one.
listed AS (
    SELECT e.run, list_filter(TRY_CAST(string_split(e.detail, ', ') AS INTEGER[]), lambda one: one IS NOT NULL) AS sizes, NULL::DOUBLE AS largest, 1 AS per_request, cite(e.source, e.line) AS place,
        CASE WHEN e.name ILIKE 'draft%' THEN 1 ELSE 2 END AS weight
    FROM event e WHERE e.kind IN ('capture_sizes', 'capture_begin', 'capture_end') AND e.detail IS NOT NULL
        AND NOT coalesce(e.name ILIKE '%prefill%' OR e.name ILIKE '%piecewise%' OR e.name ILIKE '%extend%', false)
    UNION ALL
    SELECT run, NULL, "after", NULL, cite(source, line), 2 FROM event WHERE kind = 'capture_sizes' AND name = 'tokens'
    UNION ALL
    SELECT run, TRY_CAST(string_split(regexp_replace(value, '[\[\] ]', '', 'g'), ',') AS INTEGER[]), NULL,
        CASE WHEN key LIKE '%cudagraph%' THEN NULL ELSE 1 END, place, 1
    FROM setting WHERE key IN ('cuda_graph_bs', 'cuda_graph_bs_decode', 'cudagraph_capture_sizes', 'compilation_config.cudagraph_capture_sizes')
        AND value SIMILAR TO '\[[0-9, ]+\]'
    UNION ALL
    SELECT run, NULL, TRY_CAST(value AS DOUBLE), CASE WHEN key LIKE '%cudagraph%' THEN NULL ELSE 1 END, place, 0
    FROM setting WHERE key IN ('cuda_graph_max_bs', 'cuda_graph_max_bs_decode', 'max_cudagraph_capture_size', 'compilation_config.max_cudagraph_capture_size')
        AND TRY_CAST(value AS DOUBLE) > 0
),
captured AS (
    SELECT l.run, l.sizes, coalesce(list_max(l.sizes), l.largest) AS printed, l.place,
        floor(coalesce(list_max(l.sizes), l.largest) / coalesce(l.per_request, greatest(1, CASE WHEN r.speculates THEN r.draft_tokens ELSE 1 END))) AS largest,
        l.per_request IS NULL AS tokens
    FROM listed l JOIN run r USING (run)
    WHERE coalesce(list_max(l.sizes), l.largest) > 0 AND (l.per_request = 1 OR NOT r.speculates OR r.draft_tokens > 0)
    QUALIFY row_number() OVER (PARTITION BY l.run ORDER BY weight DESC, coalesce(list_max(l.sizes), l.largest) DESC) = 1
),
padded AS (
    SELECT run, NOT bool_or(key = 'disable_cuda_graph_padding' AND value ILIKE 'true') AS padded,
        bool_or(key IN ('disable_cuda_graph', 'disable_decode_cuda_graph', 'enforce_eager') AND value ILIKE 'true') AS off
    FROM setting GROUP BY run
),
-- Where no list is known, the largest batch that did run from a graph stands for it. Only runs with
-- lines on both sides of it are looked at line by line.
size AS (
    SELECT run, running, count(*) AS rows, bool_or(graph) AS graph FROM decode WHERE usable GROUP BY run, running
),
bounded AS (
    SELECT s.run, coalesce(any_value(c.largest), max(s.running) FILTER (s.graph)) AS largest
    FROM size s LEFT JOIN captured c USING (run) GROUP BY s.run
),
split AS (
    SELECT b.run, any_value(b.largest) AS largest FROM size s JOIN bounded b USING (run) LEFT JOIN captured c USING (run)
    GROUP BY b.run
    HAVING coalesce(sum(s.rows) FILTER (s.running > b.largest OR NOT list_contains(c.sizes, s.running)), 0) >= $lines AND sum(s.rows) >= 2 * $lines
),
unpadded AS (
    SELECT d.run, avg((NOT d.graph)::INTEGER) AS without FROM decode d JOIN captured c USING (run)
    WHERE d.usable AND d.running < c.largest AND NOT list_contains(c.sizes, d.running) AND d.run IN (SELECT run FROM split)
    GROUP BY d.run HAVING count(d.graph) >= $lines
),
line AS (
    SELECT d.run, d.source, d.line, d.running, d.graph, d.step_ms, d.tokens_per_s,
        NOT coalesce(d.after_prefill, false) AND NOT coalesce(d.prompt_tokens_per_s > 0.1 * d.tokens_per_s, false) AS clean,
        c.largest AS listed, c.sizes, c.printed, c.place, coalesce(c.tokens, false) AS tokens,
        b.largest, d.running > b.largest AS above,
        -- a batch is padded to the next size, unless that was switched off, or all such lines say that it is not
        (NOT coalesce(p.padded, true) OR coalesce(u.without >= $outside, false)) AND c.sizes IS NOT NULL AND NOT c.tokens AND NOT list_contains(c.sizes, d.running) AND d.running < c.largest AS in_gap
    FROM decode d JOIN split b USING (run) LEFT JOIN captured c USING (run) LEFT JOIN padded p USING (run) LEFT JOIN unpadded u USING (run)
    WHERE d.usable AND NOT coalesce(p.off, false)
),
told AS (
    SELECT run, any_value(listed) AS listed, any_value(sizes) AS sizes, any_value(printed) AS printed, any_value(place) AS place, bool_or(tokens) AS tokens, any_value(largest) AS largest,
        count(*) AS lines, bool_or(graph IS NOT NULL) AS flagged,
        count(*) FILTER (above OR in_gap) AS outside, count(*) FILTER (NOT (above OR in_gap)) AS inside,
        avg((NOT graph)::INTEGER) FILTER (above OR in_gap) AS outside_without, avg((NOT graph)::INTEGER) FILTER (NOT (above OR in_gap)) AS inside_without,
        list_sort(list_distinct(list(running) FILTER (above OR in_gap))) AS batches, bool_or(in_gap) AS gaps,
        median(step_ms) FILTER (clean AND above AND running <= 2 * largest) AS step_above, median(running) FILTER (clean AND above AND running <= 2 * largest) AS running_above,
        count(step_ms) FILTER (clean AND above AND running <= 2 * largest) AS rows_above,
        median(step_ms) FILTER (clean AND in_gap) AS step_gap, median(running) FILTER (clean AND in_gap) AS running_gap,
        median(step_ms) FILTER (clean AND NOT (above OR in_gap) AND running >= largest / 2) AS step_inside, median(running) FILTER (clean AND NOT (above OR in_gap) AND running >= largest / 2) AS running_inside,
        count(step_ms) FILTER (clean AND NOT (above OR in_gap) AND running >= largest / 2) AS rows_inside,
        min(step_ms) FILTER (clean AND above AND running <= 2 * largest) AS fastest_above, max(step_ms) FILTER (clean AND NOT (above OR in_gap) AND running >= largest / 2) AS slowest_inside,
        arg_min(cite(source, line), line, 2) FILTER (above OR in_gap) AS proof,
        arg_max(cite(source, line), {'r': running, 'l': line}) FILTER (NOT (above OR in_gap)) AS contrast
    FROM line GROUP BY run
),
-- The batch is larger outside, and a step may grow with it: at most in proportion.
judged AS (
    SELECT *, coalesce(step_above, step_gap) AS step_outside,
        CASE WHEN rows_inside >= $lines AND (rows_above >= $lines OR step_gap IS NOT NULL) THEN coalesce(step_above, step_gap) / step_inside END AS jump,
        greatest(1, coalesce(running_above, running_gap) / running_inside) AS growth
    FROM told
),
found AS (
    SELECT
        run,
        format('{} of {} decode lines have {} requests running, {}{}{}', outside, lines,
            CASE WHEN batches[1] = batches[-1] THEN format('{}', batches[1]) ELSE format('{} to {}', batches[1], batches[-1]) END,
            CASE WHEN gaps THEN format('sizes that are not in the captured list [{}]', array_to_string(sizes, ', '))
                 WHEN tokens THEN format('but graphs are captured up to {:.0f} tokens, which are {:.0f} requests', printed, largest)
                 WHEN listed IS NOT NULL THEN format('but graphs are captured up to {:.0f}', largest)
                 ELSE format('and no larger batch than {:.0f} ran from a graph', largest) END,
            CASE WHEN flagged THEN format(': {:.0f} % of them ran without one, inside {:.0f} %', 100 * outside_without, 100 * inside_without) ELSE '' END,
            CASE WHEN jump IS NOT NULL THEN format('; a step takes {:.1f} ms there and {:.1f} ms just inside ({:.1f}x)', step_outside, step_inside, jump) ELSE '' END) AS message,
        CASE WHEN coalesce(jump, 0) < $jump OR jump < 1.1 * growth THEN 'low' END AS severity,
        CASE WHEN jump > growth THEN outside / lines * (1 - growth / jump) END AS impact,
        [CASE WHEN gaps THEN 'gap' WHEN tokens THEN 'tokens_per_request' ELSE 'capture_limit' END] AS causes,
        largest AS largest_captured, batches AS batches_outside, outside AS lines_outside, inside AS lines_inside,
        step_outside AS step_outside_ms, step_inside AS step_inside_ms, jump,
        list_filter(list_concat([place], proof, [contrast]), lambda one: one IS NOT NULL) AS lines
    FROM judged
    WHERE outside >= $lines AND inside >= $lines
        -- a flag says it; without one only a jump does that no line on either side bridges
        AND CASE WHEN flagged THEN outside_without >= $outside AND inside_without <= $inside
                 ELSE listed IS NOT NULL AND jump >= $jump * growth AND fastest_above > slowest_inside END
),
-- A policy that switches speculation off leaves the graphs of verification: plain decoding needs some of its own.
switched AS (
    SELECT run, count(*) AS lines, count(*) FILTER (plain) AS outside, count(*) FILTER (NOT plain) AS inside,
        avg((NOT graph)::INTEGER) FILTER (plain) AS without, avg((NOT graph)::INTEGER) FILTER (NOT plain) AS drafting_without,
        median(step_ms) FILTER (plain) AS step_outside, median(step_ms) FILTER (NOT plain) AS step_inside,
        median(running) FILTER (plain) AS running_outside, median(running) FILTER (NOT plain) AS running_inside,
        list_sort(list_distinct(list(running) FILTER (plain))) AS batches, list_concat(arg_min(cite(source, line), line, 2) FILTER (plain), arg_max(cite(source, line), line, 1) FILTER (NOT plain)) AS lines_of
    FROM (SELECT *, accept_len <= 1.005 AS plain FROM decode WHERE usable AND accept_len IS NOT NULL AND graph IS NOT NULL)
    GROUP BY run
)
FROM found
UNION ALL BY NAME
SELECT run,
    format('{} of {} decode lines draft nothing, with {} to {} requests running, and {:.0f} % of them ran without a graph, drafting ones {:.0f} %; a step takes {:.1f} ms there and {:.1f} ms with drafts',
        outside, lines, batches[1], batches[-1], 100 * without, 100 * drafting_without, step_outside, step_inside) AS message,
    CASE WHEN step_outside < $jump * step_inside THEN 'low' END AS severity, NULL AS impact, ['switched_off'] AS causes, batches AS batches_outside, outside AS lines_outside, inside AS lines_inside,
    step_outside AS step_outside_ms, step_inside AS step_inside_ms, step_outside / step_inside AS jump, lines_of AS lines
FROM switched
WHERE outside >= $lines AND inside >= $lines AND without >= $outside AND drafting_without <= $inside AND run NOT IN (SELECT run FROM found)
