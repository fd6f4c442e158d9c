-- identity = "I1"
-- needs = ["accepted", "accepted_depth | accepted_drafts"]
-- follows = ["I1"]

-- A counter of accepted drafts does not count the root. Elsewhere such a counter may be meant so.

WITH always AS (
    SELECT run, bool_and(accepted_depth = len(accepted)) AS depth, bool_and(accepted_drafts = len(accepted)) AS drafts
    FROM traced WHERE accepted IS NOT NULL GROUP BY run
)
SELECT id, 'accepted_depth' AS field, NULL AS entry, len(accepted) - 1 AS expected, accepted_depth AS observed
FROM traced SEMI JOIN (FROM always WHERE depth) USING (run) WHERE accepted_depth = len(accepted)
UNION ALL
SELECT id, 'accepted_drafts', NULL, len(accepted) - 1, accepted_drafts
FROM traced SEMI JOIN (FROM always WHERE drafts) USING (run) WHERE accepted_drafts = len(accepted)
