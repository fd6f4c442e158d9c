-- identity = "I1"
-- needs = ["accepted", "accepted_depth | accepted_drafts | commit_len"]
-- follows = ["I1"]
-- sure = true

-- The engine's counters are those of its accepted rows: A drafts, A deep, C = A + 1 committed. Where
-- emission was cut, a counter may be that of what was emitted. A counter that is one more in every
-- step counts the root as well; see counted_root.sql.

WITH counted AS (
    SELECT id, run, accepted_depth, accepted_drafts, commit_len, path_len - 1 AS drafts,
        -- where it ends, what was emitted of them; without a record of that, anything less (-1)
        CASE WHEN last OR cut IS NOT NULL THEN coalesce(least(len(emitted), path_len - 1), -1) ELSE path_len - 1 END AS told,
        CASE WHEN last OR cut IS NOT NULL THEN coalesce(len(emitted), -1) ELSE path_len END AS told_commit
    FROM traced WHERE path_len IS NOT NULL
),
rooted AS (
    SELECT run, coalesce(bool_and(accepted_depth = drafts + 1), false) AS depth, coalesce(bool_and(accepted_drafts = drafts + 1), false) AS drafted FROM counted GROUP BY run
)
SELECT id, 'accepted_depth' AS field, NULL AS entry, drafts AS expected, accepted_depth AS observed
FROM counted JOIN rooted USING (run) WHERE NOT depth AND accepted_depth NOT IN (drafts, told) AND NOT (told = -1 AND accepted_depth BETWEEN 0 AND drafts)
UNION ALL
SELECT id, 'accepted_drafts', NULL, drafts, accepted_drafts FROM counted JOIN rooted USING (run) WHERE NOT drafted AND accepted_drafts NOT IN (drafts, told) AND NOT (told = -1 AND accepted_drafts BETWEEN 0 AND drafts)
UNION ALL
SELECT id, 'commit_len', NULL, drafts + 1, commit_len FROM counted WHERE commit_len NOT IN (drafts + 1, told_commit) AND NOT (told_commit = -1 AND commit_len BETWEEN 0 AND drafts + 1)
