-- identity = "I1"
-- needs = ["accepted", "parents"]

-- Accepted rows begin at the root and go from parent to child.

SELECT id, 'accepted' AS field, 0 AS entry, 0 AS expected, path_start AS observed
FROM traced WHERE path_start <> 0 AND parents IS NOT NULL AND len(parents) > 0
UNION ALL
SELECT id, 'accepted', row, before, parent
FROM odd_move SEMI JOIN traced USING (id) WHERE parent <> before AND path_start = 0
