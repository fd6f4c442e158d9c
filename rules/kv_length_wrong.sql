-- title    = "The target's cache does not hold what was committed"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["ctx_len", "kv_after"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the rows of the target's cache before verification, after it, and after the commit"
-- why      = "Before a step the cache holds the context, after verification every verified row as well, and after the commit the accepted rows only. Rows too many are rejected drafts that later steps read."
-- fix      = [
--   "Crop to the start and the accepted rows after every step, also where a request ends in it.",
--   "Count the free slots over a request: those that were lost are those that were not cropped.",
-- ]
-- formula  = "cache rows: context before a step, context + verified rows after verification, context + C after the commit (identity I6)"
-- sides    = { "rows in the cache" = "observed", "rows that it has to hold" = "expected" }
-- unlike   = [
--   "A paged cache that keeps the rest of a page: rows are counted, not pages.",
-- ]
-- explains = ["differs_from_target", "position_wrong"]
-- faults   = ["F17", "F52", "F62"]

SELECT run, format('{}: {} is {} rows, it has to be {}', in_step(request, step, steps), field, observed, expected) AS message,
    request, step, field, expected, observed, CASE WHEN field = 'kv_after' THEN 'F17, F62' ELSE 'F52, F62' END AS faults, steps, lines
FROM broken(['I6'], ['kv_before', 'kv_verified', 'kv_after'])
