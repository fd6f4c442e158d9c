-- title    = "The tree commits no more than the chain and costs more"
-- severity = "medium"
-- family   = "tree"
-- needs    = { chain = ["against"], run = [], step = [], decode = [], acceptance = [], config = [], chain_prompts = [], other_time = [] }
-- applies  = "tree AND served AND NOT shadow"
-- enable   = "run the same prompts with linear verification and analyse both runs together"
-- why      = "A tree verifies more rows than the chain, and has to be built, masked, walked and gathered. It pays where siblings are accepted often enough that steps get rarer by more than they get dearer."
-- fix      = [
--   "Report tokens a step and milliseconds a step of both, separately: the tree must win more in the first than it loses in the second.",
--   "Try a budget of the chain's drafts plus two: if even that adds nothing, the drafter's first choice is right or nothing is.",
--   "At larger batches, where wide verification is not free, verify a chain.",
-- ]
-- formula  = "S = (C_tree / C_chain) / (ms_tree / ms_chain) in cells of the same batch and context: S < 0.95 beyond three standard errors, and C_tree not below C_chain by more than 5 % or two errors"
-- sides    = { "step of the tree" = "step_ms", "step of the chain" = "chain_step_ms", "times as fast" = "speed_up" }
-- unlike   = [
--   "A tree that commits less than the chain: that is a fault, not a price (tree_below_chain).",
--   "One of the two without graphs: idle time hides what a tree costs (decode_graph_disabled).",
--   "Other prompts, or other context lengths, in the two runs.",
--   "One of several budgets that does not pay, where another does: the sweep has found its optimum.",
-- ]
-- causes   = [
--   { name = "confident", cause = "the drafter's first choice is usually right, or its siblings do not continue", test = "budget = chain + 2, one flag: the same commit length" },
--   { name = "host", cause = "the tree is built, compiled or walked on the host in every step", test = "a budget of one spine with the tree path on: the step stays as dear as with the full tree" },
--   { name = "width", cause = "the verification of the extra rows is not free (batch, mixture of experts, small target)", test = "half the budget, one flag: the verify time falls in proportion" },
--   { name = "overlap", cause = "overlap scheduling is off in the tree run only", test = "the chain with --disable-overlap-schedule: its step gets as dear" },
-- ]
-- reports  = ["vllm-project/vllm#42910", "sgl-project/sglang#29907"]
-- explains = ["slower_than_baseline"]
-- params   = { loss = 0.05, equal = 0.05, errors = 3.0, lines = 5, steps = 50, host = 0.15, prompts = 0.5, length = 0.1 }

-- A step that says its stages only takes as long as they do together.
WITH whole AS (SELECT source, line, any_value(ms) AS ms FROM other_time WHERE kind = 'step' AND stage = 'step' GROUP BY source, line),
row AS (
    SELECT run, 'step' AS kind, source, line, coalesce(batch, 1) AS running, ctx_len, commit_len, coalesce(step_ms, ms) AS step_ms, coalesce(build_ms,
        0) + coalesce(compile_ms, 0) + coalesce(walk_ms, 0) AS host_ms, replayed AS graph
    FROM step LEFT JOIN whole USING (source, line) WHERE commit_len > 0 AND coalesce(step_ms, ms) > 0 AND NOT coalesce(warmup, false)
    UNION ALL
    SELECT run, 'decode', source, line, running, ctx_len, accept_len, step_ms, NULL, graph FROM decode WHERE usable AND NOT after_prefill
        AND accept_len IS NOT NULL AND step_ms > 0
    UNION ALL
    SELECT run, 'acceptance', source, line, coalesce(batch, 1), ctx_len, commit_len, step_ms, build_ms, NULL FROM acceptance WHERE commit_len > 0
        AND step_ms > 0
),
-- Neighbours are alike: the error of a cell is taken from ten stretches, not from single rows.
stretch AS (
    SELECT run, kind, running, length, part, count(*) AS rows, avg(commit_len) AS commit_len, median(step_ms) AS step_ms, median(host_ms) AS host_ms,
        avg(graph::INTEGER) AS graph, arg_min(cite(source, line), line, 2) AS lines
    FROM (SELECT *, coalesce(round(ln(ctx_len) / ln(1.5)), 0) AS length, ntile(10) OVER (PARTITION BY run, kind, running,
        round(ln(ctx_len) / ln(1.5)) ORDER BY source, line) AS part FROM row
        WHERE run IN (SELECT run FROM chain UNION SELECT against FROM chain))
    GROUP BY run, kind, running, length, part
),
cell AS (
    SELECT run, kind, running, length, sum(rows) AS rows, sum(commit_len * rows) / sum(rows) AS commit_len, median(step_ms) AS step_ms,
        median(host_ms) AS host_ms, avg(graph) AS graph,
        coalesce(var_samp(ln(commit_len)), 0.04) / count(*) + coalesce(var_samp(ln(step_ms)), 0.04) / count(*) AS variance,
            flatten(list(lines ORDER BY part))[:2] AS lines
    FROM stretch GROUP BY run, kind, running, length
),
-- Other prompts are other text. Where both runs show their prompts' lengths, half of them must be
-- the same, or the mean about the same.
stranger AS (SELECT DISTINCT run, against FROM chain_prompts WHERE apart > $length AND shared < $prompts),
paired AS (
    SELECT p.run, p.against, t.kind, t.running, least(t.rows, c.rows) AS weight, ln(t.commit_len / c.commit_len) AS longer,
        ln(t.step_ms / c.step_ms) AS dearer,
        t.commit_len, c.commit_len AS chain_commit_len, t.step_ms, c.step_ms AS chain_step_ms, t.host_ms, t.variance + c.variance AS variance,
            list_concat(t.lines, c.lines) AS lines,
        min(t.running) OVER (PARTITION BY p.run, p.against, t.kind) AS smallest
    FROM chain p
    JOIN run a ON a.run = p.run AND a.tree AND NOT a.shadow
    JOIN run b ON b.run = p.against
    JOIN cell t ON t.run = p.run JOIN cell c ON c.run = p.against AND c.kind = t.kind AND c.running = t.running AND c.length = t.length
    WHERE (a.draft_model IS NULL OR b.draft_model IS NULL OR a.draft_model = b.draft_model)
        AND NOT EXISTS (FROM stranger x WHERE x.run = p.run AND x.against = p.against)
        AND NOT coalesce(abs(t.graph - c.graph) > 0.5, false)
),
compared AS (  -- at the smallest batch, where a wide verification costs least
    SELECT run, against, kind, min(running) AS running, sum(weight) AS weight, sum(weight * longer) / sum(weight) AS longer,
        sum(weight * dearer) / sum(weight) AS dearer,
        sqrt(sum(weight ** 2 * variance)) / sum(weight) AS error, sum(weight * commit_len) / sum(weight) AS commit_len,
            sum(weight * chain_commit_len) / sum(weight) AS chain_commit_len,
        sum(weight * step_ms) / sum(weight) AS step_ms, sum(weight * chain_step_ms) / sum(weight) AS chain_step_ms,
            sum(weight * host_ms) / sum(weight) AS host_ms, arg_max(lines, weight) AS lines
    FROM paired WHERE running = smallest GROUP BY run, against, kind
    HAVING sum(weight) >= CASE kind WHEN 'step' THEN $steps ELSE $lines END
),
sweep AS (  -- another budget of the same tree that pays
    SELECT DISTINCT c.run FROM compared c JOIN run a ON a.run = c.run
    JOIN compared o ON o.against = c.against AND o.run <> c.run AND o.longer >= o.dearer
    JOIN run b ON b.run = o.run AND b.algorithm IS NOT DISTINCT FROM a.algorithm AND b.draft_model IS NOT DISTINCT FROM a.draft_model
        AND (b.budget IS DISTINCT FROM a.budget OR b.top_k IS DISTINCT FROM a.top_k OR b.draft_tokens IS DISTINCT FROM a.draft_tokens)
),
overlap AS (SELECT run, bool_or(value ILIKE 'true') AS off FROM config WHERE key = 'disable_overlap_schedule' GROUP BY run)
SELECT
    c.run, c.against,
    format('a step of the tree commits {:.2f} tokens and takes {:.1f} ms, one of the chain {:.2f} and {:.1f} ms{}: {:.2f}x the speed{}', c.commit_len,
        c.step_ms, c.chain_commit_len, c.chain_step_ms,
        CASE WHEN c.running > 1 THEN format(' at {:.0f} running', c.running) ELSE '' END, exp(c.longer - c.dearer),
        CASE WHEN c.host_ms >= $host * c.step_ms THEN format('; the host builds and walks for {:.1f} ms of it', c.host_ms) ELSE '' END) AS message,
    CASE WHEN c.run IN (FROM sweep) OR c.run IN (SELECT run FROM config WHERE key = 'device' AND value = 'cpu') THEN 'info'
         WHEN c.running > 1 OR coalesce(t.off AND NOT h.off, false) THEN 'low' ELSE 'medium' END AS severity,
    1 - exp(c.longer - c.dearer) AS impact,
    c.commit_len, c.chain_commit_len, c.step_ms, c.chain_step_ms, c.host_ms, c.running, exp(c.longer - c.dearer) AS speed_up,
    CASE WHEN coalesce(t.off AND NOT h.off, false) THEN ['overlap'] WHEN c.host_ms >= $host * c.step_ms THEN ['host'] WHEN c.running > 1
        OR c.longer > ln(1 + $equal) THEN ['width'] ELSE ['confident'] END AS causes,
    c.lines
FROM compared c LEFT JOIN overlap t ON t.run = c.run LEFT JOIN overlap h ON h.run = c.against
WHERE c.longer >= least(ln(1 - $equal), -2 * c.error) AND c.longer - c.dearer < ln(1 - $loss) AND c.longer - c.dearer < -sure($errors) * c.error
QUALIFY row_number() OVER (PARTITION BY c.run ORDER BY c.weight DESC, c.against) = 1
