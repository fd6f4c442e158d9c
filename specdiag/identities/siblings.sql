-- identity = "I9"
-- needs = ["parents", "node_tokens", "target_tokens | ranks"]

-- Siblings carry different tokens: of two equal ones a child map keeps the last. Without ranks they
-- are looked for where it matters, below the target's choices.

WITH doubled AS (
    SELECT id, unnest(range(len(parents))) AS row, unnest(parents) AS parent, unnest(node_tokens) AS token
    FROM traced
    WHERE ranks IS NOT NULL AND len(parents) = len(node_tokens) AND list_unique(list_zip(parents, node_tokens)) < len(parents)
),
hit AS (
    SELECT id, row, parent, token FROM (
        SELECT id, unnest(range(len(parents))) AS row, unnest(parents) AS parent, unnest(node_tokens) AS token, target_tokens
        FROM traced SEMI JOIN (FROM odd_row WHERE chosen) USING (id)
    ) WHERE token = target_tokens[parent + 1] AND parent >= 0
)
SELECT id, 'duplicate_tokens' AS field, max(row) AS entry, NULL AS expected, token AS observed
FROM doubled GROUP BY id, parent, token HAVING count(*) > 1
UNION ALL
-- hits of one parent carry one token: the target's choice there
SELECT id, 'duplicate_tokens', max(row), NULL, any_value(token)
FROM hit ANTI JOIN doubled USING (id) GROUP BY id, parent HAVING count(*) > 1
