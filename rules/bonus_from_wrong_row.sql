-- title    = "The bonus token comes from the wrong row"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["accepted", "bonus", "target_tokens"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the bonus and the target choice at every row"
-- why      = "The token behind the accepted path is the target's choice at the path's last row. From any other row it is the continuation of another text."
-- fix      = [
--   "Index the logits by the last accepted row, not by the number of accepted drafts: the two agree on a chain only.",
--   "Compare the rows of one request with those of its neighbours in the batch.",
-- ]
-- formula  = "bonus = target(last accepted row) (identity I3)"
-- sides    = { "bonus token" = "observed", "token the target chose" = "expected" }
-- unlike   = [
--   "A bonus that was not sent, since the request ended on an accepted draft.",
-- ]
-- explains = ["differs_from_target", "emitted_differs_from_accepted", "steps_do_not_chain"]
-- faults   = ["F15", "F16", "F32"]

SELECT b.run, format('{}: the bonus is {}, the target''s choice at the last accepted row {} is {}{}', in_step(b.request, b.step, steps), observed, s.accepted[-1], expected,
        CASE WHEN other IS NOT NULL THEN format(' (row {} has it)', other) ELSE '' END) AS message,
    b.request, b.step, field, expected, observed, CASE WHEN other IS NOT NULL THEN 'F15' ELSE 'F15, F32' END AS faults, steps, other AS row_with_it, lines
FROM (SELECT *, lines[1].source AS source, lines[1].line AS line FROM broken(['I3'], ['bonus', 'bonus_row'])) b
JOIN (
    SELECT source, line, accepted, list_position(target_tokens, bonus) - 1 AS other FROM step
) s USING (source, line)
