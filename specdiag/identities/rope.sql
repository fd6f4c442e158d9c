-- identity = "rope"
-- needs = ["draft_turns", "ctx_len"]

-- A draft layer turns the root by its position. The slowest pair, which stays within one turn longest,
-- tells base and factor; YaRN blends it with others, and is left out.

WITH turned AS (
    SELECT id, ctx_len, unnest(range(len(draft_turns))) AS entry, unnest(draft_turns) AS turn, unnest(draft_layers) AS layer
    FROM traced WHERE len(draft_turns) = len(draft_layers) AND dtype LIKE '%float32'
),
due AS (
    SELECT *, ctx_len * pow(layer.theta, -(layer.head_dim - 2) / layer.head_dim) / coalesce(nullif(layer.factor, 0), 1) AS due
    FROM turned WHERE layer.head_dim > 2 AND layer.theta > 1 AND layer.rope IS DISTINCT FROM 'yarn'
)
SELECT id, 'draft_turns' AS field, entry, format('{:.5f}', due) AS expected, format('{:.5f}', turn) AS observed
FROM due WHERE abs(atan2(sin(turn - due), cos(turn - due))) > 0.02 * abs(due) + 1e-4
