-- identity = "commit"
-- needs = ["accepted", "checksums"]
-- follows = ["I1"]

-- Checksums over the bytes themselves: what was committed is what was computed for the accepted rows.

WITH summed AS (
    SELECT s.id, s.accepted, p.accepted AS accepted_before,
        TRY_CAST(s.checksums -> 'kv_node' AS BIGINT[]) AS kv_node, TRY_CAST(s.checksums -> 'kv_after' AS BIGINT[]) AS kv_after,
        TRY_CAST(s.checksums -> 'state_node' AS BIGINT[]) AS state_node, TRY_CAST(s.checksums -> 'state_after' AS BIGINT[]) AS state_after,
        TRY_CAST(s.checksums -> 'state_before' AS BIGINT[]) AS state_before, TRY_CAST(p.checksums -> 'state_after' AS BIGINT[]) AS state_left,
        TRY_CAST(s.checksums -> 'kv_before' AS BIGINT[]) AS kv_before, TRY_CAST(p.checksums -> 'kv_after' AS BIGINT[]) AS kv_left,
        TRY_CAST(s.checksums -> 'feature_in' AS BIGINT[]) AS feature_in, TRY_CAST(p.checksums -> 'feature_node' AS BIGINT[]) AS feature_node,
        s.context_source
    FROM traced s LEFT JOIN link l ON l.next = s.id LEFT JOIN traced p ON p.id = l.id
    WHERE s.checksums IS NOT NULL AND s.accepted IS NOT NULL
),
due AS (
    SELECT *, list_transform(accepted, lambda row: kv_node[row + 1]) AS kv, list_transform(accepted_before, lambda row: feature_node[row + 1]) AS features
    FROM summed
)
SELECT id, 'kv_after' AS field, NULL AS entry, kv::VARCHAR AS expected, kv_after::VARCHAR AS observed FROM due WHERE len(kv) = list_count(kv) AND kv_after <> kv
UNION ALL
SELECT id, 'state_after', NULL, state_node[accepted[-1] + 1]::VARCHAR, state_after[1]::VARCHAR FROM due WHERE state_after[1] <> state_node[accepted[-1] + 1]
UNION ALL
SELECT id, 'state_before', NULL, state_left[1]::VARCHAR, state_before[1]::VARCHAR FROM due WHERE state_before[1] <> state_left[1]
UNION ALL
SELECT id, 'feature_in', NULL, features::VARCHAR, feature_in::VARCHAR FROM due 
-- where other rows are named than the accepted ones, that is what is wrong; see draft_context.sql
WHERE len(features) = list_count(features) AND feature_in <> features AND coalesce(context_source = accepted_before, true) AND len(feature_in) = len(features)
UNION ALL
SELECT id, 'kv_before', NULL, kv_left::VARCHAR, kv_before::VARCHAR FROM due WHERE len(kv_before) = len(kv_left) AND kv_before <> kv_left
