-- identity = "vocabulary"
-- needs = ["node_tokens", "emitted"]

-- Candidates come from all of the vocabulary. Where none comes from its second half any more, step
-- after step, while the text goes on to use it, ids are those of one half of the head.

WITH seen AS (
    SELECT id, run, request, step, vocab, emitted, CASE WHEN candidate_tokens IS NULL THEN node_tokens[2:] ELSE flatten(candidate_tokens) END AS drafts
    FROM traced
    WHERE vocab >= 64 AND coalesce(draft_vocab, vocab) = vocab AND request IS NOT NULL AND step IS NOT NULL AND node_tokens IS NOT NULL AND emitted IS NOT NULL
),
judged AS (
    SELECT *, max(step) FILTER (list_max(drafts) >= vocab / 2) OVER (PARTITION BY run, request) AS last_whole FROM seen
),
tail AS (
    SELECT run, request, arg_min(id, step) AS id, any_value(vocab) AS vocab, sum(len(drafts)) AS drafts, list_max(list(list_max(drafts))) AS largest,
        sum(len(list_filter(emitted, lambda token: token >= vocab / 2))) AS used
    FROM judged WHERE step > coalesce(last_whole, -1) AND len(drafts) > 0 GROUP BY run, request HAVING count(*) >= 5
)
SELECT id, 'half_vocabulary' AS field, NULL AS entry, format('ids up to {}', vocab - 1) AS expected, format('ids up to {}', largest) AS observed
FROM tail WHERE drafts >= 60 AND used >= 5
