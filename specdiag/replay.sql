-- What replay works on: the steps of each request in their order. Only steps whose lists fit
-- together take part. Whatever is looked at in every row of every tree is looked at here, once, and
-- what comes out are the few rows that deserve it.

-- A number for each request: texts of all steps side by side take longer to compare.
CREATE TEMP TABLE asker AS
SELECT run, request, row_number() OVER () AS asker FROM (SELECT DISTINCT run, request FROM recorded_step);

-- Rows of trees that stand where no row can, or carry what the target chose at their parent although
-- the walk ends there or another row before them has the same token: a sibling, perhaps.
CREATE TEMP TABLE odd_row AS
SELECT id, "row"::INTEGER AS "row", parent, token, coalesce(parent < 0 AND "row" > 0 OR parent >= size, true) AS outside,
    coalesce(token = wanted AND parent >= 0, false) AS chosen
FROM (
    SELECT *, CASE WHEN parent < size THEN target_tokens[parent + 1] END AS wanted  -- a garbled parent may be the largest number
    FROM (
        SELECT id, unnest(range(len(parents))) AS "row", unnest(parents) AS parent, unnest(node_tokens) AS token,
            node_tokens, target_tokens, len(parents) AS size, accepted[-1] AS path_end
        FROM recorded_step WHERE len(parents) > 0
    )
)
WHERE (token = wanted AND (parent = path_end OR list_position(node_tokens, token) <= "row"))
    OR parent >= "row" OR (parent IS NULL AND "row" IS NOT NULL) OR (parent < 0 AND "row" > 0);

-- Rows of recorded walks, each with the one before it, where the two do not fit or are none at all.
CREATE TEMP TABLE odd_move AS
SELECT id, path_start, "row", before, parent, token, wanted, coalesce("row" NOT BETWEEN 0 AND size - 1, "row" IS NULL) AS outside
FROM (
    SELECT *, CASE WHEN "row" < size THEN parents["row" + 1] END AS parent, CASE WHEN "row" < len(node_tokens) THEN node_tokens["row" + 1] END AS token,
        CASE WHEN before < len(target_tokens) THEN target_tokens[before + 1] END AS wanted
    FROM (
        SELECT id, unnest(accepted[2:]) AS "row", unnest(accepted[:-2]) AS before, accepted[1] AS path_start,
            parents, node_tokens, target_tokens, len(parents) AS size
        FROM recorded_step WHERE len(accepted) > 0
    )
)
WHERE parent <> before OR token <> wanted OR "row" IS NULL OR "row" NOT BETWEEN 0 AND size - 1;

-- Whether the lists of a step have the length of its tree, and point into it; an empty list is none.
-- A cycle of parents is found where depths are checked: no node of it is one deeper than its parent.
CREATE TEMP TABLE shape AS
SELECT s.id, a.asker, CASE WHEN s.request IS NOT NULL THEN s.step END AS step, given, root, bonus, ctx_len, ctx_len + nullif(len(accepted), 0) AS next_start,
    CASE
        WHEN parents IS NULL OR len(parents) = 0 THEN NULL
        WHEN parents[1] IS DISTINCT FROM -1 OR o.id IS NOT NULL THEN 'parents'
        WHEN nullif(len(node_tokens), 0) <> len(parents) THEN 'node_tokens'
        WHEN nullif(len(depths), 0) <> len(parents) THEN 'depths'
        WHEN nullif(len(ranks), 0) <> len(parents) THEN 'ranks'
        WHEN nullif(len(log_probs), 0) <> len(parents) THEN 'log_probs'
        WHEN nullif(len(positions), 0) <> len(parents) THEN 'positions'
        WHEN nullif(len(target_tokens), 0) <> len(parents) THEN 'target_tokens'
        WHEN nullif(len(slots), 0) <> len(parents) THEN 'slots'
        WHEN nullif(len(state_sources), 0) <> len(parents) THEN 'state_sources'
        WHEN nullif(len(gaps), 0) <> len(parents) THEN 'gaps'
        WHEN nullif(len(legal), 0) <> len(parents) THEN 'legal'
        WHEN nullif(len(visible), 0) <> len(parents) THEN 'visible'
        WHEN nullif(len(past_visible), 0) <> len(parents) THEN 'past_visible'
        WHEN nullif(len(ids_read), 0) <> len(parents) THEN 'ids_read'
        WHEN nullif(len(positions_read), 0) <> len(parents) THEN 'positions_read'
        WHEN len(accepted) > 0 AND coalesce(accepted[1] NOT BETWEEN 0 AND len(parents) - 1, true) OR m.id IS NOT NULL THEN 'accepted'
    END AS broken
FROM recorded_step s
JOIN asker a ON a.run IS NOT DISTINCT FROM s.run AND a.request IS NOT DISTINCT FROM s.request
LEFT JOIN (SELECT DISTINCT id FROM odd_row WHERE outside) o ON o.id = s.id
LEFT JOIN (SELECT DISTINCT id FROM odd_move WHERE outside) m ON m.id = s.id;

-- Steps that take no part, as no warm-up does.
CREATE TEMP TABLE aside AS
SELECT id FROM shape WHERE broken IS NOT NULL
UNION ALL
SELECT rowid FROM step WHERE warmup;

-- The steps of a request in their order, each with what the next one begins with and what it should. A
-- step that is missing, or there twice, breaks the chain.
CREATE TEMP TABLE twice AS
SELECT asker, step FROM shape WHERE step IS NOT NULL GROUP BY asker, step HAVING count(*) > 1;

CREATE TEMP TABLE link AS
WITH single AS (FROM shape ANTI JOIN twice USING (asker, step) WHERE step IS NOT NULL)
SELECT s.id, n.id AS next, s.step = 0 AS first, n.root AS next_root, s.bonus AS due_root, n.ctx_len AS next_start, s.next_start AS due_start
FROM single s LEFT JOIN single n ON n.asker = s.asker AND n.step = s.step + 1;

CREATE TEMP TABLE run_setting AS FROM setting;

-- A step that takes part, with the length and the ends of its accepted path, what the target chose
-- behind it, and its run's settings.
CREATE TEMP VIEW traced AS
SELECT s.rowid AS id, s.* REPLACE (nullif(s.accepted, []) AS accepted),
    nullif(len(s.accepted), 0) AS path_len, s.accepted[1] AS path_start, s.accepted[-1] AS path_end, CASE WHEN s.accepted[-1] < len(s.target_tokens) THEN s.target_tokens[s.accepted[-1] + 1] END AS choice,
    t.* EXCLUDE (run) REPLACE (coalesce(t.simulated, false) AS simulated)
FROM step s LEFT JOIN run_setting t ON t.run = s.run ANTI JOIN aside a ON a.id = s.rowid;
