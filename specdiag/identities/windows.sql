-- identity = "window"
-- needs = ["window_low", "ctx_len"]

-- The lowest position that a layer read: where its window begins for the root's row, or the start of
-- the context in a full layer. Draft layers come first, then the target's kinds of layers.

WITH layer AS (
    SELECT id, ctx_len, unnest(range(len(window_low))) AS entry, unnest(window_low) AS low,
        unnest(list_concat(list_transform(draft_layers, lambda layer: layer."window"), target_windows)) AS width, len(draft_layers) AS draft_layers
    FROM traced
    WHERE ctx_len > 0 AND len(window_low) = len(draft_layers) + len(target_windows)
),
due AS (
    SELECT *, greatest(0, ctx_len - coalesce(width, ctx_len + 1) + 1) AS due FROM layer WHERE coalesce(width, 2) > 1
)
SELECT id, CASE WHEN entry < draft_layers THEN 'draft' ELSE 'target' END || CASE WHEN width IS NULL THEN '_full_layer' ELSE '_sliding_layer' END AS field,
    entry, due AS expected, low AS observed
FROM due WHERE low <> due AND NOT (low = -1 AND entry < draft_layers)  -- a layer that did not run
