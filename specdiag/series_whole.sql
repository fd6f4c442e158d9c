-- The rows of table picture that are drawn, as series.sql has them, where none are left out.
WITH flag AS (
    SELECT source, line, list_sort(list(DISTINCT finding)) AS findings FROM cited GROUP BY source, line
)
SELECT w.nth AS group_nth, p.x, p.y, p.low, p.high, p.label, f.findings, p.nth, p.source, p.line
FROM picture p
JOIN wanted w ON w.panel = p.panel AND w.run IS NOT DISTINCT FROM p.run AND w.series = p.series AND w.part = p.part AND w.draw = p.draw
LEFT JOIN flag f ON f.source = p.source AND f.line = p.line
