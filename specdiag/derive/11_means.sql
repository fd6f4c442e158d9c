-- Means of the commit length.

-- Rows that lie together in the order of their lines are numbered as they pass by, others sorted: each
-- table by itself, since a window over a union would wait for all rows.
CREATE TEMP MACRO numbered(samples) AS TABLE
SELECT run, kind, source, line, commit_len, coalesce(steps, 1) AS weight, ctx_len, running, row_number() OVER () AS place,
    run = lag(run) OVER () AND kind = lag(kind) OVER () AND (source < lag(source) OVER () OR (source = lag(source) OVER () AND line < lag(line) OVER ())) AS back
FROM query_table(samples) WHERE commit_len >= 1;

INSERT INTO commit_mean
WITH text AS (
    SELECT run, 'decode' AS kind, sum(new_requests) AS texts FROM prefill WHERE new_tokens + coalesce(cached_tokens, 0) > 12 GROUP BY run
    UNION ALL
    SELECT run, 'step', count(DISTINCT request) FROM step WHERE request IS NOT NULL AND NOT coalesce(warmup, false) GROUP BY run
),
sample AS NOT MATERIALIZED (
    FROM numbered('decode_commit') UNION ALL FROM numbered('step_commit') UNION ALL FROM numbered('other_commit')
),
whole AS (
    SELECT run, kind, count(*) AS rows, min(place) AS first, max(place) - min(place) + 1 = count(*) AND NOT coalesce(bool_or(back), false) AS plain,
        median(ctx_len) FILTER (drawn(kind, line, coalesce(every, 1))) AS ctx_len, median(running) FILTER (drawn(kind, line, coalesce(every, 1))) AS running
    FROM sample LEFT JOIN share USING (run) GROUP BY run, kind
),
cut AS (
    SELECT s.run, s.kind, source, line, commit_len, weight, place - w.first + 1 AS nth, w.rows
    FROM sample s JOIN whole w ON w.run = s.run AND w.kind = s.kind AND w.plain
    UNION ALL
    SELECT s.run, s.kind, source, line, commit_len, coalesce(steps, 1), row_number() OVER (PARTITION BY s.run, s.kind ORDER BY source, line), w.rows
    FROM commit_sample s JOIN whole w ON w.run = s.run AND w.kind = s.kind AND NOT w.plain WHERE commit_len >= 1
),
-- As many stretches as there are texts, four to ten.
stretch AS (
    SELECT c.run, c.kind, floor((nth - 1) * least(10, greatest(4, coalesce(t.texts, 10))) / rows) AS stretch,
        sum(commit_len * weight) / sum(weight) AS commit_len, sum(commit_len * weight) AS tokens, sum(weight) AS weight,
        sum(commit_len * weight) FILTER (nth <= (rows + 2) // 3) AS first_tokens, sum(weight) FILTER (nth <= (rows + 2) // 3) AS first_weight,
        sum(commit_len * weight) FILTER (nth > rows - rows // 3) AS last_tokens, sum(weight) FILTER (nth > rows - rows // 3) AS last_weight,
        list({'nth': nth, 'place': {'source': source, 'line': line}}) FILTER (nth <= 2 OR nth = rows) AS lines
    FROM cut c LEFT JOIN text t ON t.run = c.run AND t.kind = c.kind GROUP BY c.run, c.kind, stretch
),
mean AS (
    SELECT run, kind, sum(tokens) / sum(weight) AS commit_len, sum(weight) AS weight, sum(first_tokens) / sum(first_weight) AS first_third,
        sum(last_tokens) / sum(last_weight) AS last_third, list_transform(list_sort(flatten(list(lines))), lambda one: one.place) AS lines
    FROM stretch GROUP BY run, kind
),
spread AS (  -- of a weighted mean, and wider where few stretches tell it (the width of Student's t)
    SELECT run, kind, sqrt(count(*) / (count(*) - 3) * sum((s.weight * (s.commit_len - m.commit_len)) ** 2)) / sum(s.weight) AS error
    FROM stretch s JOIN mean m USING (run, kind)
    GROUP BY run, kind HAVING count(*) >= 4
)
SELECT m.run, m.kind, m.commit_len AS mean, greatest(s.error, sqrt(greatest(mean * (mean - 1), 0.01) / m.weight)),
    w.rows, m.weight, m.first_third, m.last_third, w.ctx_len, w.running, m.lines
FROM mean m JOIN whole w USING (run, kind) LEFT JOIN spread s USING (run, kind);

DROP MACRO TABLE numbered;
