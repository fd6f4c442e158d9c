-- identity = "I12"
-- needs = ["accepted", "parents", "node_tokens", "emitted"]
-- sure = true
-- follows = ["I1", "I4"]
-- Without the target's choices the later text tells them: no tree holds a longer path of what the
-- request went on with than the accepted one.

WITH blind AS (
    SELECT * FROM traced WHERE target_tokens IS NULL AND NOT simulated AND len(emitted) > 0 AND len(node_tokens) > 0 AND len(parents) > 0
),
-- Behind the last token of this step the text goes on with the next one's.
continued AS (
    SELECT b.id, b.accepted, n.emitted[1] AS following
    FROM blind b JOIN step n ON n.rowid = b.next WHERE b.cut IS NULL AND len(b.emitted) = len(b.accepted)
)
SELECT c.id, 'accepted' AS field, len(c.accepted) AS entry, n.row AS expected, NULL AS observed
FROM blind b JOIN continued c USING (id) JOIN node n ON n.id = b.id AND n.parent = b.accepted[-1] AND n.token = b.emitted[-1]
