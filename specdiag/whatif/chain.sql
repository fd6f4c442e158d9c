-- What the traced steps that whatif.sql walked say about the chain and about smaller top-k caps;
-- `chain.py` reads it.

-- The rank of every node of a path; where none are recorded, only the first child of a row is known.
CREATE OR REPLACE TEMP TABLE what_rank AS
SELECT p.id, p.depth, p."row", CASE WHEN s.parents IS NOT NULL AND NOT w.branches THEN 0
    WHEN s.ranks IS NOT NULL THEN s.ranks[p."row" + 1]
    WHEN list_position(s.parents, s.parents[p."row" + 1]) = p."row" + 1 THEN 0 END AS rank
FROM what_path p JOIN what_step w ON w.id = p.id JOIN step s ON s.rowid = p.id;

-- How far the chain of the drafter's first choices would have gone. `least` is what the tree shows
-- of it; the spine that it leaves out may have gone on (`open`). `told`: where spine_tokens are
-- recorded, the text decides, wherever it is known for the whole chain.
CREATE OR REPLACE TEMP TABLE what_chain AS
WITH shown AS (
    SELECT id, max(depth) AS depth, min(depth) FILTER (rank IS DISTINCT FROM 0) AS leaves, max("row") AS last_row FROM what_rank GROUP BY id
),
spine AS (
    SELECT w.id, x.series, x.start, unnest(s.spine_tokens) AS token, unnest(range(1, len(s.spine_tokens) + 1)) AS depth
    FROM what_step w JOIN step s ON s.rowid = w.id JOIN what_text x ON x.id = w.id
    WHERE w.walk IS NOT NULL AND (w.branches OR len(s.spine_tokens) > w.nodes) AND len(s.spine_tokens) > 0
),
told AS (
    SELECT z.id, CASE WHEN count(t.token) = count(*) THEN coalesce(min(z.depth) FILTER (t.token <> z.token) - 1, count(*)) END AS depth
    FROM spine z LEFT JOIN what_token t ON t.series = z.series AND t.place = z.start + z.depth GROUP BY z.id
),
tree AS (SELECT run, bool_or(branches) AS branches FROM what_step GROUP BY run)
SELECT w.id, coalesce(h.depth, 0) AS depth, coalesce(h.leaves - 1, h.depth, 0) AS least,
    coalesce(h.leaves IS NULL AND NOT list_contains(s.parents, coalesce(h.last_row, 0)), true) AS open,
    CASE WHEN tree.branches OR coalesce(len(s.spine_tokens) > w.nodes, false) THEN t.depth ELSE coalesce(h.depth, 0) END AS told
FROM what_step w JOIN step s ON s.rowid = w.id JOIN tree ON tree.run = w.run
LEFT JOIN shown h ON h.id = w.id LEFT JOIN told t ON t.id = w.id
WHERE w.walk IS NOT NULL AND s.parents IS NOT NULL;

-- Every depth of a path with the smallest top-k cap that still has it.
INSERT INTO what_level
SELECT r.id, 'top_k', max(r.rank) OVER (PARTITION BY r.id ORDER BY r.depth) + 1
FROM what_rank r JOIN what_step w ON w.id = r.id JOIN step s ON s.rowid = r.id WHERE w.branches AND s.ranks IS NOT NULL;
