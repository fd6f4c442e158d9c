-- Which traced steps travel in a page, the most telling first; table `pointed` has the places that
-- findings quote.
--
--   class 0  a finding cites the step, or replay contradicts it; the kinds of contradiction take turns
--   class 1  its accepted path leaves the spine
--   class 2  the rest
--
-- The latter two are taken evenly from the whole of each run, all runs alike: multiples of the golden
-- ratio fill an interval without clusters, wherever one stops.

CREATE OR REPLACE TEMP TABLE explored AS
WITH unnumbered AS (  -- where steps have no number, their place in the request is it
    SELECT id, nth FROM (
        SELECT rowid AS id, step, row_number() OVER (PARTITION BY run, request ORDER BY source, line) - 1 AS nth
        FROM step WHERE NOT coalesce(warmup, false) AND run IN (SELECT DISTINCT run FROM step WHERE step IS NULL)
    ) WHERE step IS NULL
),
traced AS (
    SELECT rowid AS id, run, request, greatest(len(parents), coalesce(len(node_tokens), 0)) AS rows, step,
        -- without ranks, the children of a row are listed as the drafter ranked them
        coalesce(CASE WHEN len(ranks) = len(parents) THEN len(list_filter(accepted[2:], lambda row: ranks[row + 1] > 0)) > 0
                 ELSE len(list_filter(accepted[2:], lambda row: list_position(parents, parents[row + 1]) <> row + 1)) > 0 END, false) AS leaves
    FROM step WHERE NOT coalesce(warmup, false) AND len(parents) > 0
),
kind AS (
    SELECT run, request, step, source, line, row_number() OVER (PARTITION BY run, identity, field ORDER BY source, line) AS place
    FROM replay
),
wrong AS (
    SELECT s.rowid AS id, min(k.place) AS place
    FROM kind k JOIN step s ON s.source = k.source AND s.line = k.line AND s.run = k.run
        AND s.request IS NOT DISTINCT FROM k.request AND s.step IS NOT DISTINCT FROM k.step
    GROUP BY ALL
),
quoted AS (
    SELECT s.rowid AS id, min(c.place) AS place
    FROM pointed c JOIN source f USING (path) JOIN step s ON s.source = f.source AND s.line = c.line
    GROUP BY ALL
),
classed AS (
    SELECT t.* REPLACE (coalesce(t.step, u.nth) AS step), w.id IS NOT NULL AS wrong, least(w.place, q.place) AS place,
        CASE WHEN coalesce(w.id, q.id) IS NOT NULL THEN 0 WHEN leaves THEN 1 ELSE 2 END AS class
    FROM traced t LEFT JOIN unnumbered u USING (id) LEFT JOIN wrong w USING (id) LEFT JOIN quoted q USING (id)
)
SELECT c.id, c.run, c.request, c.rows, c.step AS number, c.leaves, c.wrong, c.class, coalesce(c.place, c.id * 2654435769 % 4294967296 / 4294967296 * k.alike) AS place
FROM classed c JOIN (SELECT run, class, count(*) AS alike FROM classed GROUP BY run, class) k ON k.run = c.run AND k.class = c.class;
