-- title    = "Step time grows faster than the context"
-- severity = "high"
-- family   = "speed"
-- needs    = { time_sample = ["ctx_len", "ms"], share = [] }
-- enough   = 8
-- enable   = "run at several context lengths, or log step times with their context"
-- why      = "Attention over n tokens costs a + b·n a step: it can never grow by a larger factor than n does, and its slope is the same everywhere. What grows faster is not the length of the context but how something handles it: a search over the whole history, index or mask building per token, a kernel off its fast path, paging from host memory."
-- fix      = [
--   "Look at the stage that carries the growth; without stage times, record a step trace or a profile at a short and a long context.",
--   "Run once without speculation at the same lengths: if it grows the same way, it is the target's attention, not the drafter.",
--   "Bound what the drafter reads (window, history), and check that decode graphs and the attention kernel stay the same at the long lengths.",
-- ]
-- formula  = "step time against context: growth between the shortest and longest contexts above that of the context itself, or a local exponent above 1.3 beyond what a + b·n can give"
-- sides    = { "step at long context" = "long_ms", "step at short context" = "short_ms" }
-- unlike   = [
--   "Plain attention: a + b·n never grows by a larger factor than n.",
--   "A batch that grew, or prompts that were computed between.",
--   "Acceptance that falls: C changes the throughput and not the step time.",
-- ]
-- causes   = [
--   { name = "draft", cause = "the drafter searches or rebuilds the whole history on the host", test = "speculation off at the same length: the step time is linear again" },
--   { name = "attention", cause = "the attention kernel leaves its fast path at a length", test = "another --attention-backend at the two lengths" },
--   { name = "paging", cause = "the cache spills to the host or a pool is searched", test = "the length just below the jump, with the usage of the pool beside it" },
-- ]
-- reports  = ["sgl-project/sglang#3909", "ggml-org/llama.cpp#27623"]
-- explains = ["slower_than_baseline"]
-- params   = { range = 8.0, exponent = 1.3, surely = 1.15, margin = 0.05, growth = 1.5 }

-- (a) growth against growth: between two contexts at least 4x apart the time grew by a larger
--     factor than the context, beyond what its scatter explains.
-- (b) curvature: ms = a + b·n^p with p above 1.3 over at least 8x of context, clearly better than
--     a cost that is flat up to some length and linear from there (which kernels have).
WITH size AS (
    SELECT run, kind, measured, coalesce(running, 1) AS running, count(*) AS rows FROM time_sample WHERE stage = 'step' GROUP BY ALL
),
ranked AS (
    SELECT *, sum(rows) OVER (PARTITION BY run, kind, measured ORDER BY running) AS up_to, sum(rows) OVER (PARTITION BY run, kind, measured) AS total FROM size
),
best AS (  -- measured times where there are enough; batches of the usual size only
    SELECT run, kind, measured, min(running) FILTER (2 * up_to >= total) AS running, any_value(coalesce(every, 1)) AS every,
        row_number() OVER (PARTITION BY run ORDER BY measured DESC, any_value(total) DESC) AS nth
    FROM ranked LEFT JOIN share USING (run) GROUP BY run, kind, measured HAVING any_value(total) >= 8
),
sample AS (
    SELECT *, round(6 * ln(ctx_len)) AS bin, drawn(kind, line, every) AS drawn FROM (
        -- attention pays for every token of the batch: a smaller batch counts as a shorter context
        SELECT t.* REPLACE (t.ctx_len * coalesce(t.running, 1) / b.running AS ctx_len), b.every
        FROM time_sample t JOIN best b ON b.nth = 1 AND b.run = t.run AND b.kind = t.kind AND b.measured = t.measured
        WHERE coalesce(t.running, 1) BETWEEN 0.7 * b.running AND 1.4 * b.running
    )
),
bin AS (
    SELECT run, any_value(measured) AS measured, bin, coalesce(median(ctx_len) FILTER (drawn), avg(ctx_len)) AS ctx, coalesce(median(ms) FILTER (drawn), avg(ms)) AS ms, count(*) AS rows,
        greatest(coalesce(stddev_samp(ln(ms)), 0.05), 0.01) / sqrt(coalesce(nullif(count(*) FILTER (drawn), 0), count(*))) AS error,
        arg_min(cite(source, line), line) AS place
    FROM sample WHERE stage = 'step' GROUP BY run, bin
),
shape AS (
    SELECT run, any_value(measured) AS measured, count(*) AS bins, sum(rows) AS rows,
        min(ctx) AS short_ctx, max(ctx) AS long_ctx, arg_min(ms, ctx) AS short_ms, arg_max(ms, ctx) AS long_ms,
        min(bin) AS low_bin, max(bin) AS high_bin,
        regr_slope(ln(ms), ln(ctx)) AS slope,
        sqrt(greatest(1 - regr_r2(ln(ms), ln(ctx)), 0) / (count(*) - 2)) * stddev_samp(ln(ms)) / stddev_samp(ln(ctx)) AS slope_error,
        [arg_min(place, ctx), arg_max(place, ctx)] AS lines
    FROM bin GROUP BY run HAVING count(*) >= 4
),
pair AS (
    SELECT a.run, a.ctx AS from_ctx, b.ctx AS to_ctx, a.ms AS from_ms, b.ms AS to_ms, a.place AS from_place, b.place AS to_place,
        ln(b.ms / a.ms) - ln(b.ctx / a.ctx) AS excess, sqrt(a.error ** 2 + b.error ** 2) AS error
    FROM bin a JOIN bin b ON a.run = b.run AND b.ctx >= 4 * a.ctx
),
growth AS (
    SELECT * FROM pair WHERE excess > 3 * error AND excess > ln(1 + $margin)
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY to_ctx / from_ctx DESC, excess DESC) = 1
),
-- Least squares of relative residuals for t = a + b·x, for every x of a family; a >= 0.
model AS (
    SELECT b.run, 'power' AS family, p.p AS parameter, b.ms AS t, (b.ctx / s.long_ctx) ** p.p AS x
    FROM bin b JOIN shape s USING (run), (SELECT unnest(range(10, 61)) / 20.0 AS p) p
    UNION ALL
    SELECT b.run, 'hinge', k.ctx, b.ms, greatest(0, b.ctx - k.ctx) / s.long_ctx
    FROM bin b JOIN shape s USING (run) JOIN bin k ON k.run = b.run AND k.ctx < s.long_ctx
),
normal AS (
    SELECT run, family, parameter, count(*) AS n, sum(1 / t ** 2) AS s11, sum(x / t ** 2) AS s12, sum(x ** 2 / t ** 2) AS s22,
        sum(1 / t) AS r1, sum(x / t) AS r2
    FROM model GROUP BY run, family, parameter
),
solved AS (
    SELECT *, (r1 * s22 - r2 * s12) / nullif(s11 * s22 - s12 ** 2, 0) AS a FROM normal
),
fitted AS (
    SELECT *, CASE WHEN a > 0 THEN n - a * r1 - (s11 * r2 - s12 * r1) / (s11 * s22 - s12 ** 2) * r2
                   ELSE n - r2 ** 2 / nullif(s22, 0) END AS rest
    FROM solved
),
power AS (
    SELECT run, arg_min(parameter, rest) AS exponent, greatest(min(rest), 1e-12) AS rest, any_value(n) AS n FROM fitted WHERE family = 'power' GROUP BY run
),
bounds AS (
    SELECT f.run, min(f.parameter) AS exponent_low, max(f.parameter) AS exponent_high
    FROM fitted f JOIN power p USING (run)
    WHERE f.family = 'power' AND f.rest <= p.rest * (1 + 6.0 / greatest(p.n - 3, 1)) GROUP BY f.run
),
hinge AS (SELECT run, min(rest) AS rest FROM fitted WHERE family = 'hinge' GROUP BY run),
half AS (  -- what a straight line through the shorter half says of the longest context
    SELECT b.run, regr_intercept(b.ms, b.ctx) + regr_slope(b.ms, b.ctx) * any_value(s.long_ctx) AS straight_ms
    FROM bin b JOIN shape s USING (run) WHERE b.ctx <= sqrt(s.short_ctx * s.long_ctx) GROUP BY b.run
),
judged AS (
    SELECT s.*, g.from_ctx, g.to_ctx, g.from_ms, g.to_ms, g.from_place, g.to_place, p.exponent, b.exponent_low, b.exponent_high,
        h.straight_ms,
        g.run IS NOT NULL AS outgrows,
        p.exponent > $exponent AND b.exponent_low > $surely AND s.long_ctx >= $range * s.short_ctx AND p.rest < 0.5 * k.rest AS curves
    FROM shape s JOIN power p USING (run) JOIN bounds b USING (run) LEFT JOIN hinge k USING (run)
    LEFT JOIN growth g USING (run) LEFT JOIN half h USING (run)
),
found AS (FROM judged WHERE (outgrows OR curves) AND long_ms >= $growth * short_ms),
stage AS (
    SELECT t.run, t.stage,
        median(t.ms) FILTER (round(6 * ln(t.ctx_len)) = s.low_bin) AS short_ms, median(t.ms) FILTER (round(6 * ln(t.ctx_len)) = s.high_bin) AS long_ms
    FROM time_sample t JOIN found s USING (run) JOIN best b ON b.run = t.run AND b.nth = 1 AND b.kind = t.kind
    WHERE t.stage <> 'step' AND round(6 * ln(t.ctx_len)) IN (s.low_bin, s.high_bin) GROUP BY t.run, t.stage
),
carrier AS (
    SELECT run, arg_max(stage, long_ms - short_ms) AS stage, arg_max(short_ms, long_ms - short_ms) AS stage_short_ms,
        arg_max(long_ms, long_ms - short_ms) AS stage_long_ms, max(long_ms - short_ms) AS grown
    FROM stage GROUP BY run
)
SELECT
    run,
    concat_ws('; ',
        CASE WHEN outgrows THEN format('from {:,.0f} to {:,.0f} tokens of context ({:.1f}x) the step time grows from {:.1f} to {:.1f} ms ({:.1f}x, log-log slope {:.2f} ± {:.2f})',
            from_ctx, to_ctx, to_ctx / from_ctx, from_ms, to_ms, to_ms / from_ms, slope, 2 * slope_error)
        END,
        CASE WHEN curves THEN format('above its short-context cost the step time grows as context^{:.2f} ({:.2f} to {:.2f}): {:.1f} ms at {:,.0f}, {:.1f} ms at {:,.0f} tokens',
            exponent, exponent_low, exponent_high, short_ms, short_ctx, long_ms, long_ctx)
        END,
        CASE WHEN stage IS NULL THEN 'no stage times, so the stage that grows is not known'
             ELSE format('{} carries the growth ({:.1f} to {:.1f} ms, {:.0f} % of it)', stage, stage_short_ms, stage_long_ms, 100 * least(stage_share, 1)) END,
        CASE WHEN NOT measured THEN 'the step time was not measured but computed as running × commit length / throughput' END) AS message,
    CASE WHEN straight_ms BETWEEN 0 AND long_ms THEN 1 - straight_ms / long_ms END AS impact,
    CASE WHEN outgrows AND curves THEN 'growth and curvature' WHEN outgrows THEN 'growth' ELSE 'curvature' END AS test,
    short_ctx, long_ctx, short_ms, long_ms, slope, 2 * slope_error AS slope_interval, exponent, exponent_low, exponent_high,
    stage, stage_share, measured,
    CASE WHEN outgrows THEN [from_place, to_place] ELSE lines END AS lines
FROM (SELECT f.*, c.stage, c.stage_short_ms, c.stage_long_ms, c.grown / nullif(f.long_ms - f.short_ms, 0) AS stage_share FROM found f LEFT JOIN carrier c USING (run))
