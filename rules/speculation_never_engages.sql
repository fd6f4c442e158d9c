-- title    = "A drafter is loaded and nothing is drafted"
-- severity = "high"
-- family   = "metrics"
-- needs    = { run = ["served"], decode = [], event = [], acceptance = [], request = [], config = [] }
-- why      = "A server that speculates reports acceptance with every decode line. A drafter in memory and not one such figure means that it only takes up space."
-- fix      = [
--   "Name the algorithm as well as the draft model (SGLang: --speculative-algorithm; vLLM: method in --speculative-config; llama.cpp: the speculative type).",
--   "Look for a start-up line that says why speculation was switched off.",
--   "Where drafts end after some requests: send the first one again. If it is drafted for, the text decides, else the state of the server.",
--   "Assert in every deployment test that the commit length is above 1.",
-- ]
-- formula  = "a drafter is loaded or asked for, requests are answered, and no line or record has a figure of acceptance"
-- sides    = { "lines without acceptance" = "serving_lines" }
-- unlike   = [
--   "A log level that hides the lines: other lines of the same level are there, or nothing is said.",
--   "Only very short answers: where a node prefills for others, all are of one token, which no draft makes.",
--   "A schedule that drafts nothing at the batch sizes that were served.",
--   "Text that repeats nothing, where drafts are looked up in it; drafts that are too short to be tried.",
-- ]
-- causes   = [
--   { name = "flag", cause = "the algorithm was not named beside the draft model", test = "the flag added: acceptance appears in the log" },
--   { name = "silent", cause = "the server switched speculation off for a reason of its own", test = "the start-up log searched for the draft's name" },
--   { name = "gate", cause = "a gate of confidence or of n-gram hits never opens", test = "predictable text, or the gate at zero" },
-- ]
-- reports  = ["ggml-org/llama.cpp#25345", "sgl-project/sglang#34285"]
-- params   = { lines = 5, tokens = 200, prompt = 100.0, requests = 10, undrafted = 1000, shortest = 4 }

WITH drafter AS (
    SELECT run, any_value(line) AS line, any_value(source) AS source, any_value(what) AS what FROM (
        SELECT run, source, line, CASE key WHEN 'num_speculative_tokens' THEN 'a drafter (num_speculative_tokens=' || value || ')' ELSE 'draft model ' || value END AS what FROM config
        WHERE key IN ('speculative_draft_model_path', 'speculative_model', 'num_speculative_tokens') AND value NOT IN ('None', '')
        UNION ALL
        SELECT run, source, line, 'algorithm ' || value FROM config
        WHERE key IN ('speculative_algorithm', 'method') AND value NOT IN ('None', 'NONE', '')
        UNION ALL
        SELECT run, source, line, coalesce('draft model ' || detail, 'a draft model') FROM event WHERE kind = 'weights' AND name ILIKE 'draft%'
        UNION ALL  -- llama.cpp says so to everybody: of interest where drafts were asked for
        SELECT e.run, e.source, e.line, 'algorithm ' || r.algorithm FROM event e JOIN run r USING (run) WHERE e.kind = 'speculation_off' AND r.algorithm <> 'NONE'
    ) GROUP BY run
),
accepting AS (
    SELECT run FROM decode WHERE accept_len IS NOT NULL
    UNION SELECT run FROM acceptance
    UNION SELECT run FROM request WHERE verify_steps > 0 OR accept_len > 0 OR proposed_drafts > 0
),
idle AS (
    SELECT run FROM drafter
    WHERE run NOT IN (FROM accepting) AND run NOT IN (SELECT run FROM config WHERE key LIKE '%kv_role' AND value = 'kv_producer')
),
-- From this batch size on nothing is drafted (vLLM: ranges of batch sizes with their drafts).
scheduled AS (
    SELECT run, min("from") AS "from" FROM (
        SELECT run, regexp_extract(unnest(regexp_extract_all(value, '[0-9]+, [0-9]+, 0\b')), '[0-9]+')::INTEGER AS "from"
        FROM config WHERE key LIKE '%num_speculative_tokens_per_batch_size'
        UNION ALL
        SELECT run, TRY_CAST(value AS INTEGER) FROM config WHERE key LIKE '%disable_by_batch_size'
    ) GROUP BY run
),
work AS (
    SELECT run, sum(lines) AS lines, sum(tokens) AS tokens, first_few(flatten(list(places))) AS places FROM (
        SELECT run, count(*) AS lines, 0 AS tokens, arg_min(cite(source, line), line, 4) AS places
        FROM decode LEFT JOIN scheduled s USING (run)
        -- A prompt's first token is no draft's: answers that short may have no other.
        WHERE usable AND run IN (FROM idle) AND NOT coalesce(tokens_per_s * $prompt < prompt_tokens_per_s, false) AND NOT coalesce(running >= s."from", false)
        GROUP BY run
        UNION ALL
        SELECT run, count(*), coalesce(sum(completion_tokens), 0), arg_min(cite(source, line), line, 4)
        -- `usage` alone never counts drafts, and an answer of one token comes from prefill
        FROM request WHERE completion_tokens > 1 AND (e2e_s IS NOT NULL OR tokens_per_s IS NOT NULL) GROUP BY run
    ) GROUP BY run
),
-- A server that drafted for its first requests and for none after them (llama.cpp says so by request).
drafted AS (
    SELECT run, source, max(line) AS line, count(*) AS requests FROM request WHERE proposed_drafts > 0 GROUP BY run, source
),
patient AS (
    SELECT run FROM event
    WHERE kind = 'arguments' AND TRY_CAST(regexp_extract(detail, '--(?:spec-)?draft-(?:n-)?min[ =]([0-9]+)', 1) AS INTEGER) > $shortest
),
ceased AS (
    SELECT d.run, d.requests, count(*) AS undrafted, sum(q.completion_tokens) AS tokens, list_concat([cite(d.source, d.line)], arg_min(cite(q.source, q.line), q.line, 3)) AS places
    FROM drafted d JOIN run r USING (run) JOIN request q ON q.run = d.run AND q.source = d.source AND q.line > d.line
    WHERE r.algorithm NOT LIKE '%NGRAM%' AND d.run IN (SELECT run FROM event WHERE kind = 'weights' AND name = 'draft') AND d.run IN (SELECT run FROM event WHERE kind = 'slot')
        AND d.run NOT IN (FROM patient) AND q.completion_tokens > 1
    GROUP BY d.run, d.source, d.line, d.requests HAVING count(*) >= $requests AND sum(q.completion_tokens) >= $undrafted
)
SELECT
    d.run,
    format('{} is there, but none of {} serving lines reports an acceptance{}', d.what, w.lines,
        coalesce((SELECT '; the server said at its start: ' || any_value(detail) FROM event e WHERE e.run = d.run AND e.kind = 'speculation_off'), '')) AS message,
    w.lines AS serving_lines, w.tokens AS tokens, list_concat([cite(d.source, d.line)], w.places)[:4] AS lines
FROM drafter d JOIN work w USING (run)
WHERE (w.lines >= $lines OR w.tokens >= $tokens) AND d.run IN (FROM idle)
UNION ALL
SELECT
    run,
    format('nothing was drafted for the last {} requests ({:,} tokens), after {} with drafts', undrafted, tokens::BIGINT, requests),
    undrafted, tokens, places[:4]
FROM ceased
