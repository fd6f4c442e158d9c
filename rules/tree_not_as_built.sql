-- title    = "The tree is not the one that its candidates make"
-- severity = "high"
-- family   = "trace"
-- needs    = { step = ["parents"], replay = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record ranks, log-probabilities and candidates (--trace-detail candidates)"
-- why      = "Candidates and a budget define the tree: the best prefixes, in the order of their scores, parents before children. Another tree is still exact, but accepts less than its budget should buy; a broken one hides or loses drafts."
-- fix      = [
--   "Rebuild the step from the recorded candidates and compare row by row: the first difference names the fault.",
--   "Log-probabilities come from the whole vocabulary, in float32, before the top-k.",
--   "After sorting nodes again, renumber the parents as well.",
-- ]
-- formula  = "the best-first tree of the recorded candidates, row by row (identities I9, I10)"
-- sides    = { "in the tree" = "observed", "as its candidates make it" = "expected" }
-- unlike   = [
--   "Ties: equal scores may come in any order.",
--   "A shadow-linear run, which verifies a chain on purpose.",
-- ]
-- explains = ["accepted_token_mismatch", "walk_stopped_early", "path_not_a_chain", "tree_below_chain", "tree_buys_nothing", "visibility_leak", "differs_from_target", "counter_is_not_acceptance", "sources_disagree", "tree_runs_linear", "draft_never_accepted"]
-- faults   = ["F8", "F9", "F27", "F28", "F29", "F30", "F31", "F36", "F40", "F42", "F43"]

WITH chain AS (
    -- whether all steps with too few or too many nodes verified a chain
    SELECT r.run, bool_and(list_unique(s.depths) = len(s.depths) AND s.top_k > 1) AS chains
    FROM replay r JOIN step s ON s.source = r.source AND s.line = r.line WHERE r.field IN ('clipped', 'left_out', 'nodes') GROUP BY r.run
)
SELECT run, format('{}: ', in_step(request, step, steps)) || CASE field
        WHEN 'parents' THEN format('row {} stands before its parent, row {}', entry, observed)
        WHEN 'depths' THEN format('row {} has depth {}, its parent makes it {}', entry, observed, expected)
        WHEN 'duplicate_tokens' THEN format('two siblings carry token {}, row {} is the second', observed, entry)
        WHEN 'ids_read' THEN format('row {} was verified as token {}, the tree holds {}', entry, observed, expected)
        WHEN 'root' THEN format('row 0 carries token {}, the root is {}', observed, expected)
        WHEN 'order' THEN format('row {} scores {}, better than the row before it: the rows are in another order', entry, observed)
        WHEN 'spine_first' THEN format('the most probable path is put first, whatever it scores; row {} scores better', entry)
        WHEN 'log_probs' THEN format('row {} scores {}, its candidates make {}', entry, observed, expected)
        WHEN 'node_tokens' THEN format('row {} carries token {}, the candidate of its rank is {}', entry, observed, expected)
        WHEN 'ranks' THEN format('siblings have the ranks {}', observed)
        WHEN 'left_out' THEN format('a better candidate below or beside row {} was left out{}', entry, CASE WHEN chains THEN ': a chain is verified' ELSE '' END)
        WHEN 'clipped' THEN format('{} although {} were asked for{}', observed, expected, CASE WHEN chains THEN ': a chain is verified' ELSE '' END)
        WHEN 'half_vocabulary' THEN format('candidates have {} from here on, the vocabulary has {}: one half of the head', observed, expected)
        WHEN 'nodes' THEN format('{} nodes, at most {} can be', observed, expected)
        WHEN 'width' THEN format('{} rows were verified, the tree has {}', observed, expected)
        WHEN 'candidate_log_probs' THEN format('the probabilities of depth {} sum to {}', entry + 1, observed)
        WHEN 'normalised_over_top_k' THEN format('the probabilities of the recorded candidates of depth {} sum to exactly 1: they are relative to each other', entry + 1)
        ELSE format('{} is {}, it has to be {}', field, observed, expected) END AS message,
    -- order and spine cost acceptance at most
    CASE WHEN field IN ('spine_first') THEN 'medium' WHEN field IN ('parents', 'depths', 'ids_read', 'root', 'width') THEN 'critical' END AS severity,
    request, step, field, expected, observed,
    CASE field
        WHEN 'parents' THEN 'F8' WHEN 'depths' THEN 'F8' WHEN 'duplicate_tokens' THEN 'F9' WHEN 'ids_read' THEN 'F36' WHEN 'root' THEN 'F36'
        WHEN 'order' THEN 'F8, F28' WHEN 'spine_first' THEN 'F43' WHEN 'log_probs' THEN CASE WHEN observed ILIKE '%nan%' THEN 'F29' ELSE 'F28, F8' END
        WHEN 'node_tokens' THEN 'F27, F30' WHEN 'ranks' THEN 'F43, F9' WHEN 'left_out' THEN CASE WHEN chains THEN 'F42, F43' ELSE 'F43, F29, F28' END WHEN 'half_vocabulary' THEN 'F30' WHEN 'clipped' THEN CASE WHEN chains THEN 'F42, F40' ELSE 'F40' END WHEN 'nodes' THEN CASE WHEN chains THEN 'F42, F41' ELSE 'F41' END
        WHEN 'width' THEN 'F42' ELSE 'F28' END AS faults, steps, lines
FROM broken(['I8', 'I9', 'I10', 'vocabulary'], ['parents', 'depths', 'half_vocabulary', 'duplicate_tokens', 'ids_read', 'root', 'clipped', 'nodes', 'width', 'ranks', 'node_tokens', 'candidate_log_probs',
    'normalised_over_top_k', 'log_probs', 'spine_first', 'order', 'left_out'])
LEFT JOIN chain USING (run)
