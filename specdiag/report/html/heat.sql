-- Where accepted tokens come from: nodes offered and accepted by run, depth and rank, in the steps
-- that say both of every node.

SELECT run, least(depth, $deepest) AS depth, least("rank", $last) AS "rank", sum(offered)::BIGINT AS offered, sum(accepted)::BIGINT AS accepted
FROM (
    SELECT run, unnest(depths) AS depth, unnest(ranks) AS "rank", 1 AS offered, 0 AS accepted
    FROM step WHERE NOT coalesce(warmup, false) AND len(depths) = len(parents) AND len(ranks) = len(parents)
    UNION ALL
    SELECT run, depths[row + 1], ranks[row + 1], 0, 1
    FROM (
        SELECT run, depths, ranks, unnest(list_distinct(list_filter(accepted, lambda row: row > 0 AND row < len(parents)))) AS row
        FROM step WHERE NOT coalesce(warmup, false) AND len(depths) = len(parents) AND len(ranks) = len(parents)
    )
)
WHERE depth > 0 AND "rank" >= 0
GROUP BY ALL ORDER BY ALL
