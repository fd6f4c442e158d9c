-- identity = "I8"
-- needs = ["positions", "depths", "ctx_len"]

-- A node's position is the root's plus its depth, whatever row it stands in.

SELECT id, 'positions' AS field, row AS entry, ctx_len + depth AS expected, position AS observed FROM node WHERE position <> ctx_len + depth
UNION ALL
SELECT id, 'positions_read', row, ctx_len + depth, position_read FROM node WHERE position_read <> ctx_len + depth
