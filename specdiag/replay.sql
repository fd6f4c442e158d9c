-- What replay works on: the steps of each request in their order. Only steps whose lists fit
-- together take part.

-- Whether the lists of a step have the length of its tree, and point into it; an empty list is none.
-- A cycle of parents is found where depths are checked: no node of it is one deeper than its parent.
CREATE TEMP TABLE shape AS
SELECT rowid AS id, run, request, step,
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
        WHEN nullif(len(visible), 0) <> len(parents) THEN 'visible'
        WHEN nullif(len(past_visible), 0) <> len(parents) THEN 'past_visible'
        WHEN nullif(len(ids_read), 0) <> len(parents) THEN 'ids_read'
        WHEN nullif(len(positions_read), 0) <> len(parents) THEN 'positions_read'
        WHEN list_count(accepted) < len(accepted) OR list_min(accepted) < 0 OR list_max(accepted) >= len(parents) THEN 'accepted'
    END AS broken
FROM step WHERE NOT coalesce(warmup, false);

-- The steps of a request in their order. A step that is missing, or there twice, breaks the chain.
CREATE TEMP TABLE link AS
WITH known AS (
    SELECT id, run, request, step, count(*) OVER (PARTITION BY run, request, step) AS copies
    FROM shape WHERE request IS NOT NULL AND step IS NOT NULL
),
beside AS (
    SELECT id, step, copies,
        lead(id) OVER w AS next, lead(step) OVER w AS next_step, lead(copies) OVER w AS next_copies,
        lag(id) OVER w AS previous, lag(step) OVER w AS previous_step, lag(copies) OVER w AS previous_copies
    FROM known WINDOW w AS (PARTITION BY run, request ORDER BY step)
)
SELECT id, copies,
    CASE WHEN copies = 1 AND next_copies = 1 AND next_step = step + 1 THEN next END AS next,
    CASE WHEN copies = 1 AND previous_copies = 1 AND previous_step = step - 1 THEN previous END AS previous,
    copies = 1 AND step = 0 AS first
FROM beside;

-- A step with its neighbours' ids and its run's settings.
CREATE TEMP TABLE place AS
SELECT h.id, l.next, l.previous, coalesce(l.first, false) AS first,
    t.block, t.depth_limit, t.mask_id, t.vocab, t.depth_bonus, t.stop_ids, t.dtype, t.draft_layers, t.target_windows,
    t.tap_layers, t.draft_vocab, coalesce(t.simulated, false) AS simulated
FROM shape h LEFT JOIN link l USING (id) LEFT JOIN setting t ON t.run = h.run
WHERE h.broken IS NULL;

CREATE TEMP VIEW traced AS
SELECT p.*, s.* REPLACE (nullif(s.accepted, []) AS accepted) FROM step s JOIN place p ON p.id = s.rowid;
