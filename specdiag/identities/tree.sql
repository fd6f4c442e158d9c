-- identity = "I9"
-- needs = ["parents", "depths", "ranks", "log_probs"]

-- The tree is the best-first one: scores never rise from row to row, the ranks of siblings have no
-- gap, every node is a candidate of its depth with the sum of its path, and nothing better was left
-- out. All of it can be seen row by row, so nothing is built again.

WITH scored AS (
    SELECT n.id, n.row, n.parent, n.depth, n."rank", n.token, n.log_prob, n.parent_log_prob, n.log_prob + t.depth_bonus * n.depth AS score,
        lag(n.log_prob + t.depth_bonus * n.depth) OVER (PARTITION BY n.id ORDER BY n.row) AS score_before,
        CASE WHEN n.depth > 0 THEN t.candidate_tokens[n.depth][n."rank" + 1] END AS candidate,
        CASE WHEN n.depth > 0 THEN t.candidate_log_probs[n.depth][n."rank" + 1] END AS candidate_log_prob
    FROM node n JOIN (
        SELECT id, coalesce(depth_bonus, 0) AS depth_bonus, candidate_tokens, candidate_log_probs FROM traced WHERE mode IS NULL OR mode NOT ILIKE '%linear'
    ) t USING (id)
    WHERE n.row > 0 AND n."rank" IS NOT NULL AND n.log_prob IS NOT NULL AND n.depth IS NOT NULL AND n.parent < n.row
),
unordered AS (
    -- Rows of rank 0 in front, one under the other, are a spine that somebody put first.
    SELECT id, min(row) AS row, arg_min(score_before, row) AS before, arg_min(score, row) AS score,
        bool_or(is_spine) AS spine
    FROM (SELECT *, score > score_before + 1e-4 * (1 + abs(score_before)) AS rises,
            bool_and("rank" = 0 AND parent = row - 1) OVER (PARTITION BY id ORDER BY row ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AND row > 2 AS is_spine
          FROM scored)
    WHERE rises GROUP BY id
)
SELECT id, CASE WHEN spine THEN 'spine_first' ELSE 'order' END AS field, row AS entry, format('at most {:.4f}', before) AS expected, format('{:.4f}', score) AS observed
FROM unordered
UNION ALL
SELECT id, 'log_probs', row, format('{:.4f}', parent_log_prob + candidate_log_prob), format('{:.4f}', log_prob)
FROM scored WHERE candidate_log_prob > -1e30 AND abs(log_prob - parent_log_prob - candidate_log_prob) > 1e-3 * (1 + abs(log_prob))
UNION ALL
SELECT id, 'log_probs', row, 'a number', log_prob::VARCHAR FROM scored WHERE isnan(log_prob) OR log_prob > 1e-4
UNION ALL
SELECT n.id, 'log_probs', n.row, 'a number', 'NaN' FROM node n JOIN traced t USING (id) WHERE n.row > 0 AND n.log_prob IS NULL AND t.log_probs IS NOT NULL
UNION ALL
SELECT id, 'node_tokens', row, candidate::VARCHAR, token::VARCHAR FROM scored WHERE token <> candidate
UNION ALL
SELECT id, 'ranks', min(row), 'ranks without a gap', list("rank" ORDER BY row)::VARCHAR
FROM scored GROUP BY id, parent HAVING max("rank") <> count(*) - 1 OR list("rank" ORDER BY row) <> list_sort(list("rank"))
