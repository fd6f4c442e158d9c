-- Where accepted tokens come from: nodes offered and accepted by run, depth and rank, in the steps
-- that say both of every node. Of the runs in table heated one step of `every` is counted, taken
-- evenly (explorer.sql).

WITH picked AS MATERIALIZED (
    SELECT run, depths, ranks, list_distinct(list_filter(accepted, lambda row: row > 0 AND row < len(parents))) AS taken
    FROM step JOIN heated USING (run)
    WHERE NOT coalesce(warmup, false) AND len(depths) = len(parents) AND len(ranks) = len(parents)
        AND step.rowid * 2654435769 % 4294967296 < 4294967296 / every
)
SELECT run, least(depth, $deepest) AS depth, least("rank", $last) AS "rank", sum(offered)::BIGINT AS offered, sum(accepted)::BIGINT AS accepted
FROM (
    SELECT run, unnest(depths) AS depth, unnest(ranks) AS "rank", 1 AS offered, 0 AS accepted FROM picked
    UNION ALL
    SELECT run, depths[row + 1], ranks[row + 1], 0, 1 FROM (SELECT run, depths, ranks, unnest(taken) AS row FROM picked)
)
WHERE depth > 0 AND "rank" >= 0
GROUP BY ALL ORDER BY ALL
