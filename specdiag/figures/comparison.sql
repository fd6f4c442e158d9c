-- title = "Runs side by side"
-- tells = "For every value the share of rows that are not above it. Of two runs the curve further to the right has the larger values; curves that cross say that the runs differ in more than their mean."
-- place = 60
-- draw = "line"
-- needs = ["pairing"]
-- x = { title = "value" }
-- y = { title = "share, %" }
WITH compared AS (SELECT run FROM run WHERE run IN (SELECT run FROM pairing UNION SELECT against FROM pairing)),
drawn AS (FROM compared SEMI JOIN shown USING (run)),
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
cell AS (  -- values that differ by a quarter of a percent are one
    SELECT panel, run, kind, CASE WHEN value > 0 THEN round(400 * ln(value))::INTEGER END AS step, avg(value) AS value, count(*) AS rows
    FROM sample WHERE run IN (FROM drawn) AND isfinite(value) GROUP BY ALL
),
counted AS (
    SELECT panel, run, kind, sum(rows) AS rows FROM cell GROUP BY panel, run, kind HAVING sum(rows) >= 5
),
shared AS (  -- the kind of row that most of them have
    SELECT panel, kind FROM counted GROUP BY panel, kind HAVING count(*) > 1
    QUALIFY row_number() OVER (PARTITION BY panel ORDER BY count(*) DESC, list_position(['request', 'step', 'decode', 'acceptance'], kind)) = 1
),
risen AS (
    SELECT panel, run, value, sum(c.rows) OVER (PARTITION BY panel, run ORDER BY value)::BIGINT AS upto, upto - c.rows AS below, t.rows::BIGINT AS every
    FROM cell c JOIN (FROM counted SEMI JOIN shared USING (panel, kind)) t USING (panel, run, kind)
)
SELECT run, panel, value AS x, unnest(range(CASE WHEN below > 0 THEN 100 * below // every + 1 ELSE 0 END, 100 * upto // every + 1)) AS y FROM risen
UNION ALL
SELECT run, panel, 0, 0 FROM (FROM compared ANTI JOIN shown USING (run)), shared
