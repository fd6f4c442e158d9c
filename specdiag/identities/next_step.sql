-- identity = "I5"
-- needs = ["ctx_len", "accepted"]
-- follows = ["I1"]

-- A step begins with the bonus of the one before it, behind all that this committed. A start that
-- fits a commit counter at odds with the path is that contradiction, not another one.

WITH pair AS (
    SELECT s.id, n.id AS next_id, s.bonus, n.root, s.ctx_len + s.path_len AS due, n.ctx_len AS next_start, s.ctx_len + s.commit_len AS counted
    FROM link l JOIN traced s USING (id) JOIN traced n ON n.id = l.next
    WHERE n.root <> s.bonus OR n.ctx_len <> s.ctx_len + s.path_len
),
torn AS (
    SELECT p.*, t.run, t.request FROM pair p JOIN traced t USING (id) WHERE p.root <> p.bonus
)
SELECT next_id AS id, CASE WHEN EXISTS (
        FROM torn o WHERE o.run = t.run AND o.request <> t.request AND o.bonus = t.root
            AND (o.root = t.bonus OR EXISTS (FROM torn p WHERE p.run = t.run AND p.request <> o.request AND p.bonus = o.root))
    ) THEN 'request' ELSE 'root' END AS field, NULL AS entry, bonus AS expected, root AS observed
FROM torn t
UNION ALL
SELECT next_id, 'ctx_len', NULL, due, next_start FROM pair WHERE next_start <> due AND next_start IS DISTINCT FROM counted
