-- Requests.

-- The first token comes from prefill, not from a step. Where steps are not counted, each has made one
-- token that was no draft; a server that drafts now and then has other steps as well, and they would
-- hide what its drafts are worth. llama.cpp says of a request what was accepted in a line behind it, and
-- behind that, in totals, how long its drafts are. Where nothing says how long, one may have 64 tokens:
-- then few drafts look like one in each step, and only what is accepted says that it is not so. Where
-- drafts are counted and leave no other step, they are all steps; the last may be cut.
-- OpenAI-style answers have their text in the first of several choices, read here as JSON.
INSERT INTO request BY NAME
WITH told AS (FROM raw.acceptance WHERE requests = 1 AND commit_len IS NULL AND accepted_tokens IS NOT NULL),
behind AS (
    SELECT r.source, r.line, t.accepted_tokens, t.drafted_tokens
    FROM told t ASOF JOIN raw.request r ON r.source = t.source AND r.line < t.line
    QUALIFY row_number() OVER (PARTITION BY r.source, r.line ORDER BY t.line) = 1
),
totals AS (FROM raw.acceptance WHERE requests IS NULL AND commit_len IS NULL AND steps > 0 AND drafted_tokens > 0),
long AS (
    SELECT r.source, r.line, sum(t.drafted_tokens) / sum(t.steps) AS draft_len
    FROM totals t ASOF JOIN raw.request r ON r.source = t.source AND r.line < t.line GROUP BY r.source, r.line
),
-- Who counts steps without speculation as well says nothing of drafts where each makes one token.
plain AS (
    SELECT source, life, coalesce(arm, '') AS arm FROM raw.request WHERE one_is_none
    GROUP BY ALL HAVING sum(verify_steps) >= 0.995 * sum(completion_tokens - 1)
),
counted AS (
    SELECT r.* REPLACE (CASE WHEN n.source IS NULL THEN verify_steps END AS verify_steps, coalesce(correct_drafts, accepted_tokens) AS correct_drafts, coalesce(proposed_drafts, drafted_tokens) AS proposed_drafts),
        completion_tokens - 1 - coalesce(correct_drafts, accepted_tokens) AS plain_steps,
        coalesce(drafts, CASE WHEN draft_len > 0 AND coalesce(proposed_drafts, drafted_tokens) > 0
            THEN least(greatest(coalesce(proposed_drafts, drafted_tokens) / draft_len, 1), plain_steps) END) AS told_drafts
    FROM raw.request r LEFT JOIN behind b ON b.source = r.source AND b.line = r.line
    LEFT JOIN long l ON l.source = r.source AND l.line = r.line
    LEFT JOIN plain n ON n.source = r.source AND n.life = r.life AND n.arm = coalesce(r.arm, '')
)
SELECT p.run, r.* EXCLUDE (number, life, arm, plain_steps, told_drafts)
REPLACE (
    CASE WHEN r.verify_steps > 0 AND r.completion_tokens > 0 THEN (r.completion_tokens - 1) / r.verify_steps
         WHEN r.verify_steps IS NULL AND r.told_drafts > 0 THEN 1 + r.correct_drafts / r.told_drafts
         WHEN r.verify_steps IS NULL AND r.plain_steps > 0 AND r.proposed_drafts >= r.plain_steps
             AND (r.correct_drafts >= 0.25 * r.plain_steps OR 64 * r.correct_drafts <= 0.25 * r.proposed_drafts) THEN (r.completion_tokens - 1) / r.plain_steps
    END AS commit_len,
    CASE WHEN r.verify_steps IS NULL THEN r.told_drafts END AS drafts,
    coalesce(r.verify_steps, CASE WHEN r.drafts > 0 AND r.plain_steps BETWEEN r.drafts - coalesce(r.proposed_drafts / r.drafts, 1) - 1 AND 1 + 1.02 * r.drafts THEN r.drafts END) AS verify_steps,
    CASE WHEN length(r.prompt) > 500 THEN r.prompt[:400] || ' ' || md5(r.prompt) ELSE r.prompt END AS prompt,
    CASE WHEN r.text LIKE '[{%' AND json_exists(TRY_CAST(r.text AS JSON), '$[0].index')
         THEN coalesce(json_extract_string(r.text, '$[0].message.content'), json_extract_string(r.text, '$[0].text')) ELSE r.text END[:8000] AS text
)
FROM counted r JOIN part p ON p.source = r.source AND p.life = r.life AND p.arm = coalesce(r.arm, '');

-- What stands in these totals, the requests have said.
DELETE FROM acceptance WHERE requests IS NULL AND commit_len IS NULL AND steps > 0
    AND source IN (SELECT source FROM raw.acceptance WHERE requests = 1 AND accepted_tokens IS NOT NULL);
