-- title    = "What was emitted is not what was accepted"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["accepted", "node_tokens", "emitted"], config = [], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the bonus and the emitted tokens of every step"
-- why      = "A step hands over its accepted drafts and the bonus, in this order. A token more, less or another one is in the text for good."
-- fix      = [
--   "A doubled first token is the root: it was emitted by the step before.",
--   "A missing token that is always the same one is filtered by value: the mask id is a token, too.",
--   "Fewer tokens than were committed, in the middle of a request: what ends the emission? The cache keeps the rest.",
-- ]
-- formula  = "emitted = tokens of the accepted nodes + bonus (identity I4); a cut leaves a leading part of it"
-- sides    = { "emitted" = "observed", "accepted, with the bonus" = "expected" }
-- unlike   = [
--   "The last step of a request, cut at its stop token or limit.",
-- ]
-- explains = ["steps_do_not_chain", "sources_disagree", "depth_contradicts_commit", "differs_from_target"]
-- faults   = ["F16", "F17", "F18", "F55"]

WITH shown AS (
    SELECT b.*, s.mask_id, TRY_CAST(TRY_CAST(b.expected AS VARCHAR) AS BIGINT[]) AS due, TRY_CAST(b.observed AS BIGINT[]) AS given, t.root
    FROM (SELECT *, lines[1].source AS source, lines[1].line AS line FROM broken(['I4', 'I11'], ['emitted', 'completion_tokens', 'cut'])) b
    LEFT JOIN (SELECT run, TRY_CAST(max(value) FILTER (key = 'mask_id') AS BIGINT) AS mask_id FROM config GROUP BY run) s ON s.run = b.run
    LEFT JOIN step t ON t.source = b.source AND t.line = b.line
)
SELECT run, CASE field
        WHEN 'emitted' THEN format('{}: {} were emitted, accepted drafts and bonus are {}', in_step(request, step, steps), observed, expected)
        WHEN 'cut' THEN format('{}: the emission was cut short, and nothing says why', in_step(request, step, steps))
        ELSE format('request {}: {} completion tokens are reported, its prefill and steps made {}', request, observed, expected)
    END AS message,
    CASE WHEN field = 'cut' THEN 'medium' END AS severity,
    request, step, field, expected, observed,
    CASE WHEN field <> 'emitted' THEN 'F17'
         WHEN list_filter(due, lambda token: token <> mask_id) = given THEN 'F55'
         WHEN len(given) > len(due) OR given[1] = root THEN 'F16'
         WHEN due[:len(given)] = given THEN 'F17, F18'
         ELSE 'F16, F18' END AS faults, steps, lines
FROM shown
