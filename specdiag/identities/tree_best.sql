-- identity = "I9"
-- needs = ["parents", "depths", "ranks", "log_probs", "candidate_log_probs"]

-- Nothing better was left out: neither a next sibling nor a first child of a node scores above the
-- last admitted one. A tree that is not full left nothing out at all.

WITH full_tree AS (
    SELECT id, candidate_log_probs AS table_, coalesce(depth_bonus, 0) AS bonus, log_probs[-1] + coalesce(depth_bonus, 0) * depths[-1] AS least,
        len(parents) - 1 AS nodes, budget, least(len(candidate_log_probs), coalesce(depth_limit, len(candidate_log_probs))) AS most
    FROM traced
    WHERE candidate_log_probs IS NOT NULL AND log_probs IS NOT NULL AND ranks IS NOT NULL AND depths IS NOT NULL
        AND len(parents) > 1 AND (mode IS NULL OR mode NOT ILIKE '%linear')
        AND isfinite(log_probs[-1])
),
edge AS (
    SELECT n.id, n.row, n.depth, n."rank", n.log_prob, n.parent_log_prob, n.parent,
        t.table_[n.depth][n."rank" + 2] AS sibling, CASE WHEN n.depth < t.most THEN t.table_[n.depth + 1][1] END AS child, t.bonus, t.least, t.nodes, t.budget
    FROM node n JOIN full_tree t USING (id) WHERE n.depth BETWEEN 0 AND t.most AND n.parent < n.row
),
family AS (
    SELECT id, parent, max("rank") AS last_rank FROM node WHERE row > 0 AND "rank" IS NOT NULL GROUP BY id, parent
),
left_out AS (
    SELECT e.id, e.row, e.parent_log_prob + e.sibling + e.bonus * e.depth AS score, e.least, e.nodes, e.budget
    FROM edge e JOIN family f ON f.id = e.id AND f.parent = e.parent AND f.last_rank = e."rank"
    WHERE e.row > 0 AND e.sibling > -1e30
    UNION ALL
    SELECT e.id, e.row, e.log_prob + e.child + e.bonus * (e.depth + 1), e.least, e.nodes, e.budget
    FROM edge e ANTI JOIN family f ON f.id = e.id AND f.parent = e.row
    WHERE e.child > -1e30
)
SELECT id, CASE WHEN bool_or(nodes < budget) THEN 'clipped' ELSE 'left_out' END AS field, arg_max(row, score) AS entry,
    CASE WHEN bool_or(nodes < budget) THEN format('{} nodes', any_value(budget)) ELSE format('a last score of at least {:.4f}', max(score)) END AS expected,
    CASE WHEN bool_or(nodes < budget) THEN format('{} nodes', any_value(nodes)) ELSE format('{:.4f}', any_value(least)) END AS observed
FROM left_out WHERE nodes < budget OR score > least + 1e-3 * (1 + abs(least)) GROUP BY id
