-- title = "Accept length over the run"
-- tells = "The mean accept length of each stretch of a run, with its 95 % interval. A run that starts well and falls has changed on the way: other text, other load, or a state that went bad."
-- place = 15
-- draw = "line"
-- x = { title = "share of the run, %" }
-- y = { title = "accept length, tokens a step" }
WITH untimed AS (SELECT run FROM run WHERE speculates AND run NOT IN (SELECT DISTINCT run FROM commit_sample WHERE time IS NOT NULL)),
kind AS (
    SELECT run, kind, count(*) AS rows FROM commit_sample WHERE kind IN ('step', 'acceptance', 'decode', 'request') AND run IN (FROM untimed) GROUP BY run, kind HAVING count(*) >= 10
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY list_position(['step', 'acceptance', 'decode', 'request'], kind)) = 1
),
placed AS (
    SELECT s.run, s.source, s.line, s.commit_len, k.rows, (row_number() OVER (PARTITION BY s.run ORDER BY s.source, s.line) - 0.5) / k.rows AS place
    FROM commit_sample s JOIN kind k ON k.run = s.run AND k.kind = s.kind
)
SELECT run, 100 * avg(place) AS x, avg(commit_len) AS y,
    y - 1.96 * stddev_samp(commit_len) / sqrt(count(*)) AS low, y + 1.96 * stddev_samp(commit_len) / sqrt(count(*)) AS high
FROM placed GROUP BY run, floor(place * least(40, greatest(rows // 20, 4)))
