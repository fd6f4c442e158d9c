-- title    = "Acceptance is below the published figures"
-- severity = "info"
-- family   = "acceptance"
-- needs    = { commit_mean = ["commit_len"], run = ["model"], published = [], source = [], benchmark = [], request = [], config = [], event = [] }
-- applies  = "speculates AND served AND model IS NOT NULL AND algorithm SIMILAR TO '.*(DFLASH|DDTREE).*'"
-- enable   = "keep the decode lines or the response records of at least 200 steps"
-- why      = "A paper's figure holds for its prompts, template, temperature and block: a lower one of the same drafter is mostly other text. It is told so that nobody compares a speed-up with one that other text gave."
-- formula  = "C against the lowest published C of the same target, kind of drafter and block that could apply: of the same data set and temperature where these are known, of all where they are not"
-- sides    = { "commit length" = "commit_len", "lowest published" = "published_lowest" }
-- unlike   = [
--   "A good run of the same drafter on the same prompts: then it is a fault, not the text (acceptance_low_from_start, acceptance_regressed).",
--   "Fewer drafts than the published block, or a tree of fewer nodes: a lower ceiling.",
--   "The commit length is as published and the speed is not: that is the step's time (slower_than_baseline).",
-- ]
-- causes   = [
--   { name = "text", cause = "other prompts, another language, or a template that the drafter was not trained with", test = "the published prompts (GSM8K is short) with the published template, greedy: as published there, so the text is harder" },
--   { name = "thinking", cause = "thinking is on, the published figure is without, or the other way round", test = "enable_thinking=false in the chat template: the figure comes back" },
--   { name = "sampling", cause = "the requests are sampled, the published figure is greedy", test = "temperature 0: the figure comes back" },
--   { name = "aggregation", cause = "the published mean is over responses, this one over steps", test = "average the response records by request: see aggregation_differs" },
-- ]
-- fix      = [
--   "Quote your own commit length and step time on your own text; a published speed-up is not yours to expect.",
--   "To check the set-up, run one published data set: same prompts, template, temperature, mean over responses.",
-- ]
-- reports  = ["z-lab/dflash#133", "z-lab/dflash#7", "z-lab/dflash#9", "sgl-project/sglang#11948", "vllm-project/vllm#42505"]
-- params   = { margin = 0.1, errors = 3.0, floor = 1.8, drift = 0.25, full_budget = 256 }

-- Names without maker, quantisation and the word Instruct.
WITH candidate AS (
    SELECT r.run, r.tree, r.budget, r.block, r.draft_tokens, r.draft_model, r.model,
        regexp_replace(regexp_replace(regexp_extract(lower(r.model), '[^/\\]+$'), '^meta-', ''), '(?:-(?:instruct|fp8|awq|gptq[a-z0-9-]*|int[48]|w[48]a[0-9]+|nvfp4|mxfp4|bf16|dynamic))+$', '') AS target,
        m.commit_len, m.error, m.steps, m.lines, m.kind, regexp_matches(lower(r.model), 'fp8|awq|gptq|int[48]|w[48]a|fp4') AS quantised
    FROM run r JOIN commit_mean m ON m.run = r.run
    WHERE r.algorithm SIMILAR TO '.*(DFLASH|DDTREE).*' AND NOT r.shadow AND (r.draft_model IS NULL OR r.draft_model ILIKE '%dflash%')
        AND m.steps >= 200 AND (m.rows >= 5 OR m.kind = 'benchmark') AND m.commit_len > $floor
        AND (m.rows < 30 OR abs(m.first_third - m.last_third) <= $drift * m.commit_len)
        AND r.run NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive'))
    QUALIFY row_number() OVER (PARTITION BY r.run ORDER BY list_position(['step', 'request', 'decode', 'acceptance', 'benchmark'], m.kind)) = 1
),
heat AS (SELECT run, min(temperature) AS coldest, max(temperature) AS hottest FROM request WHERE temperature IS NOT NULL GROUP BY run),
-- What the text is: as the client says, or as the files are named.
title AS (
    SELECT run, string_agg(DISTINCT regexp_replace(lower(name), '[^a-z0-9]', '', 'g'), ' ') AS title
    FROM (
        SELECT run, dataset AS name FROM benchmark WHERE dataset IS NOT NULL
        UNION ALL
        SELECT m.run, s.path FROM (SELECT DISTINCT run, unnest(lines).source AS source FROM commit_mean) m JOIN source s USING (source)
        UNION ALL
        SELECT run, run FROM run
    ) GROUP BY run
),
applying AS (
    SELECT c.run, p.*,
        contains(replace(replace(t.title, 'aime2025', 'aime25'), 'aime2024', 'aime24'), p.dataset) AS named
    FROM candidate c JOIN published p ON p.target = c.target LEFT JOIN heat h USING (run) LEFT JOIN title t USING (run)
    WHERE coalesce(c.block, p.block) >= p.block
        AND (h.run IS NULL OR p.temperature BETWEEN h.coldest - 0.25 AND h.hottest + 0.25)
        AND CASE
            WHEN NOT c.tree THEN p.algorithm = 'DFLASH' AND coalesce(c.draft_tokens, p.block) >= p.block
            WHEN p.algorithm = 'DFLASH' THEN c.budget >= p.block - 1 AND c.budget < $full_budget  -- a tree holds the chain
            ELSE coalesce(p.budget, $full_budget) <= c.budget
        END
),
chosen AS (  -- the text's own figures, where it is known
    SELECT run, bool_or(named) AS named, string_agg(DISTINCT dataset, ', ' ORDER BY dataset) FILTER (named) AS dataset,
        coalesce(min(commit_len) FILTER (named), min(commit_len)) AS lowest, coalesce(max(commit_len) FILTER (named), max(commit_len)) AS highest,
        coalesce(arg_min({'source': source, 'dataset': dataset, 'temperature': temperature}, commit_len) FILTER (named), arg_min({'source': source, 'dataset': dataset, 'temperature': temperature}, commit_len)) AS least_of,
        any_value(target) AS target
    FROM applying GROUP BY run
)
SELECT
    c.run,
    format('commit length is {:.2f}; published for {} with such a drafter {}: {:.2f} to {:.2f}, so it is {:.0f} % below the lowest ({}, {} at temperature {:.0f}); other prompts, template, language or thinking can be all there is to it',
        c.commit_len, h.target, CASE WHEN h.named THEN 'on ' || h.dataset ELSE 'on any text' END, h.lowest, h.highest, 100 * (1 - c.commit_len / h.lowest),
        h.least_of.source, h.least_of.dataset, h.least_of.temperature) AS message,
    c.commit_len, h.lowest AS published_lowest, h.highest AS published_highest, h.dataset, h.least_of.source AS published_by, c.quantised,
    list_filter([CASE WHEN NOT h.named THEN 'text' END, CASE WHEN c.run IN (SELECT run FROM heat WHERE hottest > 0.3) THEN 'sampling' END], lambda one: one IS NOT NULL) AS causes,
    c.lines[:4] AS lines
FROM candidate c JOIN chosen h USING (run)
WHERE c.commit_len < (1 - $margin) * h.lowest - sure($errors) * c.error
