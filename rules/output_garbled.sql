-- title    = "Answers are garbled or loop, and acceptance says that speculation has a part in it"
-- severity = "critical"
-- family   = "output"
-- needs    = { request = ["completion_tokens"], baseline = [], run = [], acceptance = [], decode = [] }
-- enough   = { request = 5 }
-- applies  = "speculates AND served AND run IN (SELECT DISTINCT run FROM request)"
-- why      = "Speculation must not change a single token of a greedy answer. Loops, one sign without end and empty answers that plain decoding of the same prompts does not give, or with acceptance at its floor or ceiling, come from a verification that goes wrong."
-- fix      = [
--   "Repeat one of the quoted prompts with speculation off, then with graphs off, then with the prefix cache off, in this order: the first that gives a sound answer is the culprit.",
--   "Throw away what this server answered since it started, and every speed that was measured on it.",
-- ]
-- formula  = "share of answers whose four-word windows stood before in 60 % or more (or that are empty), with speculation and without; A a step <= 0.05 or >= 0.95 k"
-- sides    = { "answers garbled" = "garbled_share", "without speculation" = "baseline_share" }
-- unlike   = [
--   "A target that loops without speculation too: its loops are as frequent in the baseline.",
--   "Loops at the ceiling without a baseline: any drafter predicts a loop, whoever made it (acceptance_too_perfect).",
--   "Tables, lists and code repeat themselves a little.",
--   "An answer of one token that was asked for, and empty answers after a client's stop string: only what the baseline does not have counts.",
-- ]
-- causes   = [
--   { name = "verify", cause = "verification accepts what the target did not choose, or commits the wrong rows", test = "the same prompt, greedy, without speculation: sound text" },
--   { name = "cache", cause = "a prefix-cache hit leaves target or drafter on a wrong state", test = "--disable-radix-cache (vLLM --no-enable-prefix-caching): sound text" },
--   { name = "graphs", cause = "a graph replays with stale buffers", test = "--disable-cuda-graph (vLLM --enforce-eager): sound text" },
--   { name = "model", cause = "the target loops by itself, which any drafter predicts", test = "the same prompt, greedy, without speculation: the same loop" },
-- ]
-- reports  = ["vllm-project/vllm#47087", "vllm-project/vllm#10559", "NVIDIA/TensorRT-LLM#11125"]
-- explains = ["acceptance_too_perfect", "acceptance_collapses_in_episodes", "prefix_cache_conflict", "stop_not_honoured"]
-- params   = { loop = 0.6, garbled = 3, share = 0.15, ratio = 0.25, errors = 3.0, floor = 1.05, ceiling = 0.95, drafts = 50, alone = 5 }

-- One row an answer: is it a loop, is it empty, and what was accepted while it was written?
WITH answer AS (
    SELECT q.run, q.source, q.line, q.request, q.prompt, q.finish, q.cached_tokens, q.prompt_tokens, repetition(q.text) AS repetition,
        coalesce(repetition(q.text) >= $loop OR (length(q.text) >= 30 AND len(list_distinct(string_split(q.text, ''))) <= 2), false) AS looping,
        coalesce(trim(q.text) = '' OR (q.text IS NULL AND q.completion_tokens <= 1), false) AS empty,
        CASE WHEN q.verify_steps >= 10 THEN coalesce(1 + q.correct_drafts / q.verify_steps, q.commit_len) END AS commit_len,
        coalesce(round(q.proposed_drafts / q.verify_steps), r.draft_tokens - 1) AS k
    FROM request q JOIN run r USING (run) WHERE q.completion_tokens IS NOT NULL OR q.text IS NOT NULL
),
-- Where requests count no drafts, the windows of the run do.
windows AS (
    SELECT run, avg((drafts <= $floor - 1)::INTEGER) AS at_floor, avg((drafts >= $ceiling * k)::INTEGER) AS at_ceiling, count(*) AS windows FROM (
        SELECT a.run, coalesce(len(a.positions), r.draft_tokens - 1) AS k, coalesce(len(a.positions),
            r.draft_tokens - 1) * a.accepted_tokens / a.drafted_tokens AS drafts
        FROM acceptance a JOIN run r USING (run) WHERE a.drafted_tokens >= $drafts
        UNION ALL
        SELECT d.run, r.draft_tokens - 1, d.accept_len - 1 FROM decode d JOIN run r USING (run) WHERE d.usable AND d.accept_len IS NOT NULL
    ) GROUP BY run
),
extreme AS (
    SELECT a.*, CASE WHEN commit_len <= $floor THEN 'floor' WHEN k >= 2 AND commit_len >= 1 + $ceiling * k THEN 'ceiling'
        WHEN commit_len IS NULL AND w.windows >= 5 AND w.at_floor >= 0.5 THEN 'floor'
        WHEN commit_len IS NULL AND w.windows >= 5 AND w.at_ceiling >= 0.5 THEN 'ceiling' END AS pinned
    FROM answer a LEFT JOIN windows w USING (run)
),
summed AS (
    SELECT run, count(*) AS answers, count(*) FILTER (looping) AS loops, count(*) FILTER (empty) AS empty, count(*) FILTER (looping OR empty) AS garbled,
        count(*) FILTER (looping AND finish = 'length') AS cut,
        count(*) FILTER (looping AND pinned = 'floor') AS at_floor, count(*) FILTER (looping AND pinned = 'ceiling') AS at_ceiling,
        count(*) FILTER (NOT looping AND NOT empty AND pinned IS NULL AND commit_len IS NOT NULL) AS sound,
        count(*) FILTER (cached_tokens > 0.3 * prompt_tokens) AS cached, count(*) FILTER (cached_tokens > 0.3 * prompt_tokens AND (looping
            OR empty)) AS cached_garbled,
        count(*) FILTER (cached_tokens <= 0.05 * prompt_tokens) AS cold, count(*) FILTER (cached_tokens <= 0.05 * prompt_tokens AND (looping
            OR empty)) AS cold_garbled,
        count(DISTINCT coalesce(prompt, line::VARCHAR)) FILTER (looping) AS prompts,
        arg_max(cite(source, line), CASE WHEN looping THEN 1 + coalesce(repetition, 1) WHEN empty THEN 1 END, 3) AS lines
    FROM extreme GROUP BY run
),
-- The baseline's answers, to the same prompts where both runs show theirs.
plain AS (
    SELECT p.run, p.against, count(*) AS answers, count(*) FILTER (a.looping OR a.empty) AS garbled
    FROM baseline p JOIN answer a ON a.run = p.against
    WHERE a.prompt IS NULL OR a.prompt IN (SELECT prompt FROM answer o WHERE o.run = p.run)
        OR NOT EXISTS (FROM answer o JOIN answer b ON b.prompt = o.prompt AND b.run = p.against WHERE o.run = p.run)
    GROUP BY p.run, p.against HAVING count(*) >= 5
),
compared AS (
    SELECT s.*, s.garbled / s.answers AS share, p.against, p.answers AS plain_answers, p.garbled / p.answers AS plain_share
    FROM summed s JOIN run r ON r.run = s.run AND r.speculates
    LEFT JOIN plain p ON p.run = s.run
    QUALIFY row_number() OVER (PARTITION BY s.run ORDER BY p.answers DESC NULLS LAST) = 1
),
judged AS (
    SELECT *, CASE
        WHEN against IS NOT NULL THEN CASE
            WHEN garbled >= $garbled AND share >= $share AND plain_share <= $ratio * share
                AND share - plain_share > sure($errors) * sqrt(greatest(plain_share, 1 / plain_answers) * (1 / answers + 1 / plain_answers)) THEN 'critical' END
        -- no draft of a loop is accepted, while other answers are sound and their drafts accepted
        WHEN at_floor >= $garbled AND sound >= $garbled THEN 'critical'
        WHEN cached >= $alone AND cold >= $alone AND cached_garbled >= 0.5 * cached AND cold_garbled <= 0.1 * cold THEN 'critical'
        WHEN at_floor >= $alone AND prompts >= $alone AND at_floor >= 0.5 * answers THEN 'medium'
    END AS severity
    FROM compared
)
SELECT
    run, against,
    format('{}{}{}{}{}',
        CASE WHEN loops > 0 THEN format('{} of {} answers repeat themselves', loops, answers) ELSE format('{} of {} answers are empty', empty,
            answers) END,
        CASE WHEN loops > 0 AND empty > 0 THEN format(' and {} are empty', empty) ELSE '' END,
        CASE WHEN cut > 0 THEN format(', {} of them to their length limit', cut) ELSE '' END,
        CASE WHEN against IS NOT NULL THEN format('; without speculation {:.0f} of {}', plain_share * plain_answers, plain_answers) ELSE '' END,
        CASE WHEN at_floor >= 1 AND at_floor >= at_ceiling THEN format('; no draft of {} of them was accepted', at_floor)
             WHEN at_ceiling >= 1 THEN format('; every draft of {} of them was accepted', at_ceiling) ELSE '' END
            || CASE WHEN cached >= $alone AND cold >= $alone AND cached_garbled >= 0.5 * cached AND cold_garbled <= 0.1 * cold
                    THEN format('; {} of {} with a cached prefix, {} of {} without', cached_garbled, cached, cold_garbled, cold) ELSE '' END) AS message,
    severity, answers, loops AS looping_answers, empty AS empty_answers, cut AS cut_answers, at_floor, at_ceiling, share AS garbled_share, plain_share AS baseline_share,
    CASE WHEN cached >= $alone AND cold >= $alone AND cached_garbled >= 0.5 * cached AND cold_garbled <= 0.1 * cold THEN ['cache']
         ELSE ['verify'] END AS causes,
    lines
FROM judged WHERE severity IS NOT NULL
