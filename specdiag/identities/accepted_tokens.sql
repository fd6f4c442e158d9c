-- identity = "I2"
-- needs = ["accepted", "node_tokens", "target_tokens"]

-- An accepted node carries the target's choice at its parent.

WITH path AS (
    SELECT id, accepted[2:] AS rows, list_transform(accepted[2:], lambda row: node_tokens[row + 1]) AS tokens,
        list_transform(accepted[:-2], lambda row: target_tokens[row + 1]) AS wanted
    FROM traced WHERE accepted IS NOT NULL AND len(node_tokens) > 0 AND len(target_tokens) > 0
)
SELECT id, 'node_tokens' AS field, row AS entry, wanted AS expected, token AS observed
FROM (SELECT id, unnest(rows) AS row, unnest(tokens) AS token, unnest(wanted) AS wanted FROM path WHERE tokens <> wanted)
WHERE token <> wanted
