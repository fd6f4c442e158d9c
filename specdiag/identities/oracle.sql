-- identity = "oracle"
-- needs = ["emitted", "oracle_tokens"]

-- What is emitted is what a plain pass chooses. A difference where its two best are closer than the
-- type's noise is a near tie; what comes after one in the same request proves nothing.

WITH noise(dtype, gap) AS (VALUES ('float64', 1e-6), ('float32', 0.001), ('float16', 0.05), ('bfloat16', 0.3)),
told AS (
    SELECT t.id, t.run, t.request, t.step, coalesce(n.gap, 0.3) AS near,
        unnest(range(least(len(emitted), len(oracle_tokens)))) AS entry, unnest(emitted[:len(oracle_tokens)]) AS token,
        unnest(oracle_tokens[:len(emitted)]) AS chosen, unnest(oracle_gaps[:len(emitted)]) AS gap
    FROM traced t LEFT JOIN noise n ON n.dtype = replace(t.dtype, 'torch.', '')
    WHERE t.oracle_tokens IS NOT NULL AND len(t.emitted) > 0
),
apart AS (
    SELECT *, bool_or(gap < near) OVER (PARTITION BY run, request ORDER BY step, entry ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS tied
    FROM told WHERE token <> chosen
)
SELECT id, 'emitted' AS field, entry, chosen AS expected, token AS observed FROM apart WHERE NOT coalesce(tied, false)
