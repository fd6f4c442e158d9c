-- identity = "mask"
-- needs = ["visible", "parents"]

-- A row sees its parent's tree columns and its own, and all of the past. Bit i is row i, in
-- hexadecimal: to set it is to put one digit in front, or to raise the first one.

WITH bits AS (
    SELECT id, row, ltrim(lower(visible), '0x') AS seen, parent, ltrim(lower(parent_visible), '0x') AS before, (row // 4)::INTEGER AS digit, (1 << (row % 4)) AS bit
    FROM node WHERE visible IS NOT NULL AND parent < row
),
due AS (
    SELECT id, row, seen, CASE
        WHEN row = 0 THEN '1'
        WHEN length(before) <= digit THEN bit::VARCHAR || lpad(before, digit, '0')
        WHEN length(before) = digit + 1 THEN to_hex(CAST('0x' || before[1] AS BIGINT) + bit) || before[2:]
    END AS due
    FROM bits
)
-- Rows that see all that they should and more are told from others, as far as numbers reach.
SELECT id, CASE WHEN length(seen) <= 15 AND TRY_CAST('0x' || seen AS BIGINT) & TRY_CAST('0x' || due AS BIGINT) = TRY_CAST('0x' || due AS BIGINT) THEN 'visible_more' ELSE 'visible' END AS field,
    row AS entry, lower(due) AS expected, seen AS observed
FROM due WHERE seen <> lower(due)
UNION ALL
SELECT id, 'past_visible', row, due::VARCHAR, past_visible::VARCHAR
FROM (
    -- A target without full layers shows a sliding one.
    SELECT n.id, n.row, n.ctx_len, n.past_visible, least(n.ctx_len, CASE WHEN t.width IS NULL THEN n.ctx_len ELSE t.width - 1 - n.depth END) AS due
    FROM node n JOIN (
        SELECT id, CASE WHEN list_count(target_windows) = len(target_windows) THEN list_min(target_windows) END AS width FROM traced WHERE past_visible IS NOT NULL
    ) t USING (id)
)
WHERE ctx_len IS NOT NULL AND past_visible <> greatest(due, 0)
