-- title    = "A request went on behind its end"
-- severity = "high"
-- family   = "trace"
-- needs    = { step = ["emitted"], replay = [], request = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record emitted tokens, stop ids and the limit of every request"
-- why      = "What is emitted ends with the first stop token and never exceeds the limit. Behind it stands text that nobody asked for, paid for and shown."
-- fix      = [
--   "Look for the stop token in the whole accepted path, not in its last token or the bonus only.",
--   "Cut by the limit after every step, before emitting.",
-- ]
-- formula  = "no token behind the first stop id, and no more than the limit"
-- sides    = { "emitted" = "observed", "end that was asked for" = "expected" }
-- unlike   = [
--   "A stop string that begins inside a token: what was sent is cut by the client.",
-- ]
-- explains = ["sources_disagree"]
-- faults   = ["F19"]

SELECT run, CASE field WHEN 'stop' THEN format('{}: {} behind a stop token', in_step(request, step, steps), observed)
        ELSE format('request {}: {} tokens were emitted, {} were asked for', request, observed, expected) END AS message,
    request, step, field, expected, observed, 'F19' AS faults, steps, lines
FROM broken(['stop'], [])
