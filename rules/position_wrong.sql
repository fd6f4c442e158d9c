-- title    = "Positions do not follow the tree"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["positions", "depths", "ctx_len"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record positions, depths and the start of every step"
-- why      = "A node's position is the root's plus its depth; siblings share one. A row at another position is rotated to another place of the text, and the target answers for that."
-- fix      = [
--   "An offset that is the same everywhere counts the root or the bonus twice.",
--   "Positions that follow the row number belong to a chain: give the captured graph the positions of the tree.",
--   "An offset that changes from step to step is a length that the host guessed before the device was done.",
-- ]
-- formula  = "position(row) = position(root) + depth(row), as computed and as read back (identity I8)"
-- sides    = { "position of the row" = "observed", "position by its depth" = "expected" }
-- unlike   = [
--   "A trace that counts positions from one: the same offset everywhere is a convention of that trace.",
-- ]
-- explains = ["differs_from_target", "tree_below_chain", "window_not_applied", "visibility_leak"]
-- faults   = ["F1", "F2", "F3", "F4", "F36"]

WITH found AS (
    SELECT *, lines[1].source AS source, lines[1].line AS line FROM broken(['I8'], ['positions', 'positions_read'])
),
-- by how much each row is off, in every step that is
shift AS (
    SELECT r.run, list_distinct(list_transform(range(1, len(s.depths) + 1), lambda i:
            (CASE WHEN r.field = 'positions' THEN s.positions ELSE s.positions_read END)[i] - s.ctx_len - s.depths[i])) AS offsets,
        (CASE WHEN r.field = 'positions' THEN s.positions ELSE s.positions_read END) = range(s.ctx_len, s.ctx_len + len(s.depths)) AS by_row
    FROM (SELECT DISTINCT run, source, line, min(field) AS field FROM replay WHERE identity = 'I8' AND field IN ('positions', 'positions_read') GROUP BY ALL) r
    JOIN step s USING (source, line)
),
shape AS (
    SELECT run, bool_and(by_row) AS by_row, bool_and(len(offsets) = 1) AS even, count(DISTINCT offsets) AS different,
        bool_and(len(list_filter(offsets, lambda one: one <> 0)) = 1) AS nodes_even
    FROM shift GROUP BY run
)
SELECT run, format('{}: row {} is at position {}, it has to be {}{}', in_step(request, step, steps), entry, observed, expected,
        CASE WHEN by_row THEN ' (rows are numbered one after the other)' WHEN even AND different = 1 THEN ' (all rows by the same)' ELSE '' END) AS message,
    request, step, field, expected, observed,
    CASE WHEN by_row THEN 'F2, F4' WHEN (even OR nodes_even) AND different = 1 THEN 'F1, F3' WHEN even THEN 'F3' ELSE 'F36, F3' END AS faults, steps, lines
FROM found JOIN shape USING (run)
