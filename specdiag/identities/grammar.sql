-- identity = "grammar"
-- needs = ["accepted", "legal"]

-- What the target chooses is allowed by the grammar, along the row's own path: what is emitted, and
-- as this project's traces have it (specdiag/ddtree/trace.py) also in rows that were not accepted.
-- Nothing is emitted behind the end of a grammar: there is no more to be said of such a row.

WITH told AS (
    SELECT t.id, t.accepted, t.legal, t.target_tokens, len(t.emitted) AS emitted, s.format = 'steps' AS own
    FROM traced t JOIN source s USING (source)
    WHERE t.legal IS NOT NULL AND t.accepted IS NOT NULL
),
forbidden AS (
    SELECT *, unnest(list_filter(range(len(legal)), lambda row: NOT legal[row + 1])) AS row FROM told WHERE list_contains(legal, false)
),
ended AS (
    SELECT id, emitted, list_position(list_transform(range(1, len(accepted)), lambda i: legal[accepted[i] + 1] AND legal[accepted[i + 1] + 1] IS NULL), true) AS place
    FROM told WHERE own AND list_count(legal) < len(legal)
)
SELECT id, CASE WHEN list_contains(accepted, row) THEN 'legal' ELSE 'legal_beside' END AS field, row AS entry,
    'a token that the grammar allows' AS expected, target_tokens[row + 1]::VARCHAR AS observed
FROM forbidden WHERE own OR list_contains(accepted, row)
UNION ALL
SELECT id, 'legal_end', place, 'the last token', format('{} more', emitted - place) FROM ended WHERE emitted > place
