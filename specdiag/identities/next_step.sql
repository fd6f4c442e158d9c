-- identity = "I5"
-- needs = ["ctx_len", "accepted"]
-- follows = ["I1"]

-- A step begins with the bonus of the one before it, behind all that this committed. A start that
-- fits a commit counter at odds with the path is that contradiction, not another one.

WITH pair AS (
    SELECT s.id, n.id AS next_id, s.run, s.request, s.bonus, n.root, s.ctx_len, n.ctx_len AS next_start, s.path_len AS committed, s.commit_len
    FROM traced s JOIN traced n ON n.id = s.next
),
torn AS (
    SELECT * FROM pair WHERE root <> bonus
)
SELECT next_id AS id, CASE WHEN EXISTS (
        FROM torn o WHERE o.run = t.run AND o.request <> t.request AND o.bonus = t.root
            AND (o.root = t.bonus OR EXISTS (FROM torn p WHERE p.run = t.run AND p.request <> o.request AND p.bonus = o.root))
    ) THEN 'request' ELSE 'root' END AS field, NULL AS entry, bonus AS expected, root AS observed
FROM torn t
UNION ALL
SELECT next_id, 'ctx_len', NULL, ctx_len + committed, next_start
FROM pair WHERE next_start <> ctx_len + committed AND next_start IS DISTINCT FROM ctx_len + commit_len
