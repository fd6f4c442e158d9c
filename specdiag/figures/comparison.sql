-- title = "Runs side by side"
-- tells = "For every value the share of rows that are not above it. Of two runs the curve further to the right has the larger values; curves that cross say that the runs differ in more than their mean."
-- place = 60
-- draw = "line"
-- x = { title = "value" }
-- y = { title = "share, %" }
WITH compared AS (SELECT run FROM run WHERE run IN (SELECT run FROM pairing UNION SELECT against FROM pairing)),
sample AS NOT MATERIALIZED (
    SELECT run, 'accept length' AS panel, kind, commit_len AS value FROM commit_sample WHERE kind IN ('request', 'step', 'decode', 'acceptance') AND run IN (SELECT run FROM run WHERE speculates)
    UNION ALL
    SELECT run, CASE WHEN measured THEN 'step time, ms' ELSE 'step time computed from throughput, ms' END, kind, ms FROM time_sample WHERE stage = 'step' AND kind IN ('step', 'decode', 'acceptance')
    UNION ALL
    SELECT run, 'tokens/s', 'decode', tokens_per_s FROM decode WHERE usable
    UNION ALL
    SELECT run, 'tokens/s of a request', 'request', coalesce(tokens_per_s, (completion_tokens - 1) / nullif(e2e_s - ttft_s, 0)) FROM request
    UNION ALL
    SELECT run, 'time to first token, s', 'request', ttft_s FROM request
),
counted AS (
    SELECT panel, run, kind FROM sample WHERE run IN (FROM compared) AND isfinite(value) GROUP BY panel, run, kind HAVING count(value) >= 5
),
shared AS (  -- the kind of row that most of them have
    SELECT panel, kind FROM counted GROUP BY panel, kind HAVING count(*) > 1
    QUALIFY row_number() OVER (PARTITION BY panel ORDER BY count(*) DESC, list_position(['request', 'step', 'decode', 'acceptance'], kind)) = 1
),
drawn AS (SELECT panel, run, kind FROM counted JOIN shared USING (panel, kind) WHERE run IN (FROM shown)),
curve AS (
    SELECT panel, run, quantile_disc(value, [x / 100 FOR x IN range(101)]) AS reached FROM sample JOIN drawn USING (panel, run, kind) WHERE isfinite(value) GROUP BY panel, run
)
SELECT run, panel, unnest(reached) AS x, unnest(range(101)) AS y FROM curve
UNION ALL
SELECT run, panel, 0, 0 FROM counted JOIN shared USING (panel, kind) WHERE run NOT IN (FROM shown)
