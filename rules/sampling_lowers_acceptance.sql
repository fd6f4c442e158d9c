-- title    = "Sampled requests are accepted otherwise than greedy ones"
-- severity = "medium"
-- family   = "acceptance"
-- needs    = { request = ["temperature", "verify_steps"], comparable = [], difference = [], run = [], config = [], event = [] }
-- enough   = 10
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM request WHERE temperature > 0 AND verify_steps > 0) AND (run IN (SELECT DISTINCT run FROM request WHERE temperature = 0) OR run IN (SELECT c.run FROM comparable c JOIN request q ON q.run = c.against WHERE q.temperature = 0))"
-- enable   = "repeat the same prompts greedily (temperature 0), ten requests or more, and keep the response records"
-- why      = "A drafter proposes its best guess; a target that is sampled takes it as often as it would have drawn it, so acceptance falls with the temperature. Where it does not move at all, token for token, the sampled requests are decoded greedily: that is another text than was asked for."
-- formula  = "C of sampled against greedy requests of the same prompts (or lengths): 10 % and three standard errors lower; or tokens, steps and text equal in every one of five prompts or more at temperature 0.3 and above"
-- sides    = { "commit length, sampled" = "commit_len", "commit length, greedy" = "greedy_commit_len" }
-- unlike   = [
--   "The sampled requests have other prompts or longer answers: only the same are compared.",
--   "Top-k 1 or a tiny top-p, which makes a sampled request greedy by itself.",
--   "Text that leaves no choice (copying): a commit length near its ceiling is no evidence.",
-- ]
-- causes   = [
--   { name = "argmax_drafts", cause = "drafts are the drafter's best guess, and the target's draw must match exactly", test = "rejection sampling on (SGLang: --speculative-use-rejection-sampling; vLLM: the rejection sampler), if this version has it: acceptance rises" },
--   { name = "greedy_fallback", cause = "the sampling kernel is missing, or the path ignores temperature: verification takes the argmax", test = "ten answers to one prompt at temperature 1 without speculation and with: with, they are all the same" },
--   { name = "temperature", cause = "the target is less sure at this temperature: nothing is broken", test = "the same prompts at half the temperature: acceptance lies between" },
-- ]
-- fix      = [
--   "Quote acceptance and speed at the temperature of production, not at 0.",
--   "Use rejection sampling where it is offered; draft fewer tokens for sampled traffic.",
--   "Where sampled requests come out greedy: switch speculation off for them until that is repaired, they get another text than they ask for.",
-- ]
-- explains = ["slower_than_baseline"]
-- reports  = ["vllm-project/vllm#16899", "sgl-project/sglang#26312", "sgl-project/sglang#32922"]
-- params   = { drop = 0.1, errors = 3.0, requests = 10, steps = 200, prompts = 5, temperature = 0.3, ceiling = 0.75 }

WITH answer AS (
    SELECT run, source, line, temperature, temperature > 0 AS sampled, completion_tokens - 1 AS tokens, verify_steps AS steps, correct_drafts, text, prompt, prompt_tokens, completion_tokens
    FROM request
    WHERE temperature IS NOT NULL AND verify_steps > 0 AND completion_tokens > 16 AND (completion_tokens - 1) / verify_steps >= 1
        AND run NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive'))
),
-- The greedy requests of the same run, or of a run that differs in nothing that drafts.
pair AS (
    SELECT DISTINCT run, run AS against FROM answer
    UNION
    SELECT c.run, c.against FROM comparable c JOIN run a ON a.run = c.run JOIN run b ON b.run = c.against
    WHERE a.algorithm IS NOT DISTINCT FROM b.algorithm AND a.tree = b.tree AND a.draft_model IS NOT DISTINCT FROM b.draft_model AND a.draft_tokens IS NOT DISTINCT FROM b.draft_tokens
        AND a.budget IS NOT DISTINCT FROM b.budget
        AND NOT EXISTS (FROM difference d WHERE d.run = c.run AND d.against = c.against AND d.kind IN ('version', 'draft', 'quantisation', 'layout'))
),
-- Alike by prompt, by the exact length of the prompt, or roughly by both lengths: the first that has
-- enough is taken.
keyed AS (
    SELECT *, 1 AS system, prompt AS key FROM answer WHERE prompt IS NOT NULL
    UNION ALL
    SELECT *, 2, prompt_tokens::VARCHAR FROM answer WHERE prompt IS NULL AND prompt_tokens > 0
    UNION ALL
    SELECT *, 3, concat(round(log2(prompt_tokens)), ' ', round(log2(completion_tokens))) FROM answer WHERE prompt IS NULL AND prompt_tokens > 0
),
cell AS (
    SELECT run, sampled, system, key, count(*) AS requests, sum(tokens) AS tokens, sum(steps) AS steps, sum(tokens) / sum(steps) AS commit_len, avg(temperature) AS temperature,
        arg_min(cite(source, line), (source, line), 2) AS lines
    FROM keyed GROUP BY run, sampled, system, key
),
spread AS (  -- variance a step, from how far each request is from its cell
    SELECT k.run, k.sampled, k.system, sum((k.tokens - c.commit_len * k.steps) ** 2) / sum(k.steps) * count(*) / greatest(count(*) - count(DISTINCT k.key), 1) AS variance
    FROM keyed k JOIN cell c USING (run, sampled, system, key) GROUP BY k.run, k.sampled, k.system
),
total AS (SELECT run, sampled, system, sum(requests) AS requests FROM cell GROUP BY run, sampled, system),
matched AS (
    SELECT p.run, p.against, s.system, sum(s.requests) AS sampled, sum(g.requests) AS greedy, sum(s.steps) AS sampled_steps, sum(g.steps) AS greedy_steps,
        sum(s.tokens) / sum(s.requests) AS sampled_tokens, sum(g.tokens) / sum(g.requests) AS greedy_tokens,
        sum(least(s.steps, g.steps) * s.commit_len) / sum(least(s.steps, g.steps)) AS commit_len,
        sum(least(s.steps, g.steps) * g.commit_len) / sum(least(s.steps, g.steps)) AS greedy_len,
        -- where a cell has one request of a kind its own scatter is unknown: that of geometric lengths stands in
        sqrt(sum(least(s.steps, g.steps) ** 2 * (greatest(x.variance, s.commit_len * (s.commit_len - 1)) / s.steps + greatest(y.variance, g.commit_len * (g.commit_len - 1)) / g.steps)))
            / sum(least(s.steps, g.steps)) AS error,
        avg(s.temperature) AS temperature, list_concat(arg_max(s.lines, s.steps), arg_max(g.lines, s.steps)) AS lines,
        any_value(ts.requests) AS all_sampled, any_value(tg.requests) AS all_greedy
    FROM pair p
    JOIN cell s ON s.run = p.run AND s.sampled JOIN cell g ON g.run = p.against AND NOT g.sampled AND g.system = s.system AND g.key = s.key
    JOIN spread x ON x.run = s.run AND x.sampled AND x.system = s.system JOIN spread y ON y.run = g.run AND NOT y.sampled AND y.system = g.system
    JOIN total ts ON ts.run = s.run AND ts.sampled AND ts.system = s.system JOIN total tg ON tg.run = g.run AND NOT tg.sampled AND tg.system = g.system
    GROUP BY p.run, p.against, s.system
),
lower AS (
    SELECT * FROM matched
    WHERE least(sampled, greedy) >= $requests AND least(sampled_steps, greedy_steps) >= $steps
        AND (system <> 2 OR (sampled >= 0.8 * all_sampled AND greedy >= 0.8 * all_greedy))
        AND sampled_tokens <= 1.5 * greedy_tokens AND greedy_tokens <= 1.5 * sampled_tokens
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY system, run <> against, greedy DESC, against) = 1
),
-- A draw that is none: every sampled answer is the greedy one.
twin AS (
    SELECT p.run, p.against, k.system, k.key, k.steps, k.tokens, k.temperature, k.text IS NOT NULL AND bool_or(g.text IS NOT NULL) AS read, cite(k.source, k.line) AS place, any_value(cite(g.source, g.line)) AS other,
        bool_or(g.completion_tokens = k.completion_tokens AND g.steps = k.steps AND coalesce(g.correct_drafts = k.correct_drafts, true) AND coalesce(g.text = k.text, true)) AS same
    FROM pair p JOIN keyed k ON k.run = p.run AND k.sampled AND k.temperature >= $temperature AND k.system < 3 AND k.steps >= 16
    JOIN keyed g ON g.run = p.against AND NOT g.sampled AND g.system = k.system AND g.key = k.key
    GROUP BY p.run, p.against, k.system, k.key, k.steps, k.tokens, k.temperature, k.text, k.source, k.line
),
greedy AS (
    SELECT t.run, t.against, any_value(r.draft_tokens) AS width, count(*) AS requests, count(DISTINCT key) AS prompts, sum(steps) AS steps, sum(tokens) / sum(steps) AS commit_len, bool_and(read) AS read,
        min(temperature) AS coldest, max(temperature) AS hottest, list_concat(arg_min(place, key, 2), arg_min(other, key, 2)) AS lines
    FROM twin t JOIN run r ON r.run = t.run
    GROUP BY t.run, t.against
    HAVING bool_and(same) AND prompts >= $prompts AND sum(steps) >= $steps AND commit_len <= $ceiling * coalesce(width, 6)
    QUALIFY row_number() OVER (PARTITION BY t.run ORDER BY t.run <> t.against, prompts DESC, t.against) = 1
),
argmax AS (SELECT run, bool_or(lower(value) = 'false') AS off FROM config WHERE key ILIKE '%rejection_sampling%' GROUP BY run)
SELECT run, nullif(against, run) AS against,
    format('all {} sampled requests (temperature {:.1f} to {:.1f}) take exactly as many tokens and steps as the greedy ones of the same {} prompts{}: they are decoded greedily',
        requests, coldest, hottest, prompts, CASE WHEN read THEN ', word for word' ELSE '' END) AS message,
    'critical' AS severity, NULL AS impact, commit_len, commit_len AS greedy_commit_len, 0.0 AS error, requests AS sampled_requests, hottest AS temperature, ['greedy_fallback'] AS causes, lines
FROM greedy
UNION ALL BY NAME
SELECT l.run, nullif(l.against, l.run) AS against,
    format('commit length {:.2f} at a temperature of {:.2f}, {:.2f} greedy ({:.0f} % lower, {:.1f} standard errors; {} and {} requests {})',
        l.commit_len, l.temperature, l.greedy_len, 100 * (1 - l.commit_len / l.greedy_len), (l.greedy_len - l.commit_len) / l.error, l.sampled, l.greedy,
        CASE l.system WHEN 1 THEN 'of the same prompts' WHEN 2 THEN 'of prompts of the same lengths' ELSE 'of about the same lengths, perhaps other prompts' END) AS message,
    -- of other prompts it may be the text, unless many of both kinds came to one server and the gap is wide
    CASE WHEN l.system = 3 AND NOT (l.run = l.against AND l.commit_len < (1 - 2 * $drop) * l.greedy_len AND l.greedy_len - l.commit_len > 2 * sure($errors) * l.error) THEN 'low' END AS severity, 1 - l.commit_len / l.greedy_len AS impact,
    l.commit_len, l.greedy_len AS greedy_commit_len, l.error, l.sampled AS sampled_requests, l.temperature,
    CASE WHEN a.off THEN ['argmax_drafts'] ELSE [] END AS causes, l.lines[:4] AS lines
FROM lower l LEFT JOIN argmax a ON a.run = l.run
WHERE l.commit_len < (1 - $drop) * l.greedy_len AND l.greedy_len - l.commit_len > sure($errors) * l.error AND l.run NOT IN (SELECT run FROM greedy)
