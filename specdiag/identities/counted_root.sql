-- identity = "I1"
-- needs = ["accepted", "accepted_depth | accepted_drafts"]
-- follows = ["I1"]

-- A counter of accepted drafts does not count the root. Elsewhere such a counter may be meant so.

WITH always AS (
    SELECT run, bool_and(accepted_depth = path_len) AS depth, bool_and(accepted_drafts = path_len) AS drafts
    FROM traced WHERE path_len IS NOT NULL GROUP BY run
)
SELECT id, 'accepted_depth' AS field, NULL AS entry, path_len - 1 AS expected, accepted_depth AS observed
FROM traced SEMI JOIN (FROM always WHERE depth) USING (run) WHERE accepted_depth = path_len
UNION ALL
SELECT id, 'accepted_drafts', NULL, path_len - 1, accepted_drafts
FROM traced SEMI JOIN (FROM always WHERE drafts) USING (run) WHERE accepted_drafts = path_len
