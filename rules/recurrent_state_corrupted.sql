-- title    = "A hybrid target's recurrent state goes wrong under speculation"
-- severity = "critical"
-- family   = "output"
-- needs    = { checked = ["line"], request = [], benchmark = [], baseline = ["against"], run = [], event = [], decode = [] }
-- enough   = { checked = 5, baseline = 1 }
-- applies  = "speculates AND served AND run IN (SELECT run FROM event WHERE kind IN ('hybrid', 'state_cache') UNION SELECT run FROM decode WHERE state_usage IS NOT NULL OR state_slots IS NOT NULL)"
-- enable   = "ask the same prompts, greedy, with speculation and without, and keep the answers' texts: throughput and acceptance prove nothing here"
-- why      = "Layers with a recurrent state cannot take back a refused draft: the state after the last accepted token must be kept and put back. A wrong one leaves text that starts well and drifts, and acceptance looks healthy all the while."
-- fix      = [
--   "Repeat the same prompts with the prefix cache off, then with another state mode (vLLM --mamba-cache-mode, SGLang --mamba-scheduler-strategy): the first that agrees with the baseline names the culprit.",
--   "With drafts that can be missing in a step (n-gram), try a drafter that always drafts: steps without drafts between steps with drafts read a stale state.",
--   "Update, and never accept a hybrid set-up on its throughput alone.",
-- ]
-- formula  = "share of answers to the same prompts that loop or run to their length limit: with speculation less without >= 0.2, three standard errors apart; or the accuracy of an evaluation, lower by >= 0.05 and three standard errors"
-- sides    = { "answers that loop" = "looping_answers", "without speculation" = "baseline_looping_answers" }
-- unlike   = [
--   "Sampling noise and near ties: single answers that fork late and go on sensibly.",
--   "A target that loops as often without speculation.",
--   "An evaluation of few questions, or one that is lower by what chance allows.",
--   "A target without recurrent layers (output_garbled).",
-- ]
-- causes   = [
--   { name = "cache", cause = "a prefix-cache hit resumes from a state of another position", test = "the same prompts with the prefix cache off: answers as without speculation" },
--   { name = "rollback", cause = "the state after a refused draft is kept, or another row's is promoted", test = "one draft token a step, one flag: the drift is gone or rare" },
--   { name = "no_draft_step", cause = "a step without drafts reads the state of the wrong slot", test = "a drafter that drafts in every step: no drift" },
-- ]
-- reports  = ["vllm-project/vllm#39273", "vllm-project/vllm#43559", "vllm-project/vllm#52942"]
-- explains = ["output_garbled", "acceptance_too_perfect"]
-- params   = { loop = 0.6, answers = 5, bad = 3, excess = 0.2, errors = 3.0, lower = 0.05, questions = 200.0 }

WITH answer AS (
    SELECT run, source, line, prompt, finish, cached_tokens, prompt_tokens,
        coalesce(repetition(text) >= $loop OR (length(text) >= 30 AND len(list_distinct(string_split(text, ''))) <= 2), false) AS looping,
        coalesce(finish = 'length', false) AS cut, coalesce(temperature, 0) = 0 AS greedy, text, repetition(text) AS repetition
    FROM request WHERE text IS NOT NULL
),
-- The same prompts, where both runs show theirs; else runs of as many answers.
paired AS (
    SELECT p.run, p.against, a.* EXCLUDE (run), a.run = p.run AS mine
    FROM baseline p JOIN answer a ON a.run IN (p.run, p.against)
    WHERE a.prompt IS NULL OR EXISTS (FROM answer o WHERE o.prompt = a.prompt AND o.run = CASE WHEN a.run = p.run THEN p.against ELSE p.run END)
),
summed AS (
    SELECT run, against, count(*) FILTER (mine) AS answers, count(*) FILTER (NOT mine) AS plain_answers,
        count(*) FILTER (mine AND looping) AS loops, count(*) FILTER (NOT mine AND looping) AS plain_loops,
        count(*) FILTER (mine AND cut) AS cut, count(*) FILTER (NOT mine AND cut) AS plain_cut,
        count(*) FILTER (mine AND looping AND cached_tokens > 0) AS cached_loops,
        coalesce(arg_max(cite(source, line), repetition, 2) FILTER (mine AND looping), arg_min(cite(source, line), line, 2) FILTER (mine
            AND cut)) AS lines,
        arg_min(cite(source, line), line) FILTER (NOT mine AND NOT looping AND NOT cut) AS plain_place
    FROM paired GROUP BY run, against
    HAVING count(*) FILTER (mine) >= $answers AND count(*) FILTER (NOT mine) >= $answers
        AND abs(count(*) FILTER (mine) - count(*) FILTER (NOT mine)) <= 0.5 * count(*) FILTER (NOT mine)
),
judged AS (
    SELECT *, loops / answers - plain_loops / plain_answers AS loop_excess, cut / answers - plain_cut / plain_answers AS cut_excess,
        sqrt(greatest(plain_loops / plain_answers, 1 / plain_answers) * (1 / answers + 1 / plain_answers)) AS loop_error,
        sqrt(greatest(plain_cut / plain_answers * (1 - plain_cut / plain_answers), 1 / plain_answers) * (1 / answers + 1 / plain_answers)) AS cut_error
    FROM summed
),
-- An evaluation on both sides. SGLang's asks 200 questions unless told otherwise.
evaluated AS (
    SELECT run, max(accuracy) AS accuracy, arg_max(cite(source, line), accuracy) AS place,
        arg_max(coalesce(accuracy_error, sqrt(greatest(accuracy * (1 - accuracy), 0.01) / coalesce(completed, $questions))), accuracy) AS error
    FROM benchmark WHERE accuracy BETWEEN 0 AND 1 GROUP BY run
),
worse AS (
    SELECT p.run, p.against, e.accuracy, o.accuracy AS plain_accuracy, e.place, o.place AS plain_place
    FROM baseline p JOIN evaluated e ON e.run = p.run JOIN evaluated o ON o.run = p.against
    WHERE o.accuracy - e.accuracy >= $lower AND o.accuracy - e.accuracy > sure($errors) * sqrt(e.error ** 2 + o.error ** 2)
    QUALIFY row_number() OVER (PARTITION BY p.run ORDER BY o.accuracy, p.against) = 1
),
found AS (
    SELECT
        j.run, j.against,
        format('{} of {} answers loop and {} run to their length limit, without speculation {} and {} of {}: the target has recurrent layers{}', loops,
            answers, cut, plain_loops, plain_cut, plain_answers,
            CASE WHEN r.accept_len > 1 THEN format(', and the commit length of {:.2f} shows nothing of it', r.accept_len) ELSE '' END) AS message,
        answers, loops AS looping_answers, cut AS cut_answers, plain_loops AS baseline_looping_answers, plain_cut AS baseline_cut_answers,
            r.accept_len AS commit_len,
        CASE WHEN cached_loops >= 0.8 * loops AND loops > 0 THEN ['cache'] WHEN copies(r.algorithm) THEN ['no_draft_step']
            ELSE ['rollback'] END AS causes,
        list_concat(j.lines, CASE WHEN plain_place IS NULL THEN [] ELSE [plain_place] END) AS lines
    FROM judged j JOIN run r USING (run)
    WHERE (loops >= $bad AND loop_excess >= $excess AND loop_excess > sure($errors) * loop_error)
        OR (loops >= 1 AND cut >= $bad AND cut_excess >= 1.5 * $excess AND cut_excess > sure($errors) * cut_error)
    QUALIFY row_number() OVER (PARTITION BY j.run ORDER BY loop_excess DESC, j.against) = 1
)
SELECT *, NULL::DOUBLE AS accuracy, NULL::DOUBLE AS baseline_accuracy FROM found
UNION ALL BY NAME
SELECT w.run, w.against,
    format('an evaluation is right in {:.1f} % of its answers, without speculation in {:.1f} %: the target has recurrent layers{}', 100 * accuracy, 100 * plain_accuracy,
        CASE WHEN r.accept_len > 1 THEN format(', and the commit length of {:.2f} shows nothing of it', r.accept_len) ELSE '' END) AS message,
    r.accept_len AS commit_len, accuracy, plain_accuracy AS baseline_accuracy, ['rollback'] AS causes, [place, plain_place] AS lines
FROM worse w JOIN run r USING (run)
WHERE run NOT IN (SELECT run FROM found)
