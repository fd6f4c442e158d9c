-- title    = "Two definitions of accept rate"
-- severity = "low"
-- family   = "metrics"
-- needs    = { run = ["rate_formula"], peer = [], decode = [] }
-- why      = "SGLang changed what it divides: up to 0.5.10 the bonus is counted (floor 1/N, never 0), from 0.5.11 only drafts (floor 0). The same behaviour prints two rates."
-- fix      = ["Compare the accept length, which no release changed, or convert: new rate = (L - 1) / (N - 1), old rate = L / N."]
-- formula  = "r = (L - 1) / (N - 1) fits one run, r = L / N the other"
-- sides    = { "accept rate" = "accept_rate", "accept rate of the other" = "other_accept_rate" }
-- unlike   = [
--   "Different widths N: the rate moves with N although nothing else does.",
-- ]
-- reports  = ["sgl-project/sglang#23530", "sgl-project/sglang#11572", "vllm-project/vllm#17908"]

WITH pair AS (
    SELECT p.run, p.against FROM peer p JOIN run a ON a.run = p.run JOIN run b ON b.run = p.against
    WHERE a.rate_formula IN ('commit_per_proposed', 'commit_per_step') AND b.rate_formula = 'drafts_per_proposed'
),
sample AS (
    SELECT run, arg_min(cite(source, line), line) AS place, median(accept_rate) AS accept_rate, median(accept_len) AS accept_len
    FROM decode WHERE usable AND accept_rate IS NOT NULL AND run IN (SELECT run FROM pair UNION SELECT against FROM pair) GROUP BY run
)
SELECT
    a.run, b.run AS against,
    format('its accept rate counts the bonus token (median {:.2f} at accept length {:.2f}), that of {} does not ({:.2f} at {:.2f}): compare accept lengths, not rates',
        sa.accept_rate, sa.accept_len, b.run, sb.accept_rate, sb.accept_len) AS message,
    sa.accept_rate, sb.accept_rate AS other_accept_rate, a.rate_formula AS formula, b.rate_formula AS other_formula, [sa.place, sb.place] AS lines
FROM pair p
JOIN run a ON a.run = p.run
JOIN run b ON b.run = p.against
JOIN sample sa ON sa.run = a.run
JOIN sample sb ON sb.run = b.run
QUALIFY row_number() OVER (PARTITION BY a.run ORDER BY b.run) = 1
