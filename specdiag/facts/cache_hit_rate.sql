-- title      = "Prefix cache hits"
-- tells      = "Prompt tokens that were taken from the prefix cache / prompt tokens."
-- unit       = "share"
-- better     = "higher"
-- kinds      = ["request", "prefill"]
-- aggregates = ["pooled", "mean", "median", "min", "max", "last"]

SELECT run, 'request' AS kind, least(cached_tokens / prompt_tokens, 1) AS value, prompt_tokens AS weight, cite(source, line)::VARCHAR AS unit_id, source, line
FROM request WHERE prompt_tokens > 0
UNION ALL
SELECT run, 'prefill', cached_tokens / (new_tokens + cached_tokens), new_tokens + cached_tokens, NULL, source, line
FROM prefill WHERE complete AND new_tokens + cached_tokens > 0
