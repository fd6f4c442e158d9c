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

-- A time that grows by its first value in each step, and not with the context, is a clock that runs since
-- the request began.
UPDATE step SET step_ms = t.taken
FROM (
    SELECT source, number, step_ms - lag(step_ms) OVER (PARTITION BY run, request ORDER BY step) AS taken
    FROM step WHERE run IN (
        SELECT run FROM (
            SELECT run, bool_and(corr(step, step_ms) > 0.99 AND max(step_ms) > 0.5 * count(*) * min(step_ms) AND coalesce(max(step_ms) / min(step_ms) > 3 * max(ctx_len) / min(ctx_len), true)) OVER (PARTITION BY run) AS clock
            FROM step WHERE step_ms > 0 AND request IS NOT NULL AND warmup IS NOT TRUE GROUP BY run, request
            HAVING count(*) >= 10 AND count(*) = max(step) - min(step) + 1
        ) WHERE clock)
) t
WHERE t.source = step.source AND t.number = step.number;

-- Written anew: a column is read more slowly where it was changed.
ALTER TABLE step ALTER run TYPE VARCHAR USING run;
ALTER TABLE step ALTER last TYPE BOOLEAN USING last;
DROP VIEW raw.step;
ALTER TABLE step DROP number;
ALTER TABLE step DROP life;
ALTER TABLE step DROP arm;
