-- title    = "The target never accepts a draft"
-- severity = "high"
-- family   = "acceptance"
-- needs    = { commit_sample = ["commit_len"], event = [], run = [] }
-- applies  = "speculates AND served"
-- enable   = "keep the decode lines (log level info) or the response records of at least 200 steps"
-- why      = "With a working drafter some first drafts match: a commit length of 1.00 on every line means that only the target's own token is ever kept, and each step pays for a draft that is thrown away."
-- fix      = [
--   "Run the same drafter with TP 1, an unquantised target, greedy, and one short prompt. If drafts are accepted there, add the features back one by one.",
--   "Otherwise compare the drafter's configuration with its published one: target layer ids, mask token, vocabulary, output head, the target it was trained for.",
--   "After prefill/decode separation or a fused path: check that the drafter gets real hidden states.",
--   "N-gram drafts only copy what was there before: repeat a paragraph in the prompt. If drafts are accepted there, the text is the reason, and speculation only costs.",
-- ]
-- formula  = "C <= 1.05 in 98 % of the samples and on average, over at least 200 steps; of llama.cpp and vLLM accepted / drafted"
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
-- explains = ["slower_than_baseline", "tree_below_chain"]
-- params   = { floor = 1.05, steps = 200, lines = 5 }

-- A benchmark's figure stands for its whole output. Simulated or adaptive speculation is low on
-- purpose: that is another rule.
WITH dead AS (
    SELECT run FROM commit_sample GROUP BY run HAVING sum(commit_len * coalesce(steps, 1)) / sum(coalesce(steps, 1)) <= $floor
),
sample AS (
    SELECT s.*, coalesce(s.steps, 1) AS weight
    FROM commit_sample s
    WHERE s.run IN (FROM dead) AND s.run NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive'))
),
summed AS (
    SELECT run, sum(weight) AS steps, count(*) AS samples, mode(kind) AS kind,
        quantile_cont(commit_len, 0.98) AS nearly_all, sum(commit_len * weight) / sum(weight) AS commit_len,
        median(tokens_per_s) AS tokens_per_s, arg_min(cite(source, line), line, 4) AS lines
    FROM sample GROUP BY run
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
FROM summed s JOIN (SELECT *, coalesce(algorithm SIMILAR TO '.*(NGRAM|SUFFIX|LOOKUP).*', false) AS copies FROM run) r USING (run)
WHERE s.nearly_all <= $floor AND s.commit_len <= $floor AND (s.steps >= $steps OR (s.kind = 'acceptance' AND s.samples >= $lines))
