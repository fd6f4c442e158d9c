-- identity = "I12"
-- needs = ["accepted", "parents", "node_tokens", "emitted"]
-- sure = true
-- follows = ["I1", "I4"]

-- Without the target's choices the later text tells them: no tree holds a longer path of what the
-- request went on with than the accepted one.

WITH blind AS (
    SELECT * FROM traced WHERE target_tokens IS NULL AND NOT simulated AND len(emitted) > 0 AND len(node_tokens) > 0 AND len(parents) > 0
),
-- The bonus is there: nothing was cut, and the request goes on.
whole AS (FROM blind SEMI JOIN (FROM link WHERE next IS NOT NULL) USING (id) WHERE cut IS NULL AND len(emitted) = len(accepted))
SELECT w.id, 'accepted' AS field, len(w.accepted) AS entry, n.row AS expected, NULL AS observed
FROM whole w JOIN node n ON n.id = w.id AND n.parent = w.accepted[-1] AND n.token = w.emitted[-1]
