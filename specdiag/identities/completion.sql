-- identity = "I11"
-- needs = ["emitted"]

-- A request's completion is the token of its prefill and what its steps emitted, if all are there.

WITH told AS (
    SELECT run, request, sum(len(emitted)) AS emitted, count(*) AS steps, min(step) AS first_step, max(step) AS last_step, arg_max(id, step) AS last_id
    FROM traced WHERE len(emitted) > 0 GROUP BY run, request HAVING count(DISTINCT step) = count(*)
)
SELECT last_id AS id, 'completion_tokens' AS field, NULL AS entry, 1 + emitted AS expected, r.completion_tokens AS observed
FROM told t JOIN request r USING (run, request)
WHERE first_step = 0 AND last_step = steps - 1 AND r.verify_steps = steps AND r.completion_tokens <> 1 + emitted
