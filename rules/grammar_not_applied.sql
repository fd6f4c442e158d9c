-- title    = "The target chose what the grammar does not allow"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["legal", "accepted"], replay = [], request = [] }
-- applies  = "run IN (SELECT run FROM step WHERE legal IS NOT NULL UNION SELECT run FROM request WHERE grammar IS NOT NULL AND run IN (SELECT run FROM step))"
-- enable   = "record of each row whether the grammar allows the choice after it"
-- why      = "The mask of a row follows from the tokens on its own path. Branches of a tree differ in them, so one mask for all, or that of the first row, forbids what is right in one branch and lets pass what is wrong in another."
-- formula  = "legal[row] for each row whose path keeps to the grammar; emitted <= rows up to its end"
-- unlike   = [
--   "drafts that break the grammar: a drafter knows nothing of it, and such a draft is never accepted",
--   "rows behind such a draft or behind the end of the grammar: there is nothing to be said of them",
-- ]
-- causes   = [
--   { name = "one_mask", cause = "all rows of a depth, or of the whole tree, have the mask of one of them", test = "top-k 1: a chain has no branches, and is right" },
--   { name = "no_mask", cause = "only the first row has a mask, or none", test = "the same request without speculation keeps to the grammar" },
-- ]
-- fix      = [
--   "Advance the grammar along every path of the tree from the root's state, and mask each row of the logits with the state of its own node.",
--   "Does the same prompt keep to its grammar without speculation? Then the masks of the drafted rows are what is missing.",
-- ]
-- explains = ["differs_from_target", "sampling_law_broken"]
-- faults   = ["F44"]
-- reports  = ["sgl-project/sglang#28943", "sgl-project/sglang#30096"]

-- With nothing but sound rows on the spine, and wrong ones beside it, it is the branches.
WITH branching AS (
    SELECT run, bool_or(list_contains(list_transform(range(1, len(parents)), lambda i: parents[i + 1] < i - 1), true)) AS branches FROM step
    WHERE legal IS NOT NULL AND list_contains(legal, false) AND len(parents) = len(legal) AND NOT coalesce(warmup, false) GROUP BY run
)
SELECT b.run, CASE field
        WHEN 'legal' THEN format('{}: token {} was chosen and handed out behind row {}, which the grammar does not allow there', in_step(request, step, steps), observed, entry)
        WHEN 'legal_beside' THEN format('{}: behind row {} the target chose token {}, which the grammar does not allow there', in_step(request, step, steps), entry, observed)
        ELSE format('{}: the grammar was at its end, and {} tokens were handed out', in_step(request, step, steps), observed)
    END AS message,
    request, step, field, expected, observed, 'F44' AS faults, CASE WHEN w.branches THEN ['one_mask'] ELSE ['no_mask'] END AS causes, steps, lines
FROM broken(['grammar'], ['legal', 'legal_beside', 'legal_end']) b LEFT JOIN branching w USING (run)
