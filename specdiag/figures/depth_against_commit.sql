-- title = "Accepted depth against commit length"
-- tells = "A path of A accepted drafts commits A + 1 tokens, the drafts and the target's own: every point is on the line. Points off it are steps or reports whose numbers do not fit together; labels count them. A request's last step may be cut short and is not drawn."
-- place = 34
-- x = { title = "accepted depth" }
-- y = { title = "commit length, tokens a step" }
WITH told AS (
    SELECT run, source, line, coalesce(accepted_depth, len(accepted) - 1) AS depth, coalesce(commit_len, accepted_drafts + 1) AS commit_len
    FROM step WHERE NOT coalesce(warmup, false) AND NOT coalesce(last, false) AND cut IS NULL AND finish IS NULL AND run IN (FROM shown)
    UNION ALL
    SELECT run, source, line, accepted_depth, coalesce(commit_len, accepted_drafts + 1) FROM acceptance WHERE accepted_depth IS NOT NULL AND run IN (FROM shown)
),
cell AS (
    SELECT run, round(depth, 2) AS depth, round(commit_len, 2) AS commit_len, count(*) AS rows, min(source * 1000000000000 + line) AS first
    FROM told WHERE depth IS NOT NULL AND commit_len IS NOT NULL GROUP BY ALL
),
proof AS (
    SELECT run, round(depth, 2) AS depth, round(commit_len, 2) AS commit_len, min(source * 1000000000000 + line) AS cited
    FROM told WHERE (source, line) IN (SELECT (source, line) FROM cited) GROUP BY ALL
)
SELECT run, 'point' AS draw, CASE WHEN abs(commit_len - depth - 1) > 0.05 THEN 'off the line' ELSE 'on the line' END AS series,
    depth AS x, commit_len AS y, CASE WHEN rows > 1 THEN format('{:,}', rows) END AS label, coalesce(p.cited, c.first) // 1000000000000 AS source, coalesce(p.cited, c.first) % 1000000000000 AS line
FROM cell c LEFT JOIN proof p USING (run, depth, commit_len)
UNION ALL
SELECT NULL, 'line', 'C = A + 1', unnest([0, top]), unnest([1, top + 1]), NULL, NULL, NULL
FROM (SELECT greatest(max(depth), max(commit_len) - 1) AS top FROM cell) WHERE top > 0
UNION ALL
SELECT run, 'point', 'on the line', 0, 1, NULL, NULL, NULL
FROM (SELECT DISTINCT run FROM step WHERE accepted IS NOT NULL OR accepted_depth IS NOT NULL UNION SELECT run FROM acceptance WHERE accepted_depth IS NOT NULL) ANTI JOIN shown USING (run)
