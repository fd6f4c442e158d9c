-- title    = "Two ways to average the commit length differ"
-- severity = "low"
-- family   = "metrics"
-- needs    = { request = ["verify_steps", "completion_tokens"], benchmark = [], decode = [], acceptance = [], commit_mean = [], event = [], run = [] }
-- enough   = { request = 10 }
-- why      = "A mean over requests counts a short answer as much as a long one; tokens over steps counts every step once. Where the length of answers and their acceptance go together, the two differ, and both are right."
-- formula  = "mean over requests of tokens / steps, against the sum of tokens / the sum of steps: more than 10 % apart, and more than two standard errors of the mean over requests"
-- sides    = { "mean over the requests" = "mean_per_request", "all tokens by all steps" = "pooled_mean" }
-- unlike   = [
--   "Answers of a few tokens: their last step is cut, and each is left out below 16 tokens.",
--   "Figures that neither mean gives: two sources disagree (sources_disagree).",
-- ]
-- causes   = [
--   { name = "short_answers", cause = "short answers are accepted better than long ones", test = "sort the response records by completion_tokens and compare the shorter half with the longer: equal there, so it is the text" },
--   { name = "mixed_texts", cause = "the workload mixes texts that are easy and texts that are hard to predict", test = "run each part of the workload alone: the two means agree within each" },
-- ]
-- fix      = [
--   "Give both figures, and name them. Use tokens over steps for everything about speed: it is what the server pays for.",
--   "Compare with another figure only by the same mean: papers mostly print the mean over responses, server logs tokens over steps.",
-- ]
-- reports  = ["vllm-project/vllm#42508"]
-- params   = { gap = 0.1, errors = 2.0, tokens = 16, near = 0.03 }

WITH answer AS (
    SELECT *, (completion_tokens - 1) / verify_steps AS own FROM request
    WHERE verify_steps > 0 AND completion_tokens >= $tokens AND (completion_tokens - 1) / verify_steps >= 1
        AND run NOT IN (SELECT run FROM event WHERE kind = 'simulated')
),
mean AS (
    SELECT run, count(*) AS requests, avg(own) AS per_request, sum(completion_tokens - 1) / sum(verify_steps) AS pooled,
        stddev_samp(own) / sqrt(count(*)) AS error, corr(ln(completion_tokens), ln(own)) AS with_length,
        first_few([arg_min(cite(source, line), own), arg_max(cite(source, line), own)]) AS extremes
    FROM answer GROUP BY run HAVING count(*) >= 10
),
-- Which of the two a figure is that somebody else printed.
quoted AS (
    SELECT run, 'the benchmark' AS who, accept_len AS figure, cite(source, line) AS place FROM benchmark WHERE accept_len > 0
    UNION ALL
    SELECT run, CASE kind WHEN 'decode' THEN 'the server log' ELSE 'the counters' END, commit_len, lines[1] FROM commit_mean WHERE kind IN ('decode', 'acceptance') AND rows >= 5
),
named AS (
    SELECT m.run, q.who, q.figure, q.place,
        CASE WHEN abs(q.figure - m.per_request) <= $near * m.per_request THEN 'per request'
             WHEN abs(q.figure - m.pooled) <= $near * m.pooled THEN 'pooled' END AS as_mean
    FROM mean m JOIN quoted q USING (run)
),
matched AS (
    SELECT run, string_agg(format('{} says {:.2f}, the {} mean', who, figure, as_mean), ', ' ORDER BY who) AS said,
        bool_or(as_mean = 'per request') AS per_request, list(place ORDER BY who) AS places
    FROM named WHERE as_mean IS NOT NULL GROUP BY run
)
SELECT
    run,
    format('over {} requests a request''s own mean is {:.2f} on average, but all tokens over all steps are {:.2f}{}',
        m.requests, m.per_request, m.pooled, coalesce('; ' || b.said, '')) AS message,
    -- nobody has quoted the other figure yet
    CASE WHEN coalesce(b.per_request, false) THEN 'low' ELSE 'info' END AS severity,
    m.per_request AS mean_per_request, m.pooled AS pooled_mean, m.error AS error, m.requests, m.with_length AS correlation_with_length,
    CASE WHEN m.with_length < -0.3 THEN ['short_answers'] ELSE ['mixed_texts'] END AS causes,
    list_concat(coalesce(b.places, []), m.extremes)[:4] AS lines
FROM mean m LEFT JOIN matched b USING (run)
WHERE abs(m.per_request - m.pooled) > $gap * m.pooled AND abs(m.per_request - m.pooled) > sure($errors) * m.error
