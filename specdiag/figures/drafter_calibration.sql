-- title = "Drafter: promised and kept"
-- tells = "By depth, the probability that the drafter gave its nodes and the share of them that was accepted, where their parent was. Alike: its probabilities can be trusted. Alike on the spine only: they cannot carry branches. Nowhere: it reads the wrong context."
-- place = 54
-- draw = "line"
-- needs = ["drafted"]
-- x = { title = "depth" }
-- y = { title = "%" }
WITH share AS (
    SELECT run, depth, CASE WHEN sibling THEN 'siblings' ELSE 'spine' END AS nodes_of, nodes, expected / nodes AS promised, taken / nodes AS kept
    FROM drafted WHERE depth > 0 AND nodes >= 5
    QUALIFY count(*) OVER (PARTITION BY run) > 1
)
SELECT run, run AS panel, nodes_of || ', promised' AS series, depth AS x, 100 * promised AS y, NULL AS low, NULL AS high FROM share
UNION ALL
SELECT run, run, nodes_of || ', accepted', depth, 100 * kept, greatest(0, 100 * kept - 196 * sqrt(kept * (1 - kept) / nodes)), least(100, 100 * kept + 196 * sqrt(kept * (1 - kept) / nodes)) FROM share
