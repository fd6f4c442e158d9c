-- Means of the commit length.

INSERT INTO commit_mean
WITH text AS (
    SELECT run, 'decode' AS kind, sum(new_requests) AS texts FROM prefill WHERE new_tokens + coalesce(cached_tokens, 0) > 12 GROUP BY run
    UNION ALL
    SELECT run, 'step', count(DISTINCT request) FROM step WHERE request IS NOT NULL AND NOT coalesce(warmup, false) GROUP BY run
),
-- As many stretches as there are texts, four to ten.
cut AS (
    SELECT s.*, coalesce(steps, 1) AS weight, ntile(3) OVER w AS third,
        floor((row_number() OVER w - 1) * least(10, greatest(4, coalesce(t.texts, 10))) / count(*) OVER (PARTITION BY s.run, s.kind)) AS stretch
    FROM commit_sample s LEFT JOIN text t ON t.run = s.run AND t.kind = s.kind WHERE commit_len >= 1
    WINDOW w AS (PARTITION BY s.run, s.kind ORDER BY source, line)
),
stretch AS (
    SELECT run, kind, sum(commit_len * weight) / sum(weight) AS commit_len, sum(weight) AS weight FROM cut GROUP BY run, kind, stretch
),
spread AS (  -- of a weighted mean, and wider where few stretches tell it (the width of Student's t)
    SELECT run, kind, sqrt(count(*) / (count(*) - 3) * sum((weight * (s.commit_len - m.commit_len)) ** 2)) / sum(weight) AS error
    FROM stretch s JOIN (SELECT run, kind, sum(commit_len * weight) / sum(weight) AS commit_len FROM cut GROUP BY run, kind) m USING (run, kind)
    GROUP BY run, kind HAVING count(*) >= 4
)
SELECT run, kind, sum(commit_len * weight) / sum(weight) AS mean,
    greatest(any_value(s.error), sqrt(greatest(mean * (mean - 1), 0.01) / sum(weight))) AS error,
    count(*), sum(weight),
    sum(commit_len * weight) FILTER (third = 1) / sum(weight) FILTER (third = 1),
    sum(commit_len * weight) FILTER (third = 3) / sum(weight) FILTER (third = 3),
    median(ctx_len), median(running),
    list_concat(arg_min({'source': source, 'line': line}, (source, line), 2), list_filter([arg_max({'source': source, 'line': line}, (source, line))], lambda one: count(*) > 2))
FROM cut LEFT JOIN spread s USING (run, kind) GROUP BY run, kind;
