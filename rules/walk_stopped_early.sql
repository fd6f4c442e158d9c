-- title    = "The walk stopped although the tree goes on"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["accepted", "parents", "node_tokens"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record the target choice at every row, or the tokens that are emitted"
-- why      = "The walk ends where no child carries the target's choice. Here a child does: drafts that were right are thrown away, and acceptance is lower than the drafter earned."
-- fix      = [
--   "Look for what ends the loop: a stale `finished` flag, a check of the draft's token instead of the emitted one, a limit on the depth.",
--   "Two siblings with the same token hide one another in a child map: give every child its own entry.",
--   "The text stays right where the bonus is that very token; where it is not, text is lost, too.",
-- ]
-- formula  = "no child of the last accepted row carries target(last accepted row) (identities I3, I12)"
-- sides    = { "walk stopped at depth" = "stopped_at_depth", "tree goes on to depth" = "goes_on_to_depth" }
-- unlike   = [
--   "A stop token inside the path, or a length limit: the request ends there.",
-- ]
-- explains = ["depth_contradicts_commit", "counter_is_not_acceptance", "tree_below_chain", "slower_than_baseline", "throughput_contradicts_commit", "emitted_differs_from_accepted", "kv_length_wrong", "draft_never_accepted", "acceptance_low_from_start", "steps_do_not_chain"]
-- faults   = ["F18", "F31"]

WITH missed AS (
    -- whether the children that were passed over all carry the one token that padding may have
    SELECT r.run, bool_and(s.node_tokens[TRY_CAST(r.expected AS BIGINT) + 1] = 0) AS zeros
    FROM replay r JOIN step s ON s.source = r.source AND s.line = r.line
    WHERE r.identity IN ('I3', 'I12') AND r.field = 'accepted' GROUP BY r.run
)
SELECT run, format('{}: the walk stopped at depth {} although row {} carries the target''s choice{}', in_step(request, step, steps), entry - 1, expected, CASE WHEN zeros THEN '; it is token 0 in each of them' ELSE '' END) AS message,
    request, step, field, expected, observed, entry - 1 AS stopped_at_depth, entry AS goes_on_to_depth, CASE WHEN zeros THEN 'F31, F18' ELSE 'F18' END AS faults, steps, lines
FROM broken(['I3', 'I12'], ['accepted']) LEFT JOIN missed USING (run)
