-- Steps: which run they are of, and which one is the last of its request.

UPDATE step SET run = p.run FROM part p
WHERE p.source = step.source AND p.life = step.life AND p.arm = coalesce(step.arm, '');

UPDATE step SET last = true
WHERE number IN (
    SELECT arg_max(s.number, p.place * 1000000000000 + s.number)  -- not by lines: on one there may be many
    FROM step s JOIN part p ON p.source = s.source AND p.life = s.life AND p.arm = coalesce(s.arm, '')
    GROUP BY s.run, s.request
);

-- An accept length whose name says nothing of the bonus is known by its floor: no C is below 1. A share
-- of the drafts is no length at all.
UPDATE step SET commit_len = CASE WHEN f.share THEN NULL ELSE accept_len + 1 END
FROM (
    SELECT run, max(accept_len) <= 1 AND bool_or(accept_len <> floor(accept_len)) AS share
    FROM step WHERE accept_len IS NOT NULL AND warmup IS NOT TRUE GROUP BY run
    HAVING min(accept_len) < 1
) f
WHERE f.run = step.run AND commit_len = accept_len;

-- Written anew: a column is read more slowly where it was changed.
ALTER TABLE step ALTER run TYPE VARCHAR USING run;
ALTER TABLE step ALTER last TYPE BOOLEAN USING last;
DROP VIEW raw.step;
ALTER TABLE step DROP number;
ALTER TABLE step DROP life;
ALTER TABLE step DROP arm;
