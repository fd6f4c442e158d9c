-- identity = "I10"
-- needs = ["parents", "budget"]

-- As many nodes as the budget allows, or as K candidates in L depths make; never more. The verified
-- rows are the nodes and the root, padding aside.

WITH sized AS (
    SELECT id, len(parents) - 1 AS nodes, budget, budget_requested, width, mode,
        coalesce(depth_limit, len(candidate_tokens), nullif(len(spine_tokens), 0), block - 1) AS depths, top_k
    FROM traced WHERE len(parents) > 0 AND budget IS NOT NULL AND mode ILIKE '%tree%'
),
full_tree AS (
    SELECT *, list_sum(list_transform(range(1, least(depths, 40) + 1), lambda depth: least(power(top_k, depth), 1e9)))::BIGINT AS most FROM sized
)
SELECT id, 'nodes' AS field, NULL AS entry, least(budget, coalesce(most, budget)) AS expected, nodes AS observed
FROM full_tree WHERE nodes > least(budget, coalesce(most, budget))
UNION ALL
SELECT id, 'clipped', NULL, budget_requested, budget FROM sized WHERE budget < budget_requested
UNION ALL
SELECT id, 'width', NULL, nodes + 1, width FROM sized WHERE width < nodes + 1
