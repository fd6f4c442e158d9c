-- title    = "The target never accepts a draft"
-- severity = "high"
-- family   = "acceptance"
-- needs    = { commit_sample = ["commit_len"], commit_mean = [], acceptance = [], decode = [], event = [], run = [], config = [] }
-- applies  = "speculates AND served"
-- enable   = "keep the decode lines (log level info) or the response records of at least 200 steps"
-- why      = "With a working drafter some first drafts match: a commit length of 1.00 on every line means that only the target's own token is ever kept, and each step pays for a draft that is thrown away."
-- fix      = [
--   "Run the same drafter with TP 1, an unquantised target, greedy, and one short prompt. If drafts are accepted there, add the features back one by one.",
--   "Otherwise compare the drafter's configuration with its published one: target layer ids, mask token, vocabulary, output head, the target it was trained for.",
--   "After prefill/decode separation or a fused path: check that the drafter gets real hidden states.",
--   "N-gram drafts only copy what was there before: repeat a paragraph in the prompt. If drafts are accepted there, the text is the reason, and speculation only costs.",
-- ]
-- formula  = "C <= 1.05 in 98 % of the samples and on average, over at least 200 steps; of llama.cpp and vLLM accepted / drafted; or so on some data-parallel ranks over at least 1,000 steps, and C >= 1.3 on the others"
-- sides    = { "commit length" = "commit_len", "steps measured" = "steps" }
-- unlike   = [
--   "Simulated or adaptive acceptance, which is low on purpose (acceptance_low_on_purpose).",
--   "No acceptance fields at all: speculation is off, or never engages (speculation_never_engages).",
--   "N-gram drafts on text that repeats nothing: none is accepted by nature, which is worth a note.",
--   "A rate of 1/N in logs of before April 2026 is no acceptance: it is the target's own token.",
-- ]
-- causes   = [
--   { name = "wiring", cause = "the drafter is fed other target layers, another head or embedding than it was trained with", test = "tensor parallelism 1, no fusion, unquantised target, one short greedy prompt: drafts are accepted again if a feature that you took away broke the feed" },
--   { name = "pairing", cause = "the drafter was trained for another target, or its weights did not load", test = "the same drafter with the target its model card names: accepted there, so the pair is wrong" },
--   { name = "transfer", cause = "hidden states are missing after prefill/decode separation", test = "one node without separation: accepted there, so the transfer loses them" },
--   { name = "text", cause = "the text repeats nothing that n-gram drafts could copy", test = "a prompt that asks to repeat a paragraph: drafts are accepted there" },
-- ]
-- reports  = ["sgl-project/sglang#27829", "vllm-project/vllm#41789", "sgl-project/SpecForge#455"]
-- explains = ["slower_than_baseline", "tree_below_chain", "acceptance_low_from_start"]
-- params   = { floor = 1.05, steps = 200, lines = 5, alive = 1.3, rank_steps = 1000 }

-- A benchmark's figure stands for its whole output. Simulated or adaptive speculation is low on
-- purpose: that is another rule. Dummy weights agree on nothing.
WITH spoken_for AS (
    SELECT run FROM event WHERE kind IN ('simulated', 'adaptive')
    UNION SELECT run FROM config WHERE key = 'load_format' AND value ILIKE 'dummy'
),
drafter AS (SELECT *, copies(algorithm) AS copies FROM run),
dead AS (
    SELECT run FROM commit_mean GROUP BY run HAVING sum(commit_len * steps) / sum(steps) <= $floor
),
sample AS (
    SELECT s.*, coalesce(s.steps, 1) AS weight
    FROM commit_sample s
    WHERE s.run IN (FROM dead) AND s.run NOT IN (FROM spoken_for)
        AND s.drafted IS DISTINCT FROM 0  -- a budget of 0 asks for no draft
),
summed AS (
    SELECT run, sum(weight) AS steps, count(*) AS samples, mode(kind) AS kind,
        quantile_cont(commit_len, 0.98) AS nearly_all, sum(commit_len * weight) / sum(weight) AS commit_len,
        median(tokens_per_s) AS tokens_per_s, arg_min(cite(source, line), line, 4) AS lines
    FROM sample GROUP BY run
),
-- A rank that accepts nothing is lost in the mean of the others. vLLM says how much an engine drafted
-- in the line after: few requests, or short ones, are few drafts. One text may be hard for long.
ranked AS (
    SELECT d.run, d.source, d.line, d.rank, coalesce(d.accept_len, a.commit_len) AS commit_len,
        CASE WHEN d.accept_len IS NULL THEN coalesce(a.steps, a.drafted_tokens / nullif(len(a.positions), 0)) ELSE d.steps END AS steps
    FROM decode d LEFT JOIN acceptance a ON a.source = d.source AND a.line = d.line + 1
    WHERE d.usable AND d.rank IS NOT NULL AND d.run IN (SELECT run FROM decode GROUP BY run HAVING min(rank) <> max(rank)) AND d.run IN (SELECT run FROM run WHERE speculates) AND d.run NOT IN (SELECT run FROM summed)
        AND d.run NOT IN (FROM spoken_for)
),
lane AS (
    SELECT run, rank, count(*) AS samples, sum(steps) AS steps, sum(commit_len * steps) / sum(steps) AS commit_len, quantile_cont(commit_len, 0.98) <= $floor AS dead,
        arg_min(cite(source, line), line, 2) AS lines
    FROM ranked WHERE commit_len IS NOT NULL AND steps > 0 GROUP BY run, rank HAVING count(*) >= $lines AND sum(steps) >= $rank_steps
),
divided AS (
    SELECT run, string_agg(rank, ', ' ORDER BY rank) FILTER (dead) AS ranks, sum(samples) FILTER (dead)::BIGINT AS samples, sum(steps) FILTER (dead) AS steps,
        avg(commit_len) FILTER (dead) AS commit_len, avg(commit_len) FILTER (NOT dead) AS others, count(*) FILTER (NOT dead) AS alive,
        flatten(list(lines ORDER BY dead DESC, rank)) AS lines
    FROM lane GROUP BY run HAVING bool_or(dead) AND min(commit_len) FILTER (NOT dead) >= $alive
)
SELECT
    s.run,
    format('commit length is {:.2f} over {} {}{}: {} is accepted{}', s.commit_len, s.samples,
        CASE s.kind WHEN 'decode' THEN 'decode line' WHEN 'benchmark' THEN 'benchmark result' WHEN 'acceptance' THEN 'counter line' ELSE s.kind END
            || CASE WHEN s.samples > 1 THEN 's' ELSE '' END,
        CASE WHEN s.kind IN ('step', 'acceptance') THEN '' ELSE format(' (about {:,.0f} steps)', s.steps) END,
        CASE WHEN s.commit_len < 1.005 THEN 'no draft' ELSE 'hardly a draft' END, CASE WHEN r.step_ms > 0 THEN format(', and a step takes {:.1f} ms', r.step_ms) ELSE '' END) AS message,
    CASE WHEN r.copies THEN 'info' END AS severity,
    s.commit_len, s.steps, s.samples, r.step_ms, s.tokens_per_s,
    -- dead from the first slot on: features, root, head or rotation
    CASE WHEN NOT r.copies THEN 'F27, F13, F24, F26' END AS faults,
    CASE WHEN r.copies THEN ['text'] ELSE ['wiring', 'pairing', 'transfer'] END AS causes, s.lines
FROM summed s JOIN drafter r USING (run)
WHERE s.nearly_all <= $floor AND s.commit_len <= $floor AND (s.steps >= $steps OR (s.kind = 'acceptance' AND s.samples >= $lines))
UNION ALL BY NAME
SELECT
    d.run,
    format('commit length is {:.2f} over {} decode lines of {}, and {:.2f} on the {}: no draft is accepted there', d.commit_len, d.samples,
        CASE WHEN len(d.ranks) <= 60 THEN d.ranks ELSE d.ranks[:60] || '…' END, d.others, CASE WHEN d.alive = 1 THEN 'other rank' ELSE format('{} other ranks', d.alive) END) AS message,
    d.commit_len, d.steps, d.samples, r.step_ms, r.tokens_per_s, ['wiring', 'transfer', 'pairing'] AS causes, d.lines[:4] AS lines
FROM divided d JOIN drafter r USING (run) WHERE NOT r.copies
