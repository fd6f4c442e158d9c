-- title    = "Speculation is slower than plain decoding"
-- severity = "high"
-- needs    = { baseline = ["against"], run = [], config = [], decode = [], benchmark = [] }
-- applies  = "speculates AND served"
-- enable   = "analyse a run of the same model without speculation beside it"
-- why      = "Speculation pays only where a step commits more tokens than it costs plain steps: the break-even commit length is the step time with speculation over the step time without, at the same batch size."
-- fix      = [
--   "Compare the commit length with the break-even: either more drafts must be accepted, or the step must get cheaper.",
--   "Draft fewer tokens: on mixture-of-experts targets each extra verify row wakes more experts.",
--   "Where neither helps, speculate at batch 1 only, or not at all on this target.",
-- ]
-- params   = { margin = 0.05, lines = 5 }

-- Decode lines are compared at the same number of running requests and about the same context,
-- which both make a step dearer; benchmarks where they sent the same work.
WITH spec AS (SELECT run FROM run WHERE speculates),
batch AS (
    SELECT run, running, coalesce(round(ln(ctx_len) / ln(1.5)), 0) AS length, count(*) AS rows, median(tokens_per_s) AS tokens_per_s, median(commit_len) AS commit_len,
        median(running * 1000 / tokens_per_s * coalesce(commit_len, 1)) AS step_ms,
        arg_min(cite(source, line), line, 4) AS lines
    FROM decode WHERE usable AND NOT after_prefill GROUP BY run, running, length
    HAVING count(*) >= $lines
),
decoded AS (
    SELECT s.run, b.run AS against, s.running, s.tokens_per_s, b.tokens_per_s AS baseline_tokens_per_s,
        s.commit_len, s.step_ms / b.step_ms AS break_even, s.step_ms, b.step_ms AS baseline_step_ms,
        list_concat(s.lines[:2], b.lines[:2]) AS lines, s.rows + b.rows AS weight
    FROM baseline p JOIN spec ON spec.run = p.run
    JOIN batch s ON s.run = p.run JOIN batch b ON b.run = p.against AND b.running = s.running AND b.length = s.length
    QUALIFY row_number() OVER (PARTITION BY s.run, b.run ORDER BY s.rows + b.rows DESC) = 1
),
bench AS (
    SELECT s.run, b.run AS against, NULL AS running, s.tokens_per_s, b.tokens_per_s AS baseline_tokens_per_s,
        s.accept_len AS commit_len, s.accept_len * coalesce(s.mean_tpot_ms / b.mean_tpot_ms, b.tokens_per_s / s.tokens_per_s) AS break_even,
        NULL AS step_ms, NULL AS baseline_step_ms,
        [cite(s.source, s.line), cite(b.source, b.line)] AS lines, 1 AS weight
    FROM baseline p JOIN spec ON spec.run = p.run
    JOIN benchmark s ON s.run = p.run JOIN benchmark b ON b.run = p.against
    WHERE abs(s.input_tokens - b.input_tokens) <= 0.02 * b.input_tokens
        AND abs(s.output_tokens - b.output_tokens) <= 0.1 * b.output_tokens
        AND s.max_concurrency IS NOT DISTINCT FROM b.max_concurrency
),
compared AS (SELECT * FROM decoded UNION ALL SELECT * FROM bench)
SELECT
    run, against,
    format('{:,.1f} tok/s against {:,.1f} without speculation ({:.2f}x){}: a step commits {:.2f} tokens, break-even is {:.2f}{}',
        tokens_per_s, baseline_tokens_per_s, tokens_per_s / baseline_tokens_per_s,
        CASE WHEN running IS NOT NULL THEN format(' at {} running', running) ELSE '' END, commit_len, break_even,
        CASE WHEN step_ms IS NOT NULL THEN format(' ({:.1f} ms against {:.1f} ms a step)', step_ms, baseline_step_ms) ELSE '' END) AS message,
    -- a server on a CPU is a test bed: its speed is nobody's concern
    CASE WHEN run IN (SELECT run FROM config WHERE key = 'device' AND value = 'cpu') THEN 'info' END AS severity,
    1 - tokens_per_s / baseline_tokens_per_s AS impact,
    tokens_per_s, baseline_tokens_per_s, commit_len, break_even AS break_even_commit_len, step_ms, baseline_step_ms, lines
FROM compared
WHERE tokens_per_s < (1 - $margin) * baseline_tokens_per_s
QUALIFY row_number() OVER (PARTITION BY run ORDER BY weight DESC, against) = 1
