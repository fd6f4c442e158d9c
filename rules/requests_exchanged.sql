-- title    = "Two requests of a batch were exchanged"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["ctx_len", "accepted", "request"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record request, step number and root of every step"
-- why      = "A request goes on with another one's token: rows of the batch were mixed up. Rows of equal size hide it, the texts do not."
-- fix      = [
--   "Test with two requests of different length and different trees; equal ones cannot show it.",
--   "Look where rows are gathered after one of them finishes, and where results are scattered back.",
-- ]
-- formula  = "root(step + 1) = bonus(step) of the same request, and here it is that of another one (identity I5 across the batch)"
-- sides    = { "root of the step" = "observed", "bonus before it" = "expected" }
-- unlike   = [
--   "Request ids that are used twice.",
-- ]
-- reports  = ["sgl-project/sglang#26476", "ggml-org/llama.cpp#27117"]
-- explains = ["steps_do_not_chain", "differs_from_target", "draft_context_wrong"]
-- faults   = ["F51"]

SELECT run, format('{}: the root is {}, the bonus of another request; its own was {}', in_step(request, step, steps), observed, expected) AS message,
    request, step, field, expected, observed, 'F51' AS faults, steps, lines
FROM broken(['I5'], ['request'])
