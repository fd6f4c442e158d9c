-- Which definition of `accept rate` a log was written with.

-- Each is fitted to the run's own pairs (L = accept len, r = rate), both printed with two decimals:
--   drafts_per_proposed   r = (L - 1) / (N - 1)   SGLang from 0.5.11
--   commit_per_proposed   r = L / N               SGLang 0.5.5 to 0.5.10
--   commit_per_step       r = L / (steps + 1)     SGLang 0.5.3 and 0.5.4; told from the one above
--                                                 only where the arguments say that N is another
CREATE TEMP TABLE rate_fit AS
WITH pair AS (
    SELECT DISTINCT run, accept_len AS l, accept_rate AS r FROM decode
    WHERE usable AND accept_len >= 1 AND accept_rate IS NOT NULL
),
width AS (
    SELECT run,
        round(median((l - 1) / r) FILTER (r >= 0.02)) AS drafts_width,
        round(median(l / r) FILTER (r >= 0.02)) AS commit_width,
        count(*) AS pairs
    FROM pair GROUP BY run
),
fitted AS (
    SELECT run, any_value(pairs) AS pairs, any_value(drafts_width) AS drafts_width, any_value(commit_width) AS commit_width,
        avg((abs(r - coalesce((l - 1) / drafts_width, 0)) <= 0.0051 + 0.0051 / coalesce(drafts_width, 1))::INTEGER) AS drafts_share,
        avg((abs(r - l / commit_width) <= 0.0051 + 0.0051 / commit_width)::INTEGER) AS commit_share
    FROM pair JOIN width USING (run) GROUP BY run
)
SELECT run,
    CASE
        WHEN drafts_share >= 0.95 AND drafts_share >= coalesce(commit_share, 0) THEN 'drafts_per_proposed'
        WHEN commit_share >= 0.95 THEN 'commit_per_proposed'
    END AS formula,
    drafts_width, commit_width, pairs
FROM fitted;
