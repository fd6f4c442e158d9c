-- title    = "Acceptance is too good to be true"
-- severity = "critical"
-- family   = "acceptance"
-- needs    = { run = ["served"], acceptance = [], decode = [], request = [], event = [], problem = [], config = [], baseline = [] }
-- applies  = "speculates AND served AND run IN (SELECT run FROM decode WHERE accept_len IS NOT NULL UNION SELECT run FROM acceptance UNION SELECT run FROM request WHERE verify_steps > 0)"
-- why      = "No drafter knows all of a text. Where every draft of nearly every step is accepted, either the text is one that any drafter predicts (a loop, one sign, nothing), or the comparison that should refuse drafts is broken."
-- fix      = [
--   "Read one answer of these windows: a loop or a row of exclamation marks explains the record throughput.",
--   "Look for a NaN message before them: comparisons with NaN accept or refuse everything.",
--   "Leave such a run out of every comparison of speed.",
-- ]
-- formula  = "C >= 0.97 (k + 1) with k >= 3 drafts a step, in 80 % of the windows and over 200 steps; in fewer windows where the answers or a NaN bear it out"
-- sides    = { "commit length" = "commit_len", "highest that is possible" = "highest_commit_len" }
-- unlike   = [
--   "Copying with n-gram drafts: high, but varying, and its answers do not loop.",
--   "Answers that copy their prompts, as asked for.",
--   "One or two drafts a step: a ceiling there is common.",
--   "Warm-up and test requests with a handful of tokens.",
--   "A simulated acceptance, which is a setting (acceptance_low_on_purpose).",
--   "A target that produces the same loops without speculation.",
-- ]
-- causes   = [
--   { name = "degenerate_text", cause = "the answers repeat themselves, so that any drafter predicts them", test = "one of the prompts without speculation, greedy: other text there, so speculation breaks it" },
--   { name = "nan", cause = "logits are not numbers, and every comparison comes out the same way", test = "--enable-nan-detection (vLLM VLLM_COMPUTE_NANS_IN_LOGITS=1): it names the step" },
--   { name = "prompts", cause = "the prompts ask for copies or repetitions", test = "ten prompts of ordinary prose: the commit length falls below its ceiling" },
--   { name = "gate", cause = "the drafter proposes only what it is sure of", test = "half the confidence threshold, one flag: more drafts, a longer commit" },
-- ]
-- reports  = ["vllm-project/vllm#44487", "ggml-org/llama.cpp#3919"]
-- params   = { ceiling = 0.97, drafts = 50, steps = 200.0, windows = 5, share = 0.8, loop = 0.6, rate = 0.97, gate = 0.1, quote = 100, pinned = 10, whole = 0.99 }

WITH simulated AS (
    SELECT run FROM event WHERE kind = 'simulated'
    UNION SELECT run FROM config WHERE key = 'load_format' AND value ILIKE 'dummy'
    UNION SELECT run FROM config WHERE key ILIKE '%simulate%acc%' AND value NOT IN ('None', '0', '-1', 'False', '')
),
-- k: how many drafts a step can accept.
depth AS (
    SELECT run, CASE WHEN tree THEN draft_steps ELSE draft_tokens - 1 END AS k, coalesce(log_interval, 40) AS log_interval,
        copies(algorithm) AS copies
    FROM run
),
report AS NOT MATERIALIZED (
    SELECT a.run, 'counter line' AS kind, a.source, a.line, coalesce(len(a.positions), d.k) AS k,
        a.drafted_tokens / coalesce(len(a.positions), d.k) AS steps, coalesce(a.commit_len, 1 + coalesce(len(a.positions),
            d.k) * a.accepted_tokens / a.drafted_tokens) AS commit_len
    FROM acceptance a JOIN depth d USING (run) WHERE a.drafted_tokens >= $drafts AND a.accept_rate IS NOT NULL
    UNION ALL
    SELECT e.run, 'decode line', e.source, e.line, d.k, e.running * d.log_interval, e.accept_len
    FROM decode e JOIN depth d USING (run) WHERE e.usable AND e.accept_len IS NOT NULL
    UNION ALL
    SELECT q.run, 'request', q.source, q.line, coalesce(round(q.proposed_drafts / q.verify_steps), d.k), q.verify_steps,
        coalesce(1 + q.correct_drafts / q.verify_steps, q.commit_len)
    FROM request q JOIN depth d USING (run) JOIN run r USING (run) WHERE q.verify_steps >= 10 AND NOT r.tree
),
judged AS (
    SELECT r.*, commit_len >= $ceiling * (k + 1) AS perfect
    FROM report r JOIN (
        SELECT run, kind FROM report WHERE commit_len >= $ceiling * (k + 1) AND k >= 3 AND run NOT IN (FROM simulated)
        GROUP BY run, kind HAVING count(*) >= $windows AND sum(steps) >= $steps
    ) USING (run, kind) WHERE k >= 3
),
summed AS (
    SELECT run, kind, count(*) AS windows, count(*) FILTER (perfect) AS perfect, sum(steps) FILTER (perfect) AS steps, mode(k) AS k,
        avg(commit_len) FILTER (perfect) AS commit_len, min(line) FILTER (perfect) AS first_line, arg_min(source, line) FILTER (perfect) AS source,
        arg_min(cite(source, line), line, 3) FILTER (perfect) AS lines
    FROM judged GROUP BY run, kind
),
-- What the answers say: loops, and the same answer to different prompts.
answer AS (
    SELECT run, count(*) AS answers, count(*) FILTER (repetition(text) >= $loop OR (length(text) >= 30 AND len(list_distinct(string_split(text,
        ''))) <= 2)) AS loops,
        count(*) FILTER (len(list_distinct(string_split(text, ''))) <= 2) AS signs,
        count(*) FILTER (contains(prompt, text[:$quote])) AS quotes,
        count(DISTINCT text) AS texts, count(DISTINCT coalesce(prompt, prompt_tokens::VARCHAR)) AS prompts,
        arg_max(cite(source, line), coalesce(repetition(text), 0)) AS place
    FROM request WHERE length(text) >= 30 GROUP BY run
),
finished AS (
    SELECT run, count(*) AS requests, count(*) FILTER (finish = 'length') AS cut FROM request WHERE finish IS NOT NULL GROUP BY run
),
nan AS (
    SELECT run, source, min(line) AS line FROM (
        SELECT run, source, line FROM event WHERE kind = 'nan'
        UNION ALL SELECT run, source, line FROM problem WHERE regexp_matches(message,
            '(?i)\bnans?\b.*\b(?:logit|prob|sampl)|\b(?:logit|prob|sampl)\w*.*\bnans?\b')
    ) GROUP BY run, source
),
plain AS (  -- the target's own loops
    SELECT b.run, max(a.loops / a.answers) AS loops FROM baseline b JOIN answer a ON a.run = b.against WHERE a.answers >= 3 GROUP BY b.run
),
witness AS (
    SELECT s.*, d.copies, a.answers, a.loops, a.texts, a.prompts, f.requests, f.cut, n.line AS nan_line,
        -- a loop may be the target's own, one sign without end is nobody's answer
        coalesce(a.loops >= 3 AND (a.loops >= 0.5 * a.answers OR a.signs >= 3), false) AS looping,
        coalesce(a.answers >= 5 AND a.texts <= 2 AND a.prompts >= 3, false) AS identical,
        coalesce(n.line < s.first_line, false) AS after_nan,
        coalesce(a.quotes >= 0.5 * a.answers, false) AS quoting,
        coalesce(p.loops >= 0.5 * a.loops / a.answers AND a.loops > 0, false) AS loops_anyway,
        list_concat(s.lines, CASE WHEN n.line IS NOT NULL THEN [cite(n.source, n.line)] WHEN a.loops > 0 THEN [a.place] ELSE [] END) AS proof
    FROM summed s JOIN depth d USING (run)
    LEFT JOIN answer a USING (run) LEFT JOIN finished f USING (run) LEFT JOIN plain p USING (run)
    LEFT JOIN nan n ON n.run = s.run AND n.source = s.source
),
found AS (
    SELECT run,
        format('{} of {} {}s commit {:.2f} of at most {:.0f} tokens a step{}{}{}', perfect, windows, kind, commit_len, k + 1,
            CASE WHEN after_nan THEN format(', after a NaN message (line {})', nan_line) ELSE '' END,
            CASE WHEN looping THEN format('; {} of {} answers repeat themselves', loops, answers)
                 WHEN identical THEN format('; {} different prompts have {} different answers', prompts, texts) ELSE '' END,
            CASE WHEN cut >= 0.8 * requests AND requests >= 5 THEN format('; {} of {} answers end by length', cut, requests) ELSE '' END) AS message,
        -- no ordinary text leaves a drafter right to the last of several drafts in window after window
        CASE WHEN after_nan OR looping OR identical OR (perfect = windows AND windows >= $pinned AND commit_len >= $whole * (k + 1)) THEN 'critical'
            WHEN cut >= 0.8 * requests AND requests >= 5 THEN 'high' ELSE 'medium' END AS severity,
        commit_len, k + 1 AS highest_commit_len, k AS drafts_a_step, perfect AS windows_at_ceiling, windows, steps, loops AS looping_answers, answers, cut AS cut_answers,
        CASE WHEN after_nan THEN ['nan'] WHEN looping OR identical THEN ['degenerate_text'] ELSE [] END AS causes,
        proof AS lines, 0 AS nth
    FROM witness
    WHERE NOT loops_anyway AND (after_nan OR looping OR identical OR (perfect >= $share * windows AND NOT copies AND NOT quoting))
    UNION ALL BY NAME
    -- A gate so strict that hardly anything is drafted looks perfect, too, and is worth nothing.
    SELECT a.run,
        format('{:.0f} % of the drafts are accepted, but only {:,} were made for {:,} tokens: the drafter proposes next to nothing',
            100 * a.accepted / a.drafted, a.drafted, q.tokens) AS message,
        'low' AS severity, ['gate'] AS causes, a.lines, 1 AS nth
    FROM (SELECT run, sum(accepted_tokens) AS accepted, sum(drafted_tokens)::BIGINT AS drafted, arg_min(cite(source, line), line, 4) AS lines
          FROM acceptance WHERE accept_rate IS NOT NULL GROUP BY run) a
    JOIN (SELECT run, sum(completion_tokens)::BIGINT AS tokens FROM request GROUP BY run) q USING (run)
    WHERE a.drafted >= $drafts AND a.accepted >= $rate * a.drafted AND a.drafted <= $gate * q.tokens
)
SELECT run, message, severity, commit_len, highest_commit_len, drafts_a_step, windows_at_ceiling, windows, steps, looping_answers, answers, cut_answers, causes, lines
FROM found QUALIFY row_number() OVER (PARTITION BY run ORDER BY nth, windows_at_ceiling DESC) = 1
