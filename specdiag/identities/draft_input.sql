-- identity = "I7"
-- needs = ["block_tokens", "root"]

-- The drafter's block: the root, then mask ids, as wide as it was trained for, behind the context.

SELECT id, 'block_root' AS field, 0 AS entry, root AS expected, block_tokens[1] AS observed FROM traced WHERE block_tokens[1] <> root
UNION ALL
SELECT id, 'block_mask', list_position(list_transform(block_tokens[2:], lambda token: token <> mask_id), true), mask_id,
    list_filter(block_tokens[2:], lambda token: token <> mask_id)[1]
FROM traced WHERE len(block_tokens) > 1 AND len(list_filter(block_tokens[2:], lambda token: token <> mask_id)) > 0
UNION ALL
SELECT id, 'block_width', NULL, block, len(block_tokens) FROM traced WHERE len(block_tokens) BETWEEN 1 AND 4096 AND len(block_tokens) <> block
UNION ALL
SELECT id, 'block_start', NULL, ctx_len, block_start FROM traced WHERE block_start <> ctx_len
