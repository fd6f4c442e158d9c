-- identity = "I1"
-- needs = ["accepted", "parents"]

-- Accepted rows begin at the root and go from parent to child.

WITH path AS (
    SELECT id, accepted[2:] AS rows, accepted[:-2] AS before, list_transform(accepted[2:], lambda row: parents[row + 1]) AS parents
    FROM traced WHERE accepted[1] = 0 AND len(parents) > 0
)
SELECT id, 'accepted' AS field, 0 AS entry, 0 AS expected, accepted[1] AS observed
FROM traced WHERE accepted[1] <> 0 AND len(parents) > 0
UNION ALL
SELECT id, 'accepted', row, before, parent
FROM (SELECT id, unnest(rows) AS row, unnest(before) AS before, unnest(parents) AS parent FROM path WHERE parents <> before)
WHERE parent <> before
