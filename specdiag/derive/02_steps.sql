-- Steps.

-- Where a trace lists depths of the nodes only but parents of all rows, row 0 is put in front.
-- Several threads would fill pieces of their own and copy them together: twice the work.
SET threads = 1;
INSERT INTO step BY NAME
WITH ended AS (
    SELECT arg_max(s.number, p.place * 1000000000000 + s.line) AS number
    FROM raw.step s JOIN part p ON p.source = s.source AND p.life = s.life AND p.arm = coalesce(s.arm, '')
    GROUP BY p.run, s.request
)
SELECT COLUMNS(lambda name: name NOT IN getvariable('empty_step_columns'))
FROM (
    SELECT p.run, s.* EXCLUDE (number, life, arm) REPLACE (
        CASE WHEN len(s.depths) = len(s.parents) - 1 THEN list_concat([0], s.depths) ELSE s.depths END AS depths,
        CASE WHEN len(s.node_tokens) = len(s.parents) - 1
             THEN list_concat([s.root], s.node_tokens) ELSE s.node_tokens END AS node_tokens,
        CASE WHEN s.parents IS NOT NULL THEN len(s.parents) - 1 ELSE s.nodes END AS nodes,
        s.finish IS NOT NULL OR e.number IS NOT NULL AS last
    )
    FROM raw.step s
    JOIN part p ON p.source = s.source AND p.life = s.life AND p.arm = coalesce(s.arm, '')
    LEFT JOIN ended e ON e.number = s.number
);
RESET threads;
