-- title    = "Speculation gains with few requests and loses with many"
-- severity = "medium"
-- family   = "speed"
-- needs    = { baseline = ["against"], run = [], config = [], decode = [], benchmark = [] }
-- applies  = "speculates AND served AND run IN (SELECT run FROM baseline)"
-- why      = "A small batch leaves the GPU waiting for memory, so that drafted rows are verified almost for nothing. In a large batch every row costs its share: with k drafts a step does k + 1 times the work for the same tokens."
-- fix      = [
--   "Serve with speculation below the crossing batch and without above it (a running limit, or a second server behind the router).",
--   "Draft fewer tokens as the load grows: fewer rows to verify move the crossing to larger batches.",
--   "If the draft, not the verification, grows with the batch, draft with a lighter method.",
-- ]
-- formula  = "speed-up(batch) = throughput with / without speculation at the same batch and about the same context; > 1 + margin at small batches, < 1 - margin at large ones, none out of order, all beyond three standard errors"
-- sides    = { "times as fast, many requests" = "speed_up", "times as fast, few requests" = "gain" }
-- unlike   = [
--   "A loss at every batch size (slower_than_baseline).",
--   "Larger batches that run without a graph (batch_outside_graphs): such lines are left out.",
--   "A queue behind a lowered running limit (running_cap_lowered): only equal batches are compared.",
-- ]
-- causes   = [
--   { name = "verification_bound", cause = "verifying k + 1 rows a request has become compute-bound", test = "half the draft tokens at the losing batch: the step gets shorter in proportion" },
--   { name = "acceptance_falls", cause = "fewer drafts are accepted in large batches than in small ones", test = "the same prompts at both batches, greedy: acceptance must not depend on the batch; if it does, the batched draft path is wrong" },
--   { name = "draft_in_series", cause = "drafting grows with the batch: host work, or one draft step after another", test = "one draft step instead of several at the losing batch: the step gets shorter by more than the rows saved" },
-- ]
-- reports  = ["sgl-project/sglang#4759", "sgl-project/sglang#6949", "vllm-project/vllm#27379", "vllm-project/vllm#49548"]
-- explains = ["slower_than_baseline"]
-- params   = { margin = 0.05, rows = 3, lines = 5, short = 1000, same_text = 0.15 }

-- Cells of about the same batch (half an octave) and context, as in slower_than_baseline; what is
-- compared is the speed of a request, so that the batches need not be equal to the last request.
WITH cell AS (
    SELECT run, round(2 * log2(running)) AS size, coalesce(round(ln(CASE WHEN ctx_len > 0 THEN greatest(ctx_len, $short) END) / ln(1.5)), 0) AS length, count(*) AS rows,
        avg(ln(running)) AS batch, avg(ln(tokens_per_s / running)) AS speed, avg(commit_len) AS commit_len, median(step_ms) AS step_ms,
        greatest(coalesce(var_samp(ln(tokens_per_s / running)), 0), 0.0004) / count(*) AS variance,
        arg_min(cite(source, line), line, 2) AS lines
    FROM decode
    WHERE usable AND NOT after_prefill AND coalesce(graph, true) AND NOT coalesce(prompt_tokens_per_s > 0.1 * tokens_per_s, false)
    GROUP BY run, size, length HAVING count(*) >= $rows
),
paired AS (
    SELECT s.run, b.run AS against, s.size, least(s.rows, b.rows) AS weight, s.batch, s.speed - b.speed AS gain, s.commit_len, s.step_ms, b.step_ms AS baseline_step_ms,
        s.variance + b.variance AS variance, list_concat(s.lines[:1], b.lines[:1]) AS lines
    FROM baseline p JOIN run r ON r.run = p.run AND r.speculates
    JOIN cell s ON s.run = p.run JOIN cell b ON b.run = p.against AND b.size = s.size AND b.length = s.length AND abs(b.batch - s.batch) <= ln(1.15)
),
level AS (
    SELECT run, against, run AS arm, exp(sum(weight * batch) / sum(weight)) AS batch, exp(sum(weight * gain) / sum(weight)) AS speed_up,
        sqrt(sum(weight ** 2 * variance)) / sum(weight) AS error, sum(weight * commit_len) / sum(weight) AS commit_len,
        sum(weight * step_ms) / sum(weight) AS step_ms, sum(weight * baseline_step_ms) / sum(weight) AS baseline_step_ms, arg_max(lines, weight) AS lines
    FROM paired GROUP BY run, against, size HAVING sum(weight) >= $lines
    UNION ALL
    -- Results of a client that kept so many requests in flight and sent the same work; each is a run.
    SELECT s.run, b.run, concat_ws(' ', r.algorithm, r.draft_model, r.draft_tokens), coalesce(s.max_concurrency, s.concurrency),
        CASE WHEN coalesce(s.request_rate, 'inf') ILIKE 'inf%' THEN s.tokens_per_s / b.tokens_per_s ELSE coalesce(b.mean_tpot_ms / s.mean_tpot_ms, s.tokens_per_s / b.tokens_per_s) END,
        0.01, s.accept_len, NULL, NULL, [cite(s.source, s.line), cite(b.source, b.line)]
    FROM baseline p JOIN run r ON r.run = p.run AND r.speculates
    JOIN benchmark s ON s.run = p.run JOIN benchmark b ON b.run = p.against AND b.max_concurrency = s.max_concurrency
    WHERE abs(s.input_tokens - b.input_tokens) <= 0.02 * b.input_tokens AND abs(s.output_tokens - b.output_tokens) <= 0.1 * b.output_tokens
        AND s.request_rate IS NOT DISTINCT FROM b.request_rate
),
verdict AS (
    SELECT *, CASE WHEN speed_up > 1 + $margin AND ln(speed_up) > 3 * error THEN 'wins' WHEN speed_up < 1 - $margin AND ln(speed_up) < -3 * error THEN 'loses' ELSE '' END AS verdict
    FROM level WHERE batch > 0
),
-- One crossing: every loss above every gain. The finding belongs to the run that loses.
crossing AS (
    SELECT l.run, l.against, max(w.batch) AS last_win, arg_max(w.speed_up, w.batch) AS win, arg_min(w.speed_up, w.batch) AS best, min(w.batch) AS smallest,
        arg_max(w.commit_len, w.batch) AS win_commit, arg_max(w.step_ms, w.batch) AS win_step, arg_max(w.baseline_step_ms, w.batch) AS win_baseline_step,
        arg_max(w.lines, w.batch) AS win_lines, min(l.batch) AS first_loss
    FROM verdict l JOIN verdict w ON w.verdict = 'wins' AND w.arm = l.arm AND (w.against = l.against OR w.run <> l.run)
    WHERE l.verdict = 'loses'
    GROUP BY l.run, l.against
    HAVING max(w.batch) < min(l.batch)
),
worst AS (
    SELECT c.*, arg_max(l.batch, l.batch) AS batch, arg_max(l.speed_up, l.batch) AS speed_up, arg_max(l.commit_len, l.batch) AS commit_len,
        arg_max(l.step_ms, l.batch) AS step_ms, arg_max(l.baseline_step_ms, l.batch) AS baseline_step_ms, arg_max(l.lines, l.batch) AS loss_lines
    FROM crossing c JOIN verdict l ON l.run = c.run AND l.against = c.against AND l.verdict = 'loses' GROUP BY ALL
)
SELECT
    run, against,
    format('{:.2f}x the throughput of plain decoding at {:.0f} running, but {:.2f}x at {:.0f}: it stops to pay between {:.0f} and {:.0f}{}{}', best, smallest, speed_up, batch, last_win, first_loss,
        CASE WHEN step_ms > 0 AND win_step > 0 AND batch > smallest THEN format('; from {:.0f} to {:.0f} the step grows from {:.1f} to {:.1f} ms, without speculation from {:.1f} to {:.1f} ms', last_win, batch, win_step, step_ms, win_baseline_step, baseline_step_ms) ELSE '' END,
        CASE WHEN commit_len > 0 AND win_commit > 0 THEN format('; a step commits {:.2f} and {:.2f} tokens', win_commit, commit_len) ELSE '' END) AS message,
    CASE WHEN run IN (SELECT run FROM config WHERE key = 'device' AND value = 'cpu') THEN 'info' END AS severity,
    1 - speed_up AS impact,
    CASE WHEN commit_len < (1 - $same_text) * win_commit THEN ['acceptance_falls'] ELSE ['verification_bound'] END AS causes,
    smallest AS gains_at, best AS gain, batch AS loses_at, speed_up, last_win, first_loss, commit_len, step_ms, baseline_step_ms,
    list_concat(loss_lines, win_lines) AS lines
FROM worst
QUALIFY row_number() OVER (PARTITION BY run ORDER BY speed_up, against) = 1
