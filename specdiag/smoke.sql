-- The signs of life of every run that speculates: lines and steps of the algorithm that was asked
-- for, and of others. `presets.py` says which of them a smoke test needs.

WITH asked AS (
    SELECT run, upper(algorithm) AS asked, shadow, algorithm ILIKE '%TREE%' AS tree FROM run
    WHERE speculates AND (server OR run IN (SELECT DISTINCT run FROM step))
),
hook AS (
    SELECT e.run, e.detail, upper(e.name) AS name,
        upper(e.name) = a.asked OR coalesce(a.tree AND e.name ILIKE '%tree%', false) AS own
    FROM event e JOIN asked a USING (run) WHERE e.kind = 'hook'
),
hooks AS (
    SELECT run, count(*) FILTER (detail = 'initialized' AND own) AS started,
        count(*) FILTER (detail = 'verify' AND own) AS verified,
        count(*) FILTER (detail = 'verify' AND NOT own) AS others,
        count(*) FILTER (detail = 'shadow-linear') AS shadowed,
        mode(name) FILTER (detail = 'verify' AND NOT own) AS other
    FROM hook GROUP BY run
),
traces AS (
    SELECT run, count(*) AS steps, count(*) FILTER (differs) AS others, mode(name) FILTER (differs) AS other
    FROM (
        SELECT run, upper(algorithm) AS name,
            coalesce(upper(algorithm) <> upper(algorithm_requested), false) AS differs
        FROM step WHERE NOT coalesce(warmup, false)
    ) GROUP BY run
),
counts AS (SELECT run, count(*) AS counted FROM acceptance WHERE tree_size IS NOT NULL OR accepted_depth IS NOT NULL GROUP BY run),
decoded AS (SELECT run, count(accept_len) AS accepts FROM decode GROUP BY run)
SELECT a.run, a.asked, a.shadow, coalesce(h.started, 0) AS started, coalesce(h.verified, 0) AS verified,
    coalesce(h.shadowed, 0) AS shadowed, coalesce(t.steps, 0) - coalesce(t.others, 0) AS traced,
    coalesce(h.others, 0) + coalesce(t.others, 0) AS others, coalesce(h.other, t.other) AS other,
    coalesce(c.counted, 0) AS counted, coalesce(d.accepts, 0) AS accepts
FROM asked a LEFT JOIN hooks h USING (run) LEFT JOIN traces t USING (run)
LEFT JOIN counts c USING (run) LEFT JOIN decoded d USING (run)
