-- What replay works on: the steps of each request in their order. Only steps whose lists fit
-- together take part.

-- Whether the lists of a step have the length of its tree, and point into it; an empty list is none.
-- A cycle of parents is found where depths are checked: no node of it is one deeper than its parent.
CREATE TEMP TABLE shape AS
SELECT id, run, request, step, given,
    CASE
        WHEN parents IS NULL OR len(parents) = 0 THEN NULL
        WHEN parents[1] IS DISTINCT FROM -1 THEN 'parents'
        WHEN list_count(parents) < len(parents) OR list_min(parents[2:]) < 0 OR list_max(parents) >= len(parents) THEN 'parents'
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
        WHEN list_count(accepted) < len(accepted) OR list_min(accepted) < 0 OR list_max(accepted) >= len(parents) THEN 'accepted'
    END AS broken,
    -- what stands at the ends of the accepted path: later queries need not read its list
    len(path) AS path_len, path[1] AS path_start, path[-1] AS path_end, target_tokens[path[-1] + 1] AS choice
FROM (SELECT *, nullif(accepted, []) AS path FROM recorded_step)
WHERE NOT coalesce(warmup, false);

-- The steps of a request in their order. A step that is missing, or there twice, breaks the chain.
CREATE TEMP TABLE link AS
WITH beside AS (
    SELECT id, step, lead(id) OVER w AS next, lag(id) OVER w AS previous,
        lead(step) OVER w AS step_1, lead(step, 2) OVER w AS step_2, lag(step) OVER w AS before_1, lag(step, 2) OVER w AS before_2
    FROM shape WHERE request IS NOT NULL AND step IS NOT NULL
    WINDOW w AS (PARTITION BY run, request ORDER BY step)
),
known AS (
    SELECT *, coalesce(step IN (before_1, step_1), false) AS twice FROM beside
)
SELECT id, twice,
    CASE WHEN NOT twice AND step_1 = step + 1 AND step_2 IS DISTINCT FROM step_1 THEN next END AS next,
    CASE WHEN NOT twice AND before_1 = step - 1 AND before_2 IS DISTINCT FROM before_1 THEN previous END AS previous,
    NOT twice AND step = 0 AS first
FROM known;

-- A step with its neighbours' ids and its run's settings.
CREATE TEMP TABLE place AS
SELECT h.id, l.next, l.previous, coalesce(l.first, false) AS first, h.path_len, h.path_start, h.path_end, h.choice,
    t.block, t.depth_limit, t.mask_id, t.vocab, t.depth_bonus, t.stop_ids, t.dtype, t.draft_layers, t.target_windows,
    t.tap_layers, t.draft_vocab, coalesce(t.simulated, false) AS simulated
FROM shape h LEFT JOIN link l USING (id) LEFT JOIN setting t ON t.run = h.run
WHERE h.broken IS NULL;

CREATE TEMP VIEW traced AS
SELECT p.*, s.* REPLACE (nullif(s.accepted, []) AS accepted) FROM step s JOIN place p ON p.id = s.rowid;
