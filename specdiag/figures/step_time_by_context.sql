-- title = "Step time against context"
-- tells = "Points are steps, the line their median in each range of contexts with the middle half of them. On these axes attention over n tokens never rises more steeply than the line 'as fast as the context'; the fit a + b·n^p says how steeply it does, p with its interval."
-- place = 40
-- x = { title = "context, tokens a request", scale = "log" }
-- y = { title = "step time, ms", scale = "log" }
WITH own AS MATERIALIZED (
    SELECT run, source, line, kind, measured, ctx_len, coalesce(running, 1) AS running, ms FROM time_sample WHERE stage = 'step' AND ctx_len > 0 AND run IN (FROM shown)
),
kind AS (  -- measured times where there are enough; batches of the usual size only
    SELECT run, kind, measured, count(*) AS rows, median(running) AS usual FROM own GROUP BY run, kind, measured HAVING count(*) >= 8
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY measured DESC, count(*) DESC, kind) = 1
),
sample AS (
    SELECT t.run, t.source, t.line, t.measured, b.many, t.ms, ln(t.ms) AS log_ms, t.ctx_len * t.running / b.usual AS ctx_len, ln(t.ctx_len * t.running / b.usual) AS place
    FROM own t JOIN (SELECT *, sum(rows) OVER () > 4000 AS many FROM kind) b ON b.run = t.run AND b.kind = t.kind AND b.measured = t.measured
    WHERE t.ms > 0 AND t.running BETWEEN 0.7 * b.usual AND 1.4 * b.usual
),
bin AS (
    SELECT run, median(ctx_len) AS ctx, quantile_cont(ms, [0.25, 0.5, 0.75]) AS quarters, quarters[2] AS ms, quarters[1] AS low, quarters[3] AS high FROM sample GROUP BY run, round(6 * place)::INTEGER
),
wide AS (SELECT max(ctx) >= 2 * min(ctx) AS enough FROM bin GROUP BY run),  -- else there is nothing to see
shape AS (SELECT run, min(ctx) AS short_ctx, max(ctx) AS long_ctx FROM bin GROUP BY run HAVING count(*) >= 4 AND max(ctx) >= 4 * min(ctx)),
-- Least squares of relative residuals for ms = a + b·x^p, a >= 0, as rule step_time_superlinear has it.
model AS (SELECT run, p, ms, (ctx / long_ctx) ** p AS x FROM bin JOIN shape USING (run), (SELECT unnest(range(10, 61)) / 20.0 AS p)),
normal AS (
    SELECT run, p, count(*) AS n, sum(1 / ms ** 2) AS s11, sum(x / ms ** 2) AS s12, sum(x ** 2 / ms ** 2) AS s22, sum(1 / ms) AS r1, sum(x / ms) AS r2 FROM model GROUP BY run, p
),
solved AS (SELECT *, (r1 * s22 - r2 * s12) / nullif(s11 * s22 - s12 ** 2, 0) AS free FROM normal),
fitted AS (
    SELECT run, p, n, CASE WHEN free > 0 THEN free ELSE 0 END AS a, CASE WHEN free > 0 THEN (s11 * r2 - s12 * r1) / (s11 * s22 - s12 ** 2) ELSE r2 / nullif(s22, 0) END AS b,
        n - a * r1 - b * r2 AS rest
    FROM solved
),
power AS (
    SELECT run, arg_min(p, rest) AS p, arg_min(a, rest) AS a, arg_min(b, rest) AS b, greatest(min(rest), 1e-12) AS rest, any_value(n) AS n FROM fitted GROUP BY run
),
interval AS (
    SELECT w.run, w.p, w.a, w.b, min(f.p) AS low, max(f.p) AS high FROM power w JOIN fitted f ON f.run = w.run AND f.rest <= w.rest * (1 + 6.0 / greatest(w.n - 3, 1)) GROUP BY w.run, w.p, w.a, w.b
),
fit AS (  -- where the time hardly grows, no exponent is known
    SELECT run, CASE WHEN high - low > 1.5 THEN 'fit: exponent not known' ELSE format('fit: a + b·n^{:.2f} ({:.2f} to {:.2f})', p, low, high) END AS series,
        p, a, b, short_ctx, long_ctx, unnest(range(25)) / 24 AS part
    FROM interval JOIN shape USING (run) WHERE b > 0
)
SELECT * FROM (
SELECT run, 'point' AS draw, CASE WHEN measured THEN '' ELSE 'computed from throughput' END AS series, ctx_len AS x, ms AS y, NULL AS low, NULL AS high, source, line
FROM sample WHERE NOT many OR (source, line) IN (SELECT (source, line) FROM cited)
UNION ALL  -- rows that would be drawn over each other
SELECT run, 'point', CASE WHEN measured THEN '' ELSE 'computed from throughput' END, avg(ctx_len), avg(ms), NULL, NULL, NULL, NULL
FROM sample WHERE many GROUP BY run, measured, round(40 * place)::INTEGER, round(40 * log_ms)::INTEGER
UNION ALL
SELECT run, 'line', 'median', ctx, ms, low, high, NULL, NULL FROM bin QUALIFY count(*) OVER (PARTITION BY run) > 1
UNION ALL
SELECT run, 'line', series, short_ctx * (long_ctx / short_ctx) ** part AS x, a + b * (x / long_ctx) ** p, NULL, NULL, NULL, NULL FROM fit
UNION ALL
SELECT run, 'point', CASE WHEN step_ms_measured THEN '' ELSE 'computed from throughput' END, ctx_max, step_ms, NULL, NULL, NULL, NULL FROM run ANTI JOIN shown USING (run) WHERE ctx_max > 0 AND step_ms > 0
UNION ALL  -- through the first median of the widest run
SELECT NULL, 'line', 'as fast as the context', unnest([short_ctx, long_ctx]), unnest([ms, ms * long_ctx / short_ctx]), NULL, NULL, NULL, NULL
FROM (SELECT s.run, short_ctx, long_ctx, b.ms FROM shape s JOIN bin b ON b.run = s.run AND b.ctx = s.short_ctx ORDER BY long_ctx / short_ctx DESC, s.run LIMIT 1)
) WHERE (SELECT bool_or(enough) FROM wide)
