-- title    = "A stage that need not read the context grows with it"
-- severity = "medium"
-- family   = "trace"
-- needs    = { step = ["ctx_len", "compile_ms"] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the times of the stages over a context that at least doubles"
-- why      = "Only attention reads the context. To choose candidates, to build a tree and its mask, to walk and to commit takes as long at a thousand tokens as at a hundred thousand; where it does not, something is made anew for the whole context in every step."
-- fix      = ["Keep the mask of the tree alone, and let attention see all of the past.", "Append to what is there instead of rebuilding it."]
-- formula  = "time of a stage other than attention at the longest contexts against the shortest, beside the share of the step that it has"
-- sides    = { "stage at long context" = "long_ms", "stage at short context" = "short_ms" }
-- unlike   = [
--   "Draft and verify: they read the context.",
-- ]
-- causes   = [
--   { name = "mask", cause = "the mask over the whole context is made anew in every step", test = "mask bytes a step: they grow with the context" },
--   { name = "rebuild", cause = "the drafter's context is rebuilt instead of extended", test = "context rows a step: they equal the context" },
-- ]
-- reports  = ["vllm-project/vllm#54691"]
-- explains = ["step_time_superlinear", "slower_than_baseline"]
-- faults   = ["F46", "F49"]
-- params   = { range = 2.0, growth = 0.25, share = 0.1, steps = 32 }

-- Slopes by regression; `reach` is by how much the stage grows over the range, in parts of the step.
WITH timed AS (
    SELECT run, source, line, request, step, ctx_len, step_ms,
        unnest(['topk', 'build', 'compile', 'walk', 'commit']) AS stage, unnest([topk_ms, build_ms, compile_ms, walk_ms, commit_ms]) AS ms
    FROM step WHERE ctx_len > 0 AND step_ms > 0 AND NOT coalesce(warmup, false)
),
-- Of eight ranges of context the median each, so that single slow steps do not count.
binned AS (
    SELECT run, stage, bin, median(ctx_len) AS ctx_len, median(ms) AS ms, median(step_ms) AS step_ms, count(*) AS steps, arg_min(cite(source, line), (source, line)) AS place
    FROM (SELECT *, ntile(8) OVER (PARTITION BY run, stage ORDER BY ctx_len) AS bin FROM timed WHERE ms IS NOT NULL)
    GROUP BY run, stage, bin
),
grown AS (
    SELECT run, stage, sum(steps) AS steps, min(ctx_len) AS short_ctx, max(ctx_len) AS long_ctx, arg_min(ms, bin) AS short_ms, arg_max(ms, bin) AS long_ms,
        arg_max(step_ms, bin) AS step_ms, regr_slope(ms, ctx_len) AS slope, corr(ms, ctx_len) AS fit, list(place ORDER BY bin)[:4] AS lines
    FROM binned GROUP BY run, stage
)
SELECT run, format('{} takes {:.2f} ms at {:,.0f} tokens of context and {:.2f} ms at {:,.0f}', stage, short_ms, short_ctx, long_ms, long_ctx) AS message,
    stage, short_ms, long_ms, short_ctx, long_ctx, slope * 1000 AS us_per_token, CASE stage WHEN 'compile' THEN 'F49' ELSE 'F46, F49' END AS faults, lines
FROM grown
WHERE steps >= $steps AND long_ctx >= $range * short_ctx AND fit > 0.7 AND long_ms >= (1 + $growth * (long_ctx / short_ctx - 1)) * short_ms AND long_ms - short_ms > $share * step_ms
QUALIFY row_number() OVER (PARTITION BY run ORDER BY long_ms - short_ms DESC) = 1
