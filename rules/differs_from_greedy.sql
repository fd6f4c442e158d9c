-- title    = "Greedy answers differ from plain decoding's"
-- severity = "medium"
-- family   = "output"
-- needs    = { request = ["text"], pairing = ["against"], hindrance = [], run = [] }
-- enough   = { request = 10 }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM request WHERE text IS NOT NULL AND coalesce(temperature, 0) = 0) AND run IN (SELECT p.run FROM pairing p JOIN run r ON r.run = p.against JOIN request q ON q.run = r.run WHERE NOT r.speculates AND q.text IS NOT NULL)"
-- enable   = "keep the texts of ten greedy prompts or more, with speculation and without"
-- why      = "Greedy speculation writes what the target alone would write, but for near ties: a batch of several rows rounds otherwise than one row, and where two tokens are almost equal either may win. Such forks are rare and both branches read well. More forks than two plain runs have, or text that loses or doubles a piece and goes on, is a fault."
-- formula  = "forks per token of speculative against plain answers to the same greedy prompts; against the same of two plain runs where there are some (three times as many and three standard errors), else against one in 40 tokens"
-- sides    = { "answers that differ" = "forks", "answers compared" = "prompts" }
-- unlike   = [
--   "The plain server does not repeat itself either: its own rate is subtracted.",
--   "Rare forks, late in the text: near ties in the arithmetic.",
--   "Sampled requests: their texts differ by right.",
-- ]
-- causes   = [
--   { name = "lost_tokens", cause = "tokens are lost or doubled between steps: commit, cache rows, or what is handed to the client", test = "one request alone with --trace: emitted_differs_from_accepted and steps_do_not_chain name the step" },
--   { name = "wrong_state", cause = "mask, positions, cache rows or recurrent state of the verification are not those of plain decoding", test = "top-k 1 and one draft token: equal there, so tree or depth matters; then ddtree generate --trace-detail oracle" },
--   { name = "numerics", cause = "another kernel or batch shape of the verification rounds otherwise", test = "float32, or a batch-invariant kernel: the forks vanish" },
-- ]
-- fix      = [
--   "Run the plain server twice on the same prompts: its own rate of forks is what speculation may have.",
--   "Look at the first fork: a branch that reads as well is a near tie, a broken word or a repetition is a fault.",
-- ]
-- reports  = ["vllm-project/vllm#41758", "vllm-project/vllm#5313"]
-- params   = { prompts = 10, forks = 5, ratio = 3.0, errors = 3.0, often = 0.025, sometimes = 0.0067, characters = 4.0 }

-- An answer is known by its prompt; else by its number in the same benchmark; else by the length of
-- its prompt where no other has that.
WITH answer AS (
    SELECT q.run, q.source, q.line, q.text, q.temperature, r.speculates,
        CASE WHEN q.prompt IS NOT NULL THEN 'prompt ' || q.prompt
             WHEN q.request SIMILAR TO '[0-9]+' THEN concat('number ', q.request, ' of ', q.prompt_tokens, ' tokens')
             WHEN count(*) OVER (PARTITION BY q.run, q.prompt_tokens) = 1 THEN concat('length ', q.prompt_tokens) END AS key,
        row_number() OVER (PARTITION BY q.run, q.prompt, q.request, q.prompt_tokens ORDER BY q.source, q.line) AS nth
    FROM request q JOIN run r ON r.run = q.run WHERE length(q.text) >= 40 AND coalesce(q.temperature, 0) = 0
),
beside AS (  -- answers of other lengths may be what is wrong
    SELECT p.run, p.against, a.speculates, b.speculates AS other_speculates FROM pairing p JOIN run a ON a.run = p.run JOIN run b ON b.run = p.against
    LEFT JOIN hindrance h ON h.run = p.run AND h.against = p.against AND h.what <> 'length'
    WHERE h.run IS NULL
),
couple AS (
    SELECT b.run, b.against, x.key, x.text, y.text AS other, x.temperature IS NULL OR y.temperature IS NULL AS unsure, cite(x.source, x.line) AS place, cite(y.source, y.line) AS other_place
    FROM beside b JOIN answer x ON x.run = b.run JOIN answer y ON y.run = b.against AND y.key = x.key AND y.nth = 1
    WHERE b.speculates AND NOT b.other_speculates AND x.nth = 1
    UNION ALL  -- two plain runs, and one that was asked the same twice
    SELECT b.run, b.against, x.key, x.text, y.text, false, NULL, NULL
    FROM beside b JOIN answer x ON x.run = b.run JOIN answer y ON y.run = b.against AND y.key = x.key AND y.nth = 1
    WHERE NOT b.speculates AND NOT b.other_speculates AND x.nth = 1 AND b.run < b.against
    UNION ALL
    SELECT x.run, x.run, x.key, x.text, y.text, false, NULL, NULL FROM answer x JOIN answer y ON y.run = x.run AND y.key = x.key AND y.nth > x.nth WHERE NOT x.speculates AND x.nth = 1
),
-- The character where they part. One that is cut earlier has not parted.
parted AS (
    SELECT *, CASE WHEN NOT starts_with(text, other) AND NOT starts_with(other, text) THEN coalesce(list_position(list_transform(list_zip(string_split(text, ''), string_split(other, '')), lambda z: z[1] IS DISTINCT FROM z[2]), true), 1) END AS fork,
        least(length(text), length(other)) AS shorter
    FROM couple
),
-- Where one of the two goes on with what the other has a few characters later, a piece is missing.
judged AS (
    SELECT *, fork IS NOT NULL AND fork + 48 <= shorter AND len(list_filter(range(1, 9), lambda k: substr(text, fork, 40) = substr(other, fork + k, 40) OR substr(text, fork + k, 40) = substr(other, fork, 40))) > 0 AS shifted,
        coalesce(fork - 1, shorter) / $characters AS tokens
    FROM parted
),
rate AS (
    SELECT run, against, count(*) AS prompts, count(fork) AS forks, sum(tokens) AS tokens, median(tokens) FILTER (fork IS NOT NULL) AS first_fork,
        count(*) FILTER (shifted) AS shifts, bool_or(unsure) AS unsure,
        list_concat(arg_min(place, fork, 2), arg_min(other_place, fork, 2)) AS lines,
        arg_min({'here': substr(text, greatest(fork - 20, 1), 45), 'there': substr(other, greatest(fork - 20, 1), 45)}, (NOT shifted, fork)) FILTER (fork IS NOT NULL) AS example
    FROM judged GROUP BY run, against
),
plain AS (  -- how often plain answers fork, of the plain run and of those beside it
    SELECT s.run, s.against, sum(p.forks) AS forks, sum(p.tokens) AS tokens, sum(p.prompts) AS prompts
    FROM rate s JOIN run r ON r.run = s.run AND r.speculates
    JOIN rate p ON s.against IN (p.run, p.against) JOIN run x ON x.run = p.run AND NOT x.speculates JOIN run y ON y.run = p.against AND NOT y.speculates
    GROUP BY s.run, s.against HAVING sum(p.prompts) >= 5
),
compared AS (
    SELECT s.*, p.forks AS plain_forks, p.tokens AS plain_tokens, p.forks / p.tokens * s.tokens AS expected, s.forks / s.tokens AS hazard,
        s.shifts >= 3 AND s.shifts >= 0.5 * s.forks AS broken
    FROM rate s JOIN run r ON r.run = s.run AND r.speculates JOIN run b ON b.run = s.against AND NOT b.speculates LEFT JOIN plain p ON p.run = s.run AND p.against = s.against
    WHERE s.prompts >= $prompts AND s.tokens > 0
        AND (NOT s.unsure OR s.prompts - s.forks >= s.prompts / 3 OR (s.shifts >= 3 AND s.shifts >= 0.5 * s.forks))  -- else they may be sampled
)
SELECT run, against,
    format('{} of {} greedy answers differ from plain decoding''s, the median one after {:.0f} tokens: one fork in {:.0f} tokens{}{}; the first: "{}" against "{}"', forks, prompts, first_fork, 1 / hazard,
        CASE WHEN plain_tokens IS NULL THEN ', and how often plain decoding differs from itself is not known' WHEN plain_forks = 0 THEN format(', plain decoding has none in {:,.0f}', plain_tokens)
             ELSE format(', of plain decoding one in {:.0f}', plain_tokens / plain_forks) END,
        CASE WHEN broken THEN format('; in {} of them a few characters are missing or doubled and the text goes on', shifts) ELSE '' END,
        replace(example.here, chr(10), ' '), replace(example.there, chr(10), ' ')) AS message,
    CASE WHEN broken THEN 'high' WHEN plain_tokens IS NULL AND hazard < $often THEN 'low' END AS severity,
    forks, prompts, 1 / hazard AS tokens_per_fork, plain_tokens / nullif(plain_forks, 0) AS plain_tokens_per_fork, first_fork AS median_fork_token, shifts,
    CASE WHEN broken THEN ['lost_tokens'] WHEN hazard < $often THEN ['numerics'] ELSE ['wrong_state'] END AS causes, lines
FROM compared
WHERE forks >= CASE WHEN broken THEN 3 ELSE $forks END
    AND (broken OR CASE WHEN plain_tokens IS NOT NULL THEN forks > $ratio * expected AND forks - expected > sure($errors) * sqrt(expected * (1 + tokens / plain_tokens) + 1)
              ELSE hazard > $sometimes END)
QUALIFY row_number() OVER (PARTITION BY run ORDER BY plain_tokens IS NULL, prompts DESC, against) = 1
