-- title    = "Speculation is slower than plain decoding"
-- severity = "high"
-- family   = "speed"
-- needs    = { baseline = ["against"], run = [], config = [], decode = [], benchmark = [], request = [], prefill = [], commit_mean = [], event = [] }
-- applies  = "speculates AND served"
-- enable   = "analyse a run of the same model without speculation beside it"
-- why      = "Speculation pays only where a step commits more tokens than it costs plain steps: the break-even commit length is the step time with speculation over the step time without, at the same batch size."
-- fix      = [
--   "Compare the commit length with the break-even: either more drafts must be accepted, or the step must get cheaper.",
--   "Draft fewer tokens: on mixture-of-experts targets each extra verify row wakes more experts.",
--   "Where neither helps, speculate at batch 1 only, or not at all on this target.",
-- ]
-- formula  = "break-even C = step time with speculation / step time without, at the same batch and context; slower where C is below it"
-- sides    = { "with speculation" = "tokens_per_s", "without speculation" = "baseline_tokens_per_s", "times as fast" = "speed_up" }
-- unlike   = [
--   "A baseline of another card, model, quantisation or batch: not compared.",
--   "A client that paces the requests: the time of a token counts, not the throughput.",
--   "Graphs switched off in one arm (decode_graph_disabled).",
-- ]
-- causes   = [
--   { name = "verify", cause = "verification costs a multiple: each drafted token wakes more experts, or compute is no longer idle", test = "half the draft tokens: the step gets cheaper by more than C falls" },
--   { name = "draft", cause = "drafting costs as much as a step of a small target", test = "one draft step: the step time falls by the drafter's share" },
--   { name = "acceptance", cause = "too few drafts are accepted", test = "predictable text: C rises above break-even" },
-- ]
-- reports  = ["sgl-project/sglang#29244", "vllm-project/vllm#39680", "vllm-project/vllm#44697", "z-lab/dflash#30"]
-- params   = { margin = 0.05, lines = 5, short = 1000, requests = 3, tokens = 32, alike = 2.0 }

-- Decode lines are compared in cells of the same number of running requests and about the same
-- context, which both make a step dearer (some hundred tokens more or less do not); each cell weighs
-- as much as its thinner side. Benchmarks
-- are compared where they sent the same work: by throughput, or by the time of a token where the
-- client's own pace sets the throughput.
WITH spec AS (SELECT run FROM run WHERE speculates),
cell AS (
    SELECT run, running, coalesce(round(ln(CASE WHEN ctx_len > 0 THEN greatest(ctx_len, $short) END) / ln(1.5)), 0) AS length, count(*) AS rows,
        median(tokens_per_s) AS tokens_per_s, median(commit_len) AS commit_len,
        median(running * 1000 / tokens_per_s * coalesce(commit_len, 1)) AS step_ms,
        coalesce(var_samp(ln(tokens_per_s)), 0.02) / count(*) AS variance,
        arg_min(cite(source, line), line, 4) AS lines
    FROM decode WHERE usable AND NOT after_prefill GROUP BY run, running, length
),
paired AS (
    SELECT s.run, b.run AS against, s.running, least(s.rows, b.rows) AS weight, ln(s.tokens_per_s) AS speed, ln(b.tokens_per_s) AS baseline_speed,
        ln(s.step_ms) AS step, ln(b.step_ms) AS baseline_step, s.commit_len, s.variance + b.variance AS variance,
        list_concat(s.lines[:2], b.lines[:2]) AS lines
    FROM baseline p JOIN spec ON spec.run = p.run
    JOIN cell s ON s.run = p.run JOIN cell b ON b.run = p.against AND b.running = s.running AND b.length = s.length
),
decoded AS (
    SELECT run, against, CASE WHEN min(running) = max(running) THEN format('{}', min(running)) ELSE format('{} to {}', min(running), max(running)) END AS running,
        exp(sum(weight * speed) / sum(weight)) AS tokens_per_s, exp(sum(weight * baseline_speed) / sum(weight)) AS baseline_tokens_per_s,
        exp(sum(weight * (speed - baseline_speed)) / sum(weight)) AS speed_up, sqrt(sum(weight ** 2 * variance)) / sum(weight) AS error,
        sum(weight * commit_len) / sum(weight) AS commit_len,
        exp(sum(weight * step) / sum(weight)) AS step_ms, exp(sum(weight * baseline_step) / sum(weight)) AS baseline_step_ms,
        arg_max(lines, weight) AS lines, sum(weight) AS weight
    FROM paired GROUP BY run, against HAVING sum(weight) >= $lines
),
-- Means of two clients are compared where both are of the same kind; a token's time wins.
bench AS (
    SELECT s.run, b.run AS against, NULL AS running, s.tokens_per_s, b.tokens_per_s AS baseline_tokens_per_s,
        CASE WHEN coalesce(s.request_rate, 'inf') ILIKE 'inf%' THEN s.tokens_per_s / b.tokens_per_s
             ELSE coalesce(b.mean_tpot_ms / s.mean_tpot_ms, b.mean_e2e_ms / s.mean_e2e_ms, s.tokens_per_s / b.tokens_per_s) END AS speed_up, 0 AS error,
        s.accept_len AS commit_len,
        NULL AS step_ms, NULL AS baseline_step_ms, s.accept_len * coalesce(s.mean_tpot_ms / b.mean_tpot_ms, b.tokens_per_s / s.tokens_per_s) AS break_even,
        NOT coalesce(s.request_rate, 'inf') ILIKE 'inf%' AS paced,
        [cite(s.source, s.line), cite(b.source, b.line)] AS lines, 1 AS weight
    FROM baseline p JOIN spec ON spec.run = p.run
    JOIN benchmark s ON s.run = p.run JOIN benchmark b ON b.run = p.against
    WHERE CASE WHEN coalesce(s.input_tokens, b.input_tokens) IS NULL  -- who asks the same questions says no input
            THEN s.completed IS NOT DISTINCT FROM b.completed AND abs(s.output_tokens - b.output_tokens) <= 0.05 * b.output_tokens
            ELSE abs(s.input_tokens - b.input_tokens) <= 0.02 * b.input_tokens AND abs(s.output_tokens - b.output_tokens) <= 0.1 * b.output_tokens END
        AND s.max_concurrency IS NOT DISTINCT FROM b.max_concurrency AND s.request_rate IS NOT DISTINCT FROM b.request_rate
),
-- A server that reports no batches but the speed of each request (llama.cpp): of requests alike in length.
asked AS (
    SELECT run, count(*) AS requests, median(tokens_per_s) AS tokens_per_s, greatest(var_samp(ln(tokens_per_s)), 0.0004) / count(*) AS variance,
        arg_min(cite(source, line), (source, line), 2) AS lines
    FROM request WHERE tokens_per_s > 0 AND completion_tokens >= $tokens AND run NOT IN (SELECT run FROM cell)
    GROUP BY run HAVING count(*) >= $requests
),
prompt AS (SELECT run, median(new_tokens + coalesce(cached_tokens, 0)) AS tokens FROM prefill WHERE new_tokens > 0 GROUP BY run),
busy AS (  -- how many requests it had at once
    SELECT run, max(open) AS most
    FROM (SELECT run, sum(CASE name WHEN 'launch' THEN 1 ELSE -1 END) OVER (PARTITION BY run, source ORDER BY line) AS open FROM event WHERE kind = 'slot')
    GROUP BY run
),
answered AS (
    SELECT s.run, b.run AS against, NULL AS running, s.tokens_per_s, b.tokens_per_s AS baseline_tokens_per_s, s.tokens_per_s / b.tokens_per_s AS speed_up,
        sqrt(s.variance + b.variance) AS error, m.commit_len, 1000 * m.commit_len / s.tokens_per_s AS step_ms, 1000 / b.tokens_per_s AS baseline_step_ms,
        list_concat(s.lines, b.lines) AS lines, 0 AS weight
    FROM baseline p JOIN spec ON spec.run = p.run
    JOIN asked s ON s.run = p.run JOIN asked b ON b.run = p.against
    JOIN (SELECT run, arg_max(commit_len, steps) AS commit_len FROM commit_mean GROUP BY run) m ON m.run = s.run
    LEFT JOIN prompt x ON x.run = s.run LEFT JOIN prompt y ON y.run = b.run
    LEFT JOIN busy o ON o.run = s.run LEFT JOIN busy q ON q.run = b.run
    WHERE coalesce(o.most = q.most, true) AND coalesce(x.tokens BETWEEN y.tokens / $alike AND y.tokens * $alike, true)
),
compared AS (
    SELECT *, step_ms / baseline_step_ms AS break_even, false AS paced FROM decoded
    UNION ALL BY NAME SELECT * FROM bench
    UNION ALL BY NAME SELECT *, step_ms / baseline_step_ms AS break_even, false AS paced FROM answered
),
-- Of runs that differ in their budget only the best counts: the others say where it stops to pay.
sweep AS (
    SELECT c.run, max(o.speed_up) AS best FROM compared c
    JOIN run a ON a.run = c.run
    JOIN compared o ON o.against = c.against AND o.run <> c.run
    JOIN run b ON b.run = o.run AND b.budget <> a.budget AND b.algorithm IS NOT DISTINCT FROM a.algorithm
        AND b.draft_model IS NOT DISTINCT FROM a.draft_model AND b.top_k IS NOT DISTINCT FROM a.top_k
    GROUP BY c.run
)
SELECT
    run, against,
    format('{}{:,.1f} tok/s against {:,.1f} without speculation ({:.2f}x){}: a step commits {:.2f} tokens, break-even is {:.2f}{}',
        CASE WHEN paced THEN format('at the client''s pace a token takes {:.2f} times as long; ', 1 / speed_up) ELSE '' END,
        tokens_per_s, baseline_tokens_per_s, tokens_per_s / baseline_tokens_per_s,
        CASE WHEN running IS NOT NULL THEN format(' at {} running', running) ELSE '' END, commit_len, break_even,
        CASE WHEN step_ms IS NOT NULL THEN format(' ({:.1f} ms against {:.1f} ms a step)', step_ms, baseline_step_ms) ELSE '' END) AS message,
    -- a server on a CPU is a test bed: its speed is nobody's concern
    CASE WHEN run IN (SELECT run FROM config WHERE key = 'device' AND value = 'cpu') THEN 'info'
         WHEN run IN (SELECT run FROM sweep WHERE best >= 1) THEN 'info' END AS severity,
    1 - speed_up AS impact,
    tokens_per_s, baseline_tokens_per_s, speed_up, commit_len, break_even AS break_even_commit_len, step_ms, baseline_step_ms, lines
FROM compared
WHERE speed_up < 1 - $margin AND ln(speed_up) < -3 * error
QUALIFY row_number() OVER (PARTITION BY run ORDER BY weight DESC, against) = 1
