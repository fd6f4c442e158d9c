-- Why each traced step accepted no further draft, and how far drafted probabilities hold.
--
-- The walk ends at row r = accepted[-1] in depth A, where the target chose t (ddtree, section 12):
--   end         the request ends in this step, or emission was cut
--   depth       the drafter predicts no deeper
--   top_k       t is not among the candidates of the next depth
--   budget      t is, but its path scores below the last node: a larger budget would hold it
--   left_out    t is, and its path scores above the last node: the tree was built wrong
--   walk        a child of r carries t: the walk was wrong
--   tree        t is not in the tree; the trace has no candidates to say more

CREATE OR REPLACE TEMP TABLE stop AS
WITH ended AS (
    SELECT s.run, len(accepted) - 1 AS accepted, accepted[-1] AS row, target_tokens[accepted[-1] + 1] AS chosen,
        coalesce(t.depth_limit, t.block - 1, len(s.candidate_tokens), nullif(len(s.spine_tokens), 0)) AS depths,
        s.finish IS NOT NULL OR s.cut IS NOT NULL AS ends, s.parents, s.node_tokens, s.log_probs,
        -- the chain has one candidate a depth
        CASE WHEN s.mode ILIKE '%linear' THEN list_transform(s.spine_tokens, lambda token: [token]) ELSE s.candidate_tokens END AS candidates,
        s.candidate_log_probs AS scores
    FROM step s LEFT JOIN setting t ON t.run = s.run
    WHERE NOT coalesce(s.warmup, false) AND coalesce(s.step, s.line) // 64 % getvariable('stops_every') = 0
        AND len(s.accepted) > 0 AND len(s.parents) = len(s.node_tokens) AND len(s.parents) = len(s.target_tokens)
        AND s.accepted[-1] BETWEEN 0 AND len(s.parents) - 1 AND coalesce(s.mode, '') <> 'autoregressive'
),
placed AS (
    SELECT *, list_position(candidates[accepted + 1], chosen) AS place,
        len(list_filter(range(1, len(parents) + 1), lambda i: parents[i] = row AND node_tokens[i] = chosen)) > 0 AS held
    FROM ended
)
SELECT run, CASE
    WHEN ends THEN 'end'
    WHEN held THEN 'walk'
    WHEN accepted >= depths THEN 'depth'
    WHEN candidates IS NULL THEN 'tree'
    WHEN place IS NULL THEN 'top_k'
    WHEN log_probs[row + 1] + scores[accepted + 1][place] > log_probs[-1] + 1e-3 * (1 + abs(log_probs[-1])) THEN 'left_out'
    WHEN scores IS NULL OR log_probs IS NULL THEN 'tree'
    ELSE 'budget'
END AS why
FROM placed;

-- Of each depth: what the drafter gave the nodes that the walk came by, and how many it took. A
-- node is judged where its parent was accepted; then its own term is the chance that it is, too.
CREATE OR REPLACE TEMP TABLE drafted AS
WITH node AS (
    SELECT s.run, s.accepted, unnest(range(1, len(parents))) AS row, unnest(parents[2:]) AS parent, unnest(depths[2:]) AS depth, unnest(ranks[2:]) AS "rank",
        unnest(list_transform(range(2, len(parents) + 1), lambda i: log_probs[i] - log_probs[parents[i] + 1])) AS term
    FROM step s
    WHERE NOT coalesce(s.warmup, false) AND coalesce(s.step, s.line) // 64 % getvariable('stops_every') = 0 AND len(s.parents) > 1 AND len(s.depths) = len(s.parents) AND len(s.ranks) = len(s.parents)
        AND len(s.log_probs) = len(s.parents) AND list_min(s.parents[2:]) >= 0 AND list_max(s.parents) < len(s.parents) AND len(s.accepted) > 0
)
SELECT run, depth, "rank" > 0 AS sibling, count(*) AS nodes, sum(exp(least(term, 0))) AS expected, count(*) FILTER (list_contains(accepted, row)) AS taken
FROM node WHERE list_contains(accepted, parent) AND term > -80 GROUP BY ALL;
