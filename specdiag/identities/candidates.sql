-- identity = "I9"
-- needs = ["candidate_log_probs"]

-- Candidates of a depth are parts of one law: their probabilities sum to at most 1. Where the first
-- is far from certain and the few recorded ones sum to exactly 1 at depth after depth, the law was
-- taken over these alone.

WITH depth AS (
    SELECT id, entry, len(row_) AS k, vocab, list_sum(list_transform(row_, lambda lp: CASE WHEN lp > -80 THEN exp(least(lp, 80)) ELSE 0 END)) AS total, exp(least(row_[1], 80)) AS first
    FROM (SELECT id, vocab, unnest(range(len(candidate_log_probs))) AS entry, unnest(candidate_log_probs) AS row_ FROM traced WHERE candidate_log_probs IS NOT NULL)
    WHERE len(row_) > 0
),
judged AS (
    SELECT *, avg((abs(total - 1) < 1e-5)::INTEGER) FILTER (first < 0.7 AND k > 1) OVER run AS exact, count(*) FILTER (first < 0.7 AND k > 1) OVER run AS unsure
    FROM depth d JOIN (SELECT rowid AS id, run AS of FROM step) USING (id)
    WINDOW run AS (PARTITION BY of)
)
SELECT id, 'candidate_log_probs' AS field, entry, 'a sum of at most 1' AS expected, format('{:.4f}', total) AS observed FROM judged WHERE total > 1.001
UNION ALL
SELECT id, 'normalised_over_top_k', entry, 'a sum below 1', format('{:.6f}', total)
FROM judged WHERE exact > 0.95 AND unsure >= 10 AND first < 0.7 AND abs(total - 1) < 1e-5 AND k > 1 AND k < coalesce(vocab, 1000000)
