-- identity = "I9"
-- needs = ["parents", "node_tokens", "target_tokens | ranks"]

-- Siblings carry different tokens: of two equal ones a child map keeps the last. Without ranks they
-- are looked for where it matters, below the target's choices.

WITH doubled AS (
    SELECT id, unnest(range(len(parents))) AS row, unnest(parents) AS parent, unnest(node_tokens) AS token
    FROM traced
    WHERE ranks IS NOT NULL AND len(parents) = len(node_tokens) AND list_unique(list_zip(parents, node_tokens)) < len(parents)
)
SELECT id, 'duplicate_tokens' AS field, max(row) AS entry, NULL AS expected, token AS observed
FROM (SELECT id, row, parent, token FROM doubled UNION SELECT id, row, parent, token FROM hit)
GROUP BY id, parent, token HAVING count(*) > 1
