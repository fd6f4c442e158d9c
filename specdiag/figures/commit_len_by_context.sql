-- title = "Accept length against context"
-- tells = "Points are commit lengths (accepted drafts and the target's own token) at their context; the line is their mean with its 95 % interval. A drafter that loses long contexts falls; below the break-even line a step costs more than it brings."
-- place = 20
-- x = { title = "context, tokens a request", scale = "log" }
-- y = { title = "accept length, tokens a step" }
WITH own AS MATERIALIZED (
    SELECT run, source, line, kind, ctx_len, commit_len FROM commit_sample
    WHERE ctx_len > 0 AND kind IN ('step', 'decode', 'acceptance', 'request') AND run IN (SELECT run FROM run SEMI JOIN shown USING (run) WHERE speculates)
),
kind AS (  -- one kind of row a run
    SELECT run, kind, count(*) AS rows, ln(min(ctx_len)) AS least, ln(max(ctx_len)) AS most FROM own GROUP BY run, kind
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY list_position(['step', 'decode', 'acceptance', 'request'], kind)) = 1
),
sample AS (
    SELECT s.run, s.source, s.line, s.ctx_len, s.commit_len, k.many, ln(s.ctx_len) AS place, least(k.rows // 8, 10) AS ranges, k.least, k.most
    FROM own s JOIN (SELECT *, sum(rows) OVER () > 4000 AS many FROM kind) k ON k.run = s.run AND k.kind = s.kind WHERE k.rows > 1
),
mean AS (
    SELECT run, exp(avg(place)) AS x, avg(commit_len) AS y, 1.96 * stddev_samp(commit_len) / sqrt(count(*)) AS reach
    FROM sample WHERE most > least GROUP BY run, least(floor(ranges * (place - least) / (most - least)), ranges - 1) HAVING count(*) >= 5
),
cost AS (  -- at the usual batch
    SELECT w.run, w.against, w.low, w.high, w.commit_len FROM what_needed w JOIN run r ON r.run = w.run
    QUALIFY row_number() OVER (PARTITION BY w.run, w.low ORDER BY abs(coalesce(w.batch - r.running, 0)), w.batch, w.against) = 1
)
SELECT * FROM (
SELECT run, 'point' AS draw, '' AS series, ctx_len AS x, commit_len AS y, NULL AS low, NULL AS high, source, line
FROM sample WHERE NOT many OR (source, line) IN (SELECT (source, line) FROM cited)
UNION ALL  -- rows that would be drawn over each other
SELECT run, 'point', '', avg(ctx_len), avg(commit_len), NULL, NULL, NULL, NULL
FROM sample WHERE many GROUP BY run, round(50 * place)::INTEGER, round(10 * commit_len)::INTEGER
UNION ALL
SELECT run, 'point', '', ctx_max, 1, NULL, NULL, NULL, NULL FROM run ANTI JOIN shown USING (run) WHERE speculates AND accept_len IS NOT NULL AND ctx_max > 0
UNION ALL
SELECT run, 'line', 'mean', x, y, y - reach, y + reach, NULL, NULL FROM mean QUALIFY count(*) OVER (PARTITION BY run) > 1
UNION ALL
SELECT run, 'line', 'break-even with ' || against, unnest([low, high]), commit_len, NULL, NULL, NULL, NULL FROM cost WHERE low IS NOT NULL AND run IN (SELECT run FROM kind WHERE rows > 1)
) WHERE (SELECT max(most - least) FROM kind WHERE rows > 1) >= ln(1.5)  -- else there is nothing to see
