-- Requests.

-- The first token comes from prefill, not from a step. OpenAI-style answers have their text in the
-- first of several choices, read here as JSON.
INSERT INTO request BY NAME
SELECT p.run, r.* EXCLUDE (number, life, arm)
REPLACE (
    CASE WHEN r.verify_steps > 0 AND r.completion_tokens > 0
         THEN (r.completion_tokens - 1) / r.verify_steps END AS commit_len,
    CASE WHEN length(r.prompt) > 500 THEN r.prompt[:400] || ' ' || md5(r.prompt) ELSE r.prompt END AS prompt,
    CASE WHEN r.text LIKE '[{%' AND json_exists(TRY_CAST(r.text AS JSON), '$[0].index')
         THEN coalesce(json_extract_string(r.text, '$[0].message.content'), json_extract_string(r.text, '$[0].text')) ELSE r.text END[:8000] AS text
)
FROM raw.request r JOIN part p ON p.source = r.source AND p.life = r.life AND p.arm = coalesce(r.arm, '');
