-- identity = "I4"
-- needs = ["accepted", "node_tokens", "bonus", "emitted"]
-- follows = ["I1"]

-- What is handed to the request: the accepted drafts and the bonus. A cut leaves a leading part.

WITH told AS (
    SELECT id, source, emitted, cut, last OR cut IS NOT NULL AS ends,
        list_append(list_transform(accepted[2:], lambda row: node_tokens[row + 1]), bonus) AS due
    FROM traced WHERE accepted IS NOT NULL AND len(node_tokens) > 0 AND bonus IS NOT NULL AND len(emitted) > 0
)
SELECT id, 'emitted' AS field, NULL AS entry, due AS expected, emitted AS observed
FROM told WHERE emitted <> due AND NOT (ends AND emitted = due[:len(emitted)])
UNION ALL
-- Who writes why an emission was cut short has to write it.
SELECT id, 'cut', NULL, ['why it was cut'], NULL
FROM told JOIN source s USING (source)
WHERE s.format = 'steps' AND ends AND cut IS NULL AND len(emitted) < len(due) AND emitted = due[:len(emitted)]
