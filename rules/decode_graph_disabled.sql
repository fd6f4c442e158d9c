-- title    = "Decoding runs without graphs"
-- severity = "high"
-- family   = "speed"
-- needs    = { decode = ["graph"], event = [], config = [] }
-- enough   = 5
-- enable   = "serve for longer: five decode lines are needed"
-- why      = "Without captured graphs every step launches its kernels one by one; a small batch, and a draft even more, then decodes two to four times slower, without any error."
-- fix      = [
--   "Remove --disable-cuda-graph (or --disable-decode-cuda-graph, enforce_eager) and the option that the reason names.",
--   "If the capture failed for lack of memory, lower --mem-fraction-static or --cuda-graph-max-bs instead of switching graphs off.",
--   "Check after the restart that the log has `Capture ... graph end` and decode lines say True.",
-- ]
-- formula  = "the share of decode lines that say `cuda graph: False` is at least 0.7 over 5 lines"
-- sides    = { "windows without a graph" = "without", "windows" = "windows" }
-- unlike   = [
--   "Prefill lines, where False is normal.",
--   "Formats without the field: absent is not False.",
--   "A server on a CPU, or one that was started eager on purpose to debug: the flag is quoted.",
--   "A batch above the largest captured size only (batch_outside_graphs).",
-- ]
-- causes   = [
--   { name = "flag", cause = "a flag left from debugging", test = "the arguments without --disable-cuda-graph" },
--   { name = "option", cause = "another option switches graphs off silently", test = "the start-up log: the line before the first capture names it" },
--   { name = "memory", cause = "the capture found no memory and was skipped", test = "--mem-fraction-static lower by 0.05" },
-- ]
-- reports  = ["sgl-project/sglang#10374", "sgl-project/sglang#5050"]
-- params   = { share = 0.7, lines = 5 }

WITH setting AS (
    SELECT run, key, arg_max(value, line) AS value FROM config GROUP BY run, key
),
asked AS (
    SELECT run,
        bool_or(key = 'device' AND value ILIKE 'cpu') AS cpu,
        string_agg(key, ', ' ORDER BY key) FILTER (
            (key IN ('disable_cuda_graph', 'disable_decode_cuda_graph', 'enforce_eager') AND value ILIKE 'true')
            OR (key = 'cuda_graph_backend_decode' AND value ILIKE 'disabled')) AS flag,
        max(TRY_CAST(value AS INTEGER)) FILTER (key IN ('cuda_graph_max_bs', 'cuda_graph_max_bs_decode')) AS largest
    FROM setting GROUP BY run
),
captured AS (
    SELECT run, count(*) AS captures, max(list_max(TRY_CAST(string_split(detail, ', ') AS INTEGER[]))) AS largest
    FROM event
    WHERE kind IN ('capture_sizes', 'capture_begin', 'capture_end') AND NOT coalesce(name ILIKE '%prefill%' OR name ILIKE '%piecewise%', false)
    GROUP BY run
),
spoken AS (
    SELECT run, count(*) FILTER (kind IN ('weights', 'capacity', 'ready')) AS start_lines,
        arg_min(detail, line) FILTER (kind = 'graph_off' AND NOT detail ILIKE '%prefill%') AS reason,
        arg_min(cite(source, line), line) FILTER (kind = 'graph_off' AND NOT detail ILIKE '%prefill%') AS place
    FROM event GROUP BY run
),
-- A batch that is larger than every captured one has no graph to run from: another finding
-- (batch_outside_graphs). Where the sizes are not known, the largest batch that did run from a
-- graph stands for them.
size AS (
    SELECT run, running, graph, count(*) AS rows FROM decode WHERE usable AND graph IS NOT NULL GROUP BY run, running, graph
),
bounded AS (
    SELECT s.run, coalesce(greatest(any_value(c.largest), max(s.running) FILTER (s.graph)), any_value(a.largest), max(s.running) FILTER (s.graph), max(s.running)) AS most
    FROM size s LEFT JOIN captured c USING (run) LEFT JOIN asked a USING (run) GROUP BY s.run
),
eager AS (  -- the runs that are worth a look at every line
    SELECT b.run, any_value(b.most) AS most FROM size s JOIN bounded b USING (run) WHERE s.running <= b.most GROUP BY b.run
    HAVING sum(s.rows) FILTER (NOT s.graph) >= $lines AND sum(s.rows) FILTER (NOT s.graph) >= $share * sum(s.rows)
),
decoded AS (
    SELECT d.run, d.source, d.line, d.graph, d.running, d.tokens_per_s
    FROM decode d JOIN eager e USING (run) WHERE d.usable AND d.graph IS NOT NULL AND d.running <= e.most
),
summed AS (
    SELECT run, count(*) AS windows, count(*) FILTER (NOT graph) AS without,
        median(running) FILTER (NOT graph) AS running, median(tokens_per_s) FILTER (NOT graph) AS tokens_per_s,
        median(tokens_per_s / running) FILTER (graph) AS with_graph, median(tokens_per_s / running) FILTER (NOT graph) AS without_graph,
        arg_min(cite(source, line), line, 4) FILTER (NOT graph) AS proof
    FROM decoded GROUP BY run
)
SELECT
    run,
    format('{} of {} decode windows ran without a graph (batch {:.0f}, {:.0f} tokens/s){}', without, windows, running, tokens_per_s,
        CASE WHEN flag <> '' THEN ': ' || flag || ' is set'
             WHEN reason <> '' THEN ': ' || shortened(reason, 160)
             WHEN captures IS NULL AND start_lines > 0 THEN ': the start-up has no capture at all'
             WHEN captures > 0 THEN ' although graphs were captured' || coalesce(format(' up to batch {}', c.largest), '')
             ELSE '' END) AS message,
    -- asked for in so many words: a choice, worth a note
    CASE WHEN flag <> '' THEN 'info' END AS severity,
    without, windows, running, tokens_per_s, flag, reason, captures, c.largest AS largest_captured,
    CASE WHEN place IS NULL THEN proof ELSE list_concat([place], proof[:3]) END AS lines
FROM summed LEFT JOIN asked USING (run) LEFT JOIN captured c USING (run) LEFT JOIN spoken USING (run)
WHERE NOT coalesce(cpu, false)
