-- What traced steps say about other budgets; `ask.py` reads it.
--
-- A budget's tree is the first nodes of every larger one (best-first order), so a step's accepted
-- depth under budget b is the number of depths of its path that begin in a row <= b. The path is
-- walked again, from the target's choices over all children; where a trace has none, the text that
-- follows decides; where it has no tokens, the recorded rows are the path.

-- Steps in few columns; `id` is the step's rowid, lists are read from `step` by it.
CREATE OR REPLACE TEMP TABLE what_step AS
WITH named AS (
    SELECT run, request, row_number() OVER (ORDER BY run, request) AS series FROM (SELECT DISTINCT run, request FROM step)
),
-- Where no budget is recorded, the largest tree has it, and smaller ones ran out of candidates.
largest AS (SELECT run, max(coalesce(nodes, len(parents) - 1, 0)) AS nodes FROM step GROUP BY run)
SELECT s.rowid AS id, s.run, n.series,
    CASE WHEN ctx_len > 0 THEN floor(log2(ctx_len))::INTEGER END AS range,
    ctx_len, coalesce(batch, 1) AS batch, len(emitted) AS emits, source, line,
    coalesce(s.nodes, len(parents) - 1, 0) AS nodes,
    -- The budget of a shadow run is that of a tree which it does not verify.
    greatest(CASE WHEN mode ILIKE '%shadow%' THEN l.nodes ELSE coalesce(budget, l.nodes) END, s.nodes, len(parents) - 1) AS budget,
    top_k,
    -- Every row of a batch has the time of the whole step; its share is what its tokens cost.
    coalesce(step_ms, CASE WHEN verify_ms IS NOT NULL THEN coalesce(draft_ms, 0) + coalesce(topk_ms, 0) + coalesce(build_ms, 0)
        + coalesce(compile_ms, 0) + verify_ms + coalesce(walk_ms, 0) + coalesce(commit_ms, 0) END) / greatest(coalesce(batch, 1), 1) AS ms,
    -- What a step spends before the tree has a size.
    (draft_ms + coalesce(topk_ms, 0)) / greatest(coalesce(batch, 1), 1) AS head_ms,
    (coalesce(build_ms, 0) + coalesce(compile_ms, 0)) / greatest(coalesce(batch, 1), 1) AS build_ms,
    CASE WHEN len(node_tokens) = len(parents) AND len(target_tokens) = len(parents) THEN 'target'
         WHEN len(node_tokens) = len(parents) AND emitted IS NOT NULL THEN 'text'
         WHEN accepted IS NOT NULL THEN 'rows' END AS walk,
    coalesce(parents <> range(-1, len(parents) - 1), false) AS branches
FROM step s JOIN named n ON n.run = s.run AND n.request IS NOT DISTINCT FROM s.request JOIN largest l ON l.run = s.run
WHERE NOT coalesce(warmup, false) AND coalesce(step, line) // 64 % getvariable('asked_every') = 0;

CREATE OR REPLACE TEMP TABLE what_path (id BIGINT, depth INTEGER, "row" BIGINT);

-- A child whose token the target chose behind its parent is on the path if its parent is.
INSERT INTO what_path
WITH RECURSIVE node AS (
    SELECT s.rowid AS id, unnest(range(1, len(parents))) AS "row", unnest(parents[2:]) AS parent, unnest(node_tokens[2:]) AS token,
        unnest(list_select(target_tokens, list_transform(parents[2:], lambda row: coalesce(row, -1) + 1))) AS wanted
    FROM step s JOIN what_step w ON w.id = s.rowid WHERE w.walk = 'target'
),
matching AS (SELECT id, "row", parent FROM node WHERE token = wanted AND parent >= 0 AND parent < "row"),
reached AS (
    SELECT id, "row", 1 AS depth FROM matching WHERE parent = 0
    UNION ALL
    SELECT m.id, m."row", r.depth + 1 FROM reached r JOIN matching m ON m.id = r.id AND m.parent = r."row"
)
SELECT id, depth, min("row") FROM reached GROUP BY id, depth;

-- The text of each request by position: what it received, or what the walk says that it must have.
-- Positions are the recorded ones, unless two steps claim the same.
CREATE OR REPLACE TEMP TABLE what_text AS
WITH said AS (
    SELECT w.id, w.run, w.series, w.ctx_len, w.source, w.line, w.emits IS NULL AS walked,
        coalesce(w.emits, CASE WHEN w.walk = 'target' THEN coalesce(p.depth, 0) + 1 END) AS tokens
    FROM what_step w LEFT JOIN (SELECT id, max(depth) AS depth FROM what_path GROUP BY id) p ON p.id = w.id AND w.emits IS NULL
),
placed AS (
    SELECT *, sum(tokens) OVER steps - tokens AS told, lead(ctx_len) OVER steps AS next_ctx_len
    FROM said WINDOW steps AS (PARTITION BY series ORDER BY source, line, id)
),
sound AS (
    SELECT run, bool_and(ctx_len IS NOT NULL AND coalesce(next_ctx_len >= ctx_len + tokens, true)) AS positions FROM placed GROUP BY run
)
SELECT id, series, walked, tokens, CASE WHEN s.positions THEN ctx_len ELSE told END AS start
FROM placed JOIN sound s USING (run);

CREATE OR REPLACE TEMP TABLE what_token AS
SELECT series, place, min(token) AS token FROM (
    SELECT x.series, x.start + unnest(range(1, x.tokens + 1)) AS place, unnest(s.emitted) AS token
    FROM what_text x JOIN step s ON s.rowid = x.id WHERE NOT x.walked AND x.tokens > 0
    UNION ALL
    SELECT x.series, x.start + p.depth, s.node_tokens[p."row" + 1]
    FROM what_text x JOIN what_path p ON p.id = x.id JOIN step s ON s.rowid = x.id WHERE x.walked
    UNION ALL
    SELECT x.series, x.start + x.tokens, s.target_tokens[coalesce(p."row", 0) + 1]
    FROM what_text x JOIN step s ON s.rowid = x.id LEFT JOIN what_path p ON p.id = x.id AND p.depth = x.tokens - 1
    WHERE x.walked AND x.tokens > 0
) WHERE place IS NOT NULL GROUP BY series, place;

-- Without target choices: the longest path that the text follows. A step whose text ends within
-- the depth of the trees stays with its recorded rows.
INSERT INTO what_path
WITH RECURSIVE deep AS (
    SELECT w.run, max(list_max(s.depths)) AS depth FROM what_step w JOIN step s ON s.rowid = w.id WHERE w.walk = 'text' GROUP BY w.run
),
told AS (
    SELECT w.id, x.series, x.start FROM what_step w JOIN what_text x USING (id) JOIN deep d USING (run)
    WHERE w.walk = 'text' AND EXISTS (FROM what_token t WHERE t.series = x.series AND t.place = x.start + coalesce(d.depth, 1))
),
node AS (
    SELECT t.id, t.series, t.start, unnest(range(1, len(parents))) AS "row", unnest(parents[2:]) AS parent, unnest(node_tokens[2:]) AS token
    FROM told t JOIN step s ON s.rowid = t.id
),
reached AS (
    SELECT n.id, n."row", 1 AS depth FROM node n
    JOIN what_token t ON t.series = n.series AND t.place = n.start + 1 AND t.token = n.token WHERE n.parent = 0
    UNION ALL
    SELECT n.id, n."row", r.depth + 1 FROM reached r JOIN node n ON n.id = r.id AND n.parent = r."row" AND n."row" > r."row"
    JOIN what_token t ON t.series = n.series AND t.place = n.start + r.depth + 1 AND t.token = n.token
),
followed AS (SELECT id, depth, min("row") AS "row" FROM reached GROUP BY id, depth),
recorded AS (
    SELECT w.id, unnest(range(1, len(accepted))) AS depth, unnest(accepted[2:]) AS "row" FROM what_step w JOIN step s ON s.rowid = w.id
    WHERE w.walk = 'rows' OR (w.walk = 'text' AND w.id NOT IN (SELECT id FROM told))
)
FROM followed UNION ALL FROM recorded;

UPDATE what_step SET walk = NULL
WHERE walk = 'text' AND id IN (
    SELECT w.id FROM what_step w JOIN step s ON s.rowid = w.id WHERE s.accepted IS NULL
) AND id NOT IN (SELECT id FROM what_path) AND id NOT IN (
    SELECT a.id FROM what_text a JOIN what_token t ON t.series = a.series AND t.place = a.start + 1
);

-- A run's trees. Steps of a smaller budget than the usual one say nothing about larger ones.
CREATE OR REPLACE TEMP TABLE what_run AS
SELECT w.run, mode(w.budget) AS budget,
    bool_or(w.branches) OR (any_value(r.tree) AND count(s.parents) = 0) AS branches, mode(w.batch) AS batch, mode(w.top_k) AS top_k,
    count(*) FILTER (w.walk IS NOT NULL) AS steps, count(DISTINCT w.series) AS requests,
    min(w.ctx_len) AS ctx_min, max(w.ctx_len) AS ctx_max, avg(w.nodes) AS nodes,
    arg_max(w.walk, w.id) FILTER (w.walk IS NOT NULL) AS walk,
    coalesce((SELECT max(depth) FROM what_path JOIN what_step o USING (id) WHERE o.run = w.run), 0) AS deepest,
    count(*) FILTER (w.branches) AS trees,
    count(*) FILTER (w.branches AND s.log_probs IS NOT NULL) AS scored,
    count(*) FILTER (w.branches AND list_transform(s.log_probs, lambda p: round(p, 2)) <> list_reverse_sort(list_transform(s.log_probs, lambda p: round(p, 2)))) AS unordered,
    coalesce(bool_and(s.depths = list_sort(s.depths)) FILTER (w.branches AND list_max(s.depths) > 1), false) AS by_depth
FROM what_step w JOIN step s ON s.rowid = w.id JOIN run r ON r.run = w.run GROUP BY w.run;

-- Every depth of a path with the smallest budget that still has it.
CREATE OR REPLACE TEMP TABLE what_level AS SELECT id, 'budget' AS kind, "row" AS level FROM what_path;
