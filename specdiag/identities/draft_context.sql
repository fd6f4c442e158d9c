-- identity = "I7"
-- needs = ["ctx_len", "draft_kv_before", "draft_kv_after"]

-- The drafter's cache holds the context and nothing else: what the last step committed is appended,
-- from its accepted rows, and blocks are dropped. A request begins with its prompt, or with what a
-- prefix cache left of it.

WITH beside AS (
    SELECT s.*, coalesce(own.first, false) AS first, p.accepted AS accepted_before, p.ctx_len AS start_before, r.cached_tokens
    FROM traced s
    LEFT JOIN link own ON own.id = s.id
    LEFT JOIN link l ON l.next = s.id
    LEFT JOIN traced p ON p.id = l.id
    LEFT JOIN (SELECT run, request, max(cached_tokens) AS cached_tokens FROM request WHERE request IS NOT NULL GROUP BY run, request) r
        ON r.run = s.run AND r.request = s.request
    WHERE s.draft_kv_after IS NOT NULL
)
SELECT id, 'draft_kv_after' AS field, NULL AS entry, ctx_len::VARCHAR AS expected, draft_kv_after::VARCHAR AS observed FROM beside WHERE draft_kv_after <> ctx_len
UNION ALL
SELECT id, 'draft_kv_before', NULL, start_before::VARCHAR, draft_kv_before::VARCHAR FROM beside WHERE draft_kv_before <> start_before
UNION ALL
SELECT id, 'draft_kv_before', NULL, coalesce(cached_tokens, 0)::VARCHAR, draft_kv_before::VARCHAR
FROM beside WHERE first AND draft_kv_before NOT IN (0, coalesce(cached_tokens, 0))
UNION ALL
SELECT id, 'context_rows', NULL, coalesce(len(accepted_before), ctx_len - draft_kv_before)::VARCHAR, context_rows::VARCHAR
FROM beside WHERE context_rows <> coalesce(len(accepted_before), ctx_len - draft_kv_before) AND NOT (first AND draft_kv_before NOT IN (0, coalesce(cached_tokens, 0)))
UNION ALL
SELECT id, 'context_start', NULL, (ctx_len - context_rows)::VARCHAR, context_start::VARCHAR FROM beside WHERE context_start <> ctx_len - context_rows
UNION ALL
SELECT id, 'context_source', NULL, accepted_before::VARCHAR, context_source::VARCHAR FROM beside WHERE context_source <> accepted_before
