-- title      = "Fatal errors"
-- tells      = "Exceptions and fatal messages after which nothing was served; those that follow from another are not counted. 0 of a server log that has none."
-- unit       = "errors"
-- better     = "lower"
-- kinds      = ["problem"]
-- aggregates = ["sum"]

SELECT run, 'problem' AS kind, 1 AS value, source, line FROM problem WHERE fatal AND NOT coalesce(follows, false)
UNION ALL
SELECT run, 'problem', 0, NULL, NULL FROM run WHERE server
