-- Peers: a folder of a few files is an experiment, one of many a collection.

CREATE TEMP TABLE near AS
WITH place AS (
    SELECT DISTINCT p.run, s.path, regexp_replace(s.path, '[^/\\\\]*$', '') AS folder
    FROM part p JOIN source s USING (source)
),
small AS (SELECT folder FROM place GROUP BY folder HAVING count(DISTINCT path) <= 8)
SELECT DISTINCT a.run, b.run AS against
FROM place a JOIN place b ON a.run <> b.run
    AND (a.path = b.path OR (a.folder = b.folder AND a.folder IN (SELECT folder FROM small)));

INSERT INTO peer
WITH layout AS (
    SELECT run, string_agg(DISTINCT key || '=' || value, ' ' ORDER BY key || '=' || value) AS layout
    FROM config WHERE key IN ('tp_size', 'pp_size', 'quantization', 'dtype', 'kv_cache_dtype', 'device')
    GROUP BY run
)
SELECT a.run, b.run
FROM run a JOIN run b ON a.run <> b.run
LEFT JOIN layout la ON la.run = a.run
LEFT JOIN layout lb ON lb.run = b.run
LEFT JOIN near n ON n.run = a.run AND n.against = b.run
WHERE a.model IS NOT DISTINCT FROM b.model  -- where only one says its model, nothing is known
    AND (la.layout IS NULL OR lb.layout IS NULL OR la.layout = lb.layout)
    AND (n.run IS NOT NULL OR a.model = b.model)
UNION  -- and whatever the user compares with a run
SELECT r.run, s.run FROM run r, stated s WHERE r.run NOT IN (SELECT run FROM stated);
