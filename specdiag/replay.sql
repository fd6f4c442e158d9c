-- What replay works on: what the runs say of themselves, the steps of each request in their order,
-- and the nodes of their trees. Only steps whose lists fit together take part.

CREATE TEMP TABLE setting AS
SELECT run,
    TRY_CAST(max(value) FILTER (key = 'block') AS BIGINT) AS block,
    TRY_CAST(max(value) FILTER (key = 'mask_id') AS BIGINT) AS mask_id,
    TRY_CAST(max(value) FILTER (key = 'vocab') AS BIGINT) AS vocab,
    coalesce(TRY_CAST(max(value) FILTER (key = 'depth_bonus') AS DOUBLE), 0) AS depth_bonus,
    max(CASE WHEN key = 'effective' THEN TRY_CAST(json_extract_string(TRY_CAST(value AS JSON), '$.depth_limit') AS BIGINT) END) AS depth_limit,
    max(CASE WHEN key = 'stop_ids' THEN TRY_CAST(TRY_CAST(value AS JSON) AS BIGINT[]) END) AS stop_ids,
    lower(max(value) FILTER (key = 'dtype')) AS dtype,
    max(value) FILTER (key = 'accept_rule') AS accept_rule,
    max(CASE WHEN key = 'draft_layers' THEN list_transform(TRY_CAST(TRY_CAST(value AS JSON) AS JSON[]), lambda layer: {
        'window': TRY_CAST(json_extract_string(layer, '$.window') AS BIGINT), 'head_dim': TRY_CAST(json_extract_string(layer, '$.head_dim') AS BIGINT),
        'rope': json_extract_string(layer, '$.rope.kind'), 'theta': TRY_CAST(json_extract_string(layer, '$.rope.theta') AS DOUBLE), 'factor': TRY_CAST(json_extract_string(layer, '$.rope.factor') AS DOUBLE)
    }) END) AS draft_layers,
    max(CASE WHEN key = 'tap_layers' THEN TRY_CAST(TRY_CAST(value AS JSON) AS BIGINT[]) END) AS tap_layers,
    TRY_CAST(max(value) FILTER (key = 'draft_vocab') AS BIGINT) AS draft_vocab,
    bool_or(key = 'simulated_acceptance' AND TRY_CAST(value AS DOUBLE) IS NOT NULL) AS simulated,
    max(CASE WHEN key = 'target_windows' THEN TRY_CAST(TRY_CAST(value AS JSON) AS BIGINT[]) END) AS target_windows
FROM config GROUP BY run;

-- Whether the lists of a step have the length of its tree, and point into it; an empty list is none. A cycle of parents is
-- found where depths are checked: no node of it is one deeper than its parent.
CREATE TEMP TABLE shape AS
WITH lengths AS (
    SELECT rowid AS id, run, request, step, nullif(parents, []) AS parents, nullif(accepted, []) AS accepted, {
        'node_tokens': nullif(len(node_tokens), 0), 'depths': nullif(len(depths), 0), 'ranks': nullif(len(ranks), 0), 'log_probs': nullif(len(log_probs), 0),
        'positions': nullif(len(positions), 0), 'target_tokens': nullif(len(target_tokens), 0), 'slots': nullif(len(slots), 0),
        'state_sources': nullif(len(state_sources), 0), 'gaps': nullif(len(gaps), 0), 'visible': nullif(len(visible), 0),
        'past_visible': nullif(len(past_visible), 0), 'ids_read': nullif(len(ids_read), 0), 'positions_read': nullif(len(positions_read), 0)
    } AS found
    FROM step WHERE NOT coalesce(warmup, false)
)
SELECT id, run, request, step,
    CASE
        WHEN parents IS NULL THEN NULL
        WHEN parents[1] IS DISTINCT FROM -1 THEN 'parents'
        WHEN list_count(parents) < len(parents) OR list_min(parents[2:]) < 0 OR list_max(parents) >= len(parents) THEN 'parents'
        WHEN found.node_tokens <> len(parents) THEN 'node_tokens'
        WHEN found.depths <> len(parents) THEN 'depths'
        WHEN found.ranks <> len(parents) THEN 'ranks'
        WHEN found.log_probs <> len(parents) THEN 'log_probs'
        WHEN found.positions <> len(parents) THEN 'positions'
        WHEN found.target_tokens <> len(parents) THEN 'target_tokens'
        WHEN found.slots <> len(parents) THEN 'slots'
        WHEN found.state_sources <> len(parents) THEN 'state_sources'
        WHEN found.gaps <> len(parents) THEN 'gaps'
        WHEN found.visible <> len(parents) THEN 'visible'
        WHEN found.past_visible <> len(parents) THEN 'past_visible'
        WHEN found.ids_read <> len(parents) THEN 'ids_read'
        WHEN found.positions_read <> len(parents) THEN 'positions_read'
        WHEN list_count(accepted) < len(accepted) OR list_min(accepted) < 0 OR list_max(accepted) >= len(parents) THEN 'accepted'
    END AS broken
FROM lengths;

-- The steps of a request in their order. A step that is missing, or there twice, breaks the chain.
CREATE TEMP TABLE link AS
WITH known AS (
    SELECT id, run, request, step, broken, count(*) OVER (PARTITION BY run, request, step) AS copies
    FROM shape WHERE request IS NOT NULL AND step IS NOT NULL
),
beside AS (
    SELECT id, step, copies,
        lead(id) OVER w AS next, lead(step) OVER w AS next_step, lead(copies) OVER w AS next_copies,
        lag(id) OVER w AS previous, lag(step) OVER w AS previous_step, lag(copies) OVER w AS previous_copies
    FROM known WINDOW w AS (PARTITION BY run, request ORDER BY step)
)
SELECT id,
    CASE WHEN copies = 1 AND next_copies = 1 AND next_step = step + 1 THEN next END AS next,
    CASE WHEN copies = 1 AND previous_copies = 1 AND previous_step = step - 1 THEN previous END AS previous,
    copies = 1 AND step = 0 AS first
FROM beside;

-- A step with its neighbours' ids and its run's settings.
CREATE TEMP VIEW traced AS
SELECT s.rowid AS id, s.* REPLACE (nullif(s.accepted, []) AS accepted), l.next, l.previous, coalesce(l.first, false) AS first,
    t.block, t.depth_limit, t.mask_id, t.vocab, t.depth_bonus, t.stop_ids, t.dtype, t.accept_rule, t.draft_layers, t.target_windows,
    t.tap_layers, t.draft_vocab, coalesce(t.simulated, false) AS simulated
FROM step s
JOIN shape h ON h.id = s.rowid AND h.broken IS NULL
LEFT JOIN link l ON l.id = s.rowid
LEFT JOIN setting t ON t.run = s.run;
