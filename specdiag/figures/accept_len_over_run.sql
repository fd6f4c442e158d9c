-- title = "Accept length over the run"
-- tells = "The mean accept length of each stretch of a run, with its 95 % interval. A run that starts well and falls has changed on the way: other text, other load, or a state that went bad."
-- place = 15
-- draw = "line"
-- x = { title = "share of the run, %" }
-- y = { title = "accept length, tokens a step" }
WITH untimed AS (
    SELECT run FROM run SEMI JOIN shown USING (run)
    WHERE speculates AND run NOT IN (SELECT DISTINCT run FROM commit_sample WHERE time IS NOT NULL AND run IN (FROM shown))
),
own AS MATERIALIZED (
    SELECT run, source, line, kind, commit_len FROM commit_sample WHERE kind IN ('step', 'acceptance', 'decode', 'request') AND run IN (FROM untimed)
),
kind AS (
    SELECT run, kind, count(*) AS rows FROM own GROUP BY run, kind HAVING count(*) >= 10
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY list_position(['step', 'acceptance', 'decode', 'request'], kind)) = 1
),
bundle AS (  -- neighbours of a long run, so that there are fewer rows to put in order
    SELECT s.run, s.source, s.line // greatest(k.rows // 2000, 1) AS place, any_value(k.rows) AS rows,
        count(*) AS n, sum(commit_len) AS tokens, sum(commit_len * commit_len) AS squares
    FROM own s JOIN kind k ON k.run = s.run AND k.kind = s.kind GROUP BY ALL
),
placed AS (
    SELECT *, (sum(n) OVER (PARTITION BY run ORDER BY source, place) - n / 2) / rows AS part FROM bundle
),
stretch AS (
    SELECT run, 100 * sum(n * part) / sum(n) AS x, sum(tokens) / sum(n) AS y,
        1.96 * sqrt(greatest(sum(squares) - sum(tokens) * y, 0) / nullif(sum(n) - 1, 0) / sum(n)) AS reach
    FROM placed GROUP BY run, floor(part * least(40, greatest(rows // 20, 4)))
)
SELECT run, x, y, y - reach AS low, y + reach AS high FROM stretch
UNION ALL
SELECT run, 50, accept_len, NULL, NULL FROM run ANTI JOIN shown USING (run) WHERE speculates AND accept_len IS NOT NULL AND started IS NULL
