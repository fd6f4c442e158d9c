-- title    = "The drafter works at every length; the text is hard"
-- severity = "info"
-- family   = "acceptance"
-- needs    = { commit_sample = ["commit_len", "ctx_len"], run = [], peer = [] }
-- why      = "Predictable text at the same context lengths is the control: where it commits many tokens a step at every length, drafter, cache and positions are sound, and a low commit length on other text is the text's."
-- fix      = ["Do not look for a fault in the drafter. If the text matters, tune a drafter for it; if long contexts are slow, look at the step time."]
-- formula  = "C on predictable text holds over all contexts and is at least twice that of the other text at the same contexts"
-- sides    = { "commit length" = "commit_len", "on predictable text" = "control_lowest_commit_len" }
-- unlike   = [
--   "A drafter whose C falls with the context on predictable text as well.",
-- ]
-- params   = { ratio = 2.0, hold = 0.7, per_length = 5 }

-- Bins that are 8x apart come from contexts that are at least 4x apart.
WITH extent AS (
    SELECT run, min(ctx_len) AS low, max(ctx_len) AS high FROM commit_sample WHERE kind IN ('step', 'decode', 'acceptance') AND ctx_len > 0
        AND run IN (SELECT run FROM peer) GROUP BY run HAVING max(ctx_len) >= 4 * min(ctx_len)
),
bin AS (
    SELECT run, round(2 * ln(ctx_len)) AS bin, avg(ctx_len) AS ctx_len, avg(commit_len) AS commit_len, count(*) AS rows,
        arg_min(cite(source, line), line) AS place
    FROM commit_sample JOIN extent USING (run) WHERE kind IN ('step', 'decode', 'acceptance') AND ctx_len > 0
    GROUP BY run, bin HAVING count(*) >= $per_length
),
asked AS MATERIALIZED (  -- or the bins of all runs would be joined with each other first
    SELECT p.against, h.*
    FROM peer p
    JOIN run a ON a.run = p.run AND a.speculates JOIN run b ON b.run = p.against AND b.speculates
        AND a.algorithm IS NOT DISTINCT FROM b.algorithm AND a.budget IS NOT DISTINCT FROM b.budget
    JOIN bin h ON h.run = p.run
),
compared AS (
    SELECT h.run, h.against, count(*) AS lengths, max(h.ctx_len) / min(h.ctx_len) AS range, min(h.ctx_len) AS short_ctx, max(h.ctx_len) AS long_ctx,
        min(e.commit_len / h.commit_len) AS ratio, min(e.commit_len) / max(e.commit_len) AS hold, avg(h.commit_len) AS commit_len,
        list(round(e.commit_len, 2) ORDER BY e.ctx_len) AS control, list_concat([arg_max(h.place, h.ctx_len)], list(e.place ORDER BY e.ctx_len)) AS lines
    FROM asked h JOIN bin e ON e.run = h.against AND e.bin = h.bin
    GROUP BY h.run, h.against
)
SELECT run, against,
    format('the drafter works at every length ({} tokens a step on the text of {}, from {:,.0f} to {:,.0f} tokens of context); this text is hard: {:.2f} tokens a step',
        array_to_string(control, ', '), against, short_ctx, long_ctx, commit_len) AS message,
    commit_len, control AS control_commit_len, list_min(control) AS control_lowest_commit_len, short_ctx, long_ctx, lines
FROM compared
WHERE lengths >= 3 AND range >= 8 AND ratio >= $ratio AND hold >= $hold
QUALIFY row_number() OVER (PARTITION BY run ORDER BY ratio DESC) = 1
