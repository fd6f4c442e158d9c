-- identity = "stop"
-- needs = ["emitted"]

-- Nothing is emitted behind a stop token, and not more than was asked for.

WITH ended AS (
    SELECT id, len(emitted) AS emitted, list_position(list_transform(emitted, lambda token: list_contains(stop_ids, token)), true) AS place FROM traced
)
SELECT id, 'stop' AS field, place AS entry, 'the last token' AS expected, format('{} more', emitted - place) AS observed FROM ended WHERE place < emitted
UNION ALL
SELECT n.id, 'stop', 0, 'no step behind a stop token', 'a step'
FROM link l JOIN traced s USING (id) JOIN traced n ON n.id = l.next WHERE list_contains(s.stop_ids, s.emitted[-1])
UNION ALL
SELECT last_id, 'max_new_tokens', NULL, max_new_tokens::VARCHAR, (1 + emitted)::VARCHAR
FROM (
    SELECT t.run, t.request, sum(len(t.emitted)) AS emitted, arg_max(t.id, t.step) AS last_id
    FROM traced t WHERE len(t.emitted) > 0 GROUP BY t.run, t.request
) JOIN (SELECT run, request, max(max_new_tokens) AS max_new_tokens FROM request GROUP BY run, request) USING (run, request)
WHERE 1 + emitted > max_new_tokens
