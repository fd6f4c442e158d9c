-- Where accepted tokens come from, as heat.sql, for steps that lack depths or ranks: the depth follows
-- from the parents, and in a run without any ranks the place among siblings stands for the rank.

WITH picked AS MATERIALIZED (
    SELECT s.rowid AS id, run, ranked, parents, ranks, depths,
        list_distinct(list_filter(accepted, lambda row: row > 0 AND row < len(parents))) AS taken
    FROM step s JOIN heated USING (run)
    WHERE NOT coalesce(warmup, false) AND len(parents) > 1
        AND NOT coalesce(len(depths) = len(parents) AND len(ranks) = len(parents), false)
        AND (NOT ranked OR len(ranks) = len(parents))
        AND s.rowid * 2654435769 % 4294967296 < 4294967296 / every
),
hung AS (
    SELECT id, run, ranked, unnest(range(len(parents))) AS row, unnest(parents) AS parent, unnest(ranks) AS "rank", taken,
        -- rows that come before their parent have no depth, nor what hangs below them
        unnest(CASE WHEN len(depths) = len(parents) THEN depths
               ELSE list_reduce(list_transform(parents[2:], lambda parent: [parent]), lambda made, parent: made || [made[parent[1] + 1] + 1], [0]) END) AS depth
    FROM picked WHERE list_min(parents[2:]) >= 0
)
SELECT run, ranked, least(depth, $deepest) AS depth, least("rank", $last) AS "rank", count(*) AS offered, count(*) FILTER (list_contains(taken, row)) AS accepted
FROM (
    SELECT run, ranked, depth, row, taken, CASE WHEN ranked THEN "rank" ELSE row_number() OVER (PARTITION BY id, parent ORDER BY row) - 1 END AS "rank"
    FROM hung
)
WHERE depth > 0 AND "rank" >= 0
GROUP BY ALL ORDER BY ALL
