-- identity = "commit"
-- needs = ["accepted", "kv_source | state_row | state_sources | checkpoint_rows"]
-- follows = ["I1"]

-- The commit keeps the accepted rows, in their order, and the recurrent state of the last of them; a
-- row's own state goes on from that of its parent. A checkpoint of the state, for a prefix cache, is that
-- of the accepted row which ends the tokens that it stands behind.

WITH due AS (
    SELECT id, kv_source, kv_target, range(ctx_len, ctx_len + len(accepted)) AS target, state_row, accepted[-1] AS last_row,
        CASE WHEN slots IS NULL THEN list_transform(accepted, lambda row: row + ctx_len)
             ELSE list_transform(accepted, lambda row: slots[row + 1]) END AS source
    FROM traced WHERE accepted IS NOT NULL AND (kv_source IS NOT NULL OR state_row IS NOT NULL)
)
SELECT id, 'kv_source' AS field, NULL AS entry, source::VARCHAR AS expected, kv_source::VARCHAR AS observed FROM due WHERE kv_source <> source
UNION ALL
SELECT id, 'kv_target', NULL, target::VARCHAR, kv_target::VARCHAR FROM due WHERE kv_target <> target
UNION ALL
SELECT id, 'state_row', NULL, last_row::VARCHAR, state_row::VARCHAR FROM due WHERE state_row <> last_row
UNION ALL
SELECT id, 'checkpoint_rows', tokens, accepted[tokens - ctx_len]::VARCHAR, row::VARCHAR
FROM (SELECT id, accepted, ctx_len, unnest(checkpoint_tokens) AS tokens, unnest(checkpoint_rows) AS row FROM traced WHERE accepted IS NOT NULL AND len(checkpoint_rows) = len(checkpoint_tokens))
WHERE tokens > ctx_len AND row IS DISTINCT FROM accepted[tokens - ctx_len]
UNION ALL
SELECT id, 'state_sources', row, parent::VARCHAR, state_source::VARCHAR FROM node WHERE state_source <> parent
