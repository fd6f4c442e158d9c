-- The rows of table picture that are drawn: those of the groups in table wanted, thinned out where
-- `most` says how many a group may have. Of every stretch of the axis the lowest and the highest
-- row stay, so that no peak is lost; the ends of a series; what findings cite; and of points a
-- sample of the rest, so that a cloud stays a cloud.
WITH flag AS (
    SELECT source, line, list_sort(list(DISTINCT finding)) AS findings FROM cited GROUP BY source, line
),
placed AS (
    SELECT w.nth AS group_nth, p.x, p.y, p.low, p.high, p.label, f.findings, p.nth, p.source, p.line, p.place, w.draw = 'point' AS sampled, w.most,
        least(floor((p.place - w.first) / w.reach * stretches), stretches - 1) AS stretch
    FROM picture p
    JOIN (SELECT *, CASE WHEN draw = 'point' THEN most // 8 ELSE most // 2 END - 1 AS stretches FROM wanted) w
        ON w.panel = p.panel AND w.run IS NOT DISTINCT FROM p.run AND w.series = p.series AND w.part = p.part AND w.draw = p.draw
    LEFT JOIN flag f ON f.source = p.source AND f.line = p.line
),
extreme AS (
    SELECT group_nth, unnest([arg_min(nth, (y, place, nth)), arg_max(nth, (y, place, -nth))]) AS nth
    FROM placed WHERE most IS NOT NULL GROUP BY group_nth, stretch
    UNION ALL
    SELECT group_nth, unnest([arg_min(nth, (place, y, nth)), arg_max(nth, (place, y, -nth))]) FROM placed WHERE most IS NOT NULL GROUP BY group_nth
),
sample AS (
    SELECT group_nth, nth FROM (
        SELECT group_nth, nth, most, hash(x, y, source, line) AS ticket, count(*) OVER (PARTITION BY group_nth) AS rows
        FROM placed WHERE most IS NOT NULL AND sampled
    )
    WHERE ticket % rows < 2 * most
    QUALIFY row_number() OVER (PARTITION BY group_nth ORDER BY ticket, nth) <= most * 3 // 4
)
SELECT group_nth, x, y, low, high, label, findings, nth, source, line
FROM placed
WHERE most IS NULL OR findings IS NOT NULL OR nth IN (SELECT nth FROM extreme) OR nth IN (SELECT nth FROM sample)
