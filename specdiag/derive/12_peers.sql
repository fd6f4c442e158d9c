-- Peers: a folder of a few files is an experiment, one of many a collection.

-- Every two of many runs are too many: of a server that starts again and again, a run is compared
-- with the four before and the four after it.
CREATE TEMP TABLE near AS
WITH place AS (
    SELECT p.run, s.path, regexp_replace(s.path, '[^/\\\\]*$', '') AS folder,
        row_number() OVER (PARTITION BY s.path ORDER BY min(p.life), p.run) AS nth, count(*) OVER (PARTITION BY s.path) <= 64 AS few
    FROM part p JOIN source s USING (source) GROUP BY p.run, s.path
),
small AS (SELECT folder FROM place GROUP BY folder HAVING count(DISTINCT path) <= 8 AND count(*) <= 64)
SELECT a.run, b.run AS against FROM place a JOIN place b ON b.path = a.path AND b.run <> a.run WHERE a.few
UNION
SELECT a.run, b.run FROM (SELECT *, unnest(range(-4, 5)) AS away FROM place WHERE NOT few) a
JOIN place b ON b.path = a.path AND b.nth = a.nth + a.away AND b.run <> a.run
UNION
SELECT a.run, b.run FROM place a JOIN place b ON b.folder = a.folder AND b.run <> a.run WHERE a.folder IN (SELECT folder FROM small);

-- And those of one model, wherever they lie.
CREATE TEMP TABLE alike AS
FROM near
UNION
SELECT a.run, b.run FROM run a JOIN run b ON b.model = a.model AND b.run <> a.run WHERE (SELECT count(*) <= 64 FROM run);

INSERT INTO peer
WITH layout AS (
    SELECT run, string_agg(DISTINCT key || '=' || value, ' ' ORDER BY key || '=' || value) AS layout
    FROM config WHERE key IN ('tp_size', 'pp_size', 'quantization', 'dtype', 'kv_cache_dtype', 'device')
    GROUP BY run
)
SELECT a.run, b.run
FROM alike JOIN run a USING (run) JOIN run b ON b.run = alike.against
LEFT JOIN layout la ON la.run = a.run
LEFT JOIN layout lb ON lb.run = b.run
WHERE a.model IS NOT DISTINCT FROM b.model  -- where only one says its model, nothing is known
    AND (la.layout IS NULL OR lb.layout IS NULL OR la.layout = lb.layout)
UNION  -- and whatever the user compares with a run
SELECT r.run, s.run FROM run r, stated s WHERE r.run NOT IN (SELECT run FROM stated);

DROP TABLE near;
