-- identity = "I1"
-- needs = ["accepted", "accepted_depth | accepted_drafts"]
-- follows = ["I1"]
-- A counter of accepted drafts does not count the root. Elsewhere such a counter may be meant so.

SELECT id, field, NULL AS entry, drafts AS expected, drafts + 1 AS observed
FROM (
    SELECT id, 'accepted_depth' AS field, len(accepted) - 1 AS drafts, accepted_depth = len(accepted) AS rooted, bool_and(accepted_depth = len(accepted)) OVER (PARTITION BY run) AS always
    FROM traced WHERE accepted IS NOT NULL AND accepted_depth IS NOT NULL
    UNION ALL
    SELECT id, 'accepted_drafts', len(accepted) - 1, accepted_drafts = len(accepted), bool_and(accepted_drafts = len(accepted)) OVER (PARTITION BY run)
    FROM traced WHERE accepted IS NOT NULL AND accepted_drafts IS NOT NULL
)
WHERE rooted AND always
