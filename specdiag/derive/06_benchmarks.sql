-- Benchmarks.

-- Where nothing speculates, or nothing was drafted, clients write -1 or 0 for the accept length, some 1.
UPDATE benchmark SET
    accept_len = CASE
        WHEN accept_len > 0 AND NOT coalesce(draft_tokens = 0, false) AND NOT coalesce(one_is_none AND accept_len = 1 OR verify_steps = 0, false) THEN accept_len
        WHEN accept_len IS NULL AND draft_tokens > 0 THEN request_tokens_per_s * step_ms / 1000  -- how such a client made the rate
    END,
    algorithm = CASE WHEN draft_tokens = 0 THEN 'NONE' ELSE algorithm END,
    tokens_per_s = coalesce(tokens_per_s, request_tokens_per_s * max_concurrency),
    output_tokens = coalesce(output_tokens, round(duration_s * tokens_per_s)),
    step_ms = coalesce(step_ms, 1000 * step_s),
    mean_e2e_ms = coalesce(mean_e2e_ms, 1000 * mean_e2e_s), median_e2e_ms = coalesce(median_e2e_ms, 1000 * median_e2e_s);

-- Acceptance by position adds up to the drafts that a step accepts; some print it in percent, and of a
-- list that was cut nobody knows where.
UPDATE benchmark SET positions = CASE
        WHEN abs(list_sum(positions) + 1 - accept_len) <= 0.02 * accept_len THEN positions
        WHEN abs(list_sum(positions) / 100 + 1 - accept_len) <= 0.02 * accept_len THEN list_transform(positions, lambda one: one / 100)
    END
WHERE positions IS NOT NULL;

-- The answers that a benchmark client kept stand for requests where nothing else does.
INSERT INTO request BY NAME
SELECT run, source, line, time, (nth - 1)::VARCHAR AS request, prompt_lens[nth] AS prompt_tokens, answer_lens[nth] AS completion_tokens, texts[nth][:8000] AS text
FROM (SELECT *, unnest(range(1, len(texts) + 1)) AS nth FROM benchmark WHERE len(list_filter(texts, lambda one: one <> '')) > 0)
WHERE run NOT IN (SELECT DISTINCT run FROM request);
