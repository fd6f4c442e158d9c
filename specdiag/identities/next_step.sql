-- identity = "I5"
-- needs = ["ctx_len", "accepted"]
-- follows = ["I1"]

-- A step begins with the bonus of the one before it, behind all that this committed. A start that
-- fits a commit counter at odds with the path is that contradiction, not another one.

WITH pair AS (
    SELECT l.*, s.run, s.request, s.ctx_len + s.commit_len AS counted
    FROM (FROM link WHERE next_root <> due_root OR next_start <> due_start) l
    JOIN traced s USING (id) SEMI JOIN traced n ON n.id = l.next
),
torn AS (FROM pair WHERE next_root <> due_root)
SELECT next AS id, CASE WHEN EXISTS (
        FROM torn o WHERE o.run = t.run AND o.request <> t.request AND o.due_root = t.next_root
            AND (o.next_root = t.due_root OR EXISTS (FROM torn p WHERE p.run = t.run AND p.request <> o.request AND p.due_root = o.next_root))
    ) THEN 'request' ELSE 'root' END AS field, NULL AS entry, due_root AS expected, next_root AS observed
FROM torn t
UNION ALL
SELECT next, 'ctx_len', NULL, due_start, next_start FROM pair WHERE next_start <> due_start AND next_start IS DISTINCT FROM counted
