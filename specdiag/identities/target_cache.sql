-- identity = "I6"
-- needs = ["ctx_len", "kv_before | kv_verified | kv_after"]

-- Rows of the target's cache: those of the context before, the verified ones too, then the committed.

SELECT id, 'kv_before' AS field, NULL AS entry, ctx_len AS expected, kv_before AS observed FROM traced WHERE kv_before <> ctx_len
UNION ALL
SELECT id, 'kv_verified', NULL, ctx_len + width, kv_verified FROM traced WHERE kv_verified <> ctx_len + width
UNION ALL
SELECT id, 'kv_after', NULL, ctx_len + path_len, kv_after FROM traced WHERE kv_after <> ctx_len + path_len
