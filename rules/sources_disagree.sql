-- title    = "Two sources of the same figure disagree"
-- severity = "medium"
-- needs    = { request = [], commit_sample = [], decode = [], run = ["speculates"], event = [], benchmark = [] }
-- applies  = "speculates AND served"
-- why      = "A record's counters are tied to each other: accept length = tokens / steps, the histogram counts every step once, a step proposes the same number of drafts each time. The log, the records and the benchmark of one run count the same steps. Where they do not fit, one of them is computed from something else."
-- fix      = [
--   "Trust the source that holds raw counts (steps, tokens, histogram) over the one that holds a ratio.",
--   "Check which of them counts the bonus token, and whether the benchmark read a lifetime mean of an older server.",
-- ]
-- params   = { tolerance = 0.08, growth = 0.15, steps = 200, coverage = 0.7 }

-- Residues that are no fault: the token that prefill makes, and what a stop cuts off the last step.
WITH width AS (
    SELECT run, mode(round(proposed_drafts / verify_steps)) AS width FROM request WHERE verify_steps > 0 AND proposed_drafts > 0 GROUP BY run
),
checked AS (
    SELECT r.*, w.width,
        abs(accept_len - completion_tokens / verify_steps) > 0.011 AND abs(accept_len - (completion_tokens - 1) / verify_steps) > 0.011 AS length_off,
        abs(accept_len + 1 - completion_tokens / verify_steps) <= 0.011 AS lacks_bonus,
        r.run NOT IN (SELECT run FROM event WHERE kind = 'adaptive') AND proposed_drafts <> w.width * verify_steps AS width_off,
        abs(list_sum(histogram) - verify_steps) > 1 AS histogram_off,
        abs(list_sum(list_transform(histogram, lambda h, i: h * (i - 1))) - correct_drafts) > 0.5 AND abs(list_sum(histogram) - verify_steps) <= 1 AS sum_off
    FROM request r LEFT JOIN width w USING (run) WHERE r.verify_steps > 0
),
record AS (
    SELECT run, source, line, request, CASE
        WHEN length_off AND lacks_bonus THEN format('{}: accept length {:.3f} lacks the bonus token ({} tokens in {} steps are {:.3f})', request, accept_len, completion_tokens, verify_steps, completion_tokens / verify_steps)
        WHEN length_off THEN format('{}: accept length {:.3f}, but {} tokens in {} steps are {:.3f}', request, accept_len, completion_tokens, verify_steps, completion_tokens / verify_steps)
        WHEN width_off THEN format('{}: {} drafts proposed in {} steps are {:.2f} a step, elsewhere {:.0f}', request, proposed_drafts, verify_steps, proposed_drafts / verify_steps, width)
        WHEN histogram_off THEN format('{}: the histogram counts {:.0f} steps, the record {}', request, list_sum(histogram), verify_steps)
        WHEN sum_off THEN format('{}: the histogram holds {:.0f} accepted drafts, the record {}', request, list_sum(list_transform(histogram, lambda h, i: h * (i - 1))), correct_drafts)
    END AS message
    FROM checked
),
records AS (
    SELECT run, format('{} of {} response records contradict themselves: {}', count(message), any_value(total), array_to_string(list(message ORDER BY line) FILTER (message IS NOT NULL)[:3], '; ')) AS message,
        'identities of a record' AS compared, NULL::DOUBLE AS first_value, NULL::DOUBLE AS second_value,
        arg_min(cite(source, line), line, 4) FILTER (message IS NOT NULL) AS lines
    FROM record JOIN (SELECT run, count(*) AS total FROM record GROUP BY run) USING (run) GROUP BY run HAVING count(message) > 0
),
-- The same quantity from two kinds of source; both must stand for enough steps, and for the same
-- traffic: other clients, or a log that was cut, make other text.
mean AS (
    SELECT run, kind, sum(commit_len * coalesce(steps, 1)) / sum(coalesce(steps, 1)) AS commit_len, sum(steps) AS steps, count(*) AS rows,
        coalesce(stddev_samp(commit_len) / sqrt(count(*)), 0) AS error, CASE WHEN kind = 'request' THEN avg(commit_len) END AS per_request, arg_min(cite(source, line), line) AS place
    FROM commit_sample WHERE kind IN ('decode', 'request', 'benchmark') GROUP BY run, kind
),
volume AS (
    SELECT run, 'decode' AS kind, sum(decode.running * commit_len) * any_value(coalesce(log_interval, 40)) AS tokens
    FROM decode JOIN run USING (run) WHERE complete GROUP BY run
    UNION ALL
    SELECT run, 'request', sum(completion_tokens) FROM request GROUP BY run
    UNION ALL
    SELECT run, 'benchmark', sum(output_tokens) FROM benchmark GROUP BY run
),
kinds AS (
    SELECT a.run, format('commit length is {:.2f} by the {} and {:.2f} by the {}', a.commit_len, a.name, b.commit_len, b.name) AS message,
        a.name || ' against ' || b.name AS compared, a.commit_len AS first_value, b.commit_len AS second_value, [a.place, b.place] AS lines
    FROM (SELECT *, CASE kind WHEN 'decode' THEN 'decode lines' WHEN 'request' THEN 'response records' ELSE 'benchmark' END AS name FROM mean) a
    JOIN (SELECT *, CASE kind WHEN 'decode' THEN 'decode lines' WHEN 'request' THEN 'response records' ELSE 'benchmark' END AS name FROM mean) b
        ON a.run = b.run AND a.kind < b.kind
    JOIN volume va ON va.run = a.run AND va.kind = a.kind JOIN volume vb ON vb.run = b.run AND vb.kind = b.kind
    WHERE a.steps >= $steps AND b.steps >= $steps
        AND least(va.tokens, vb.tokens) >= $coverage * greatest(va.tokens, vb.tokens)
        AND abs(a.commit_len - b.commit_len) > $tolerance * least(a.commit_len, b.commit_len) + 4 * sqrt(a.error ** 2 + b.error ** 2)
        -- the mean of the requests' own means: that is aggregation_differs
        AND coalesce(abs(a.commit_len - b.per_request) > $tolerance / 2 * a.commit_len, true)
),
-- With page size 1 the token counter grows by what is committed. A ratio that holds but is not 1
-- is a second witness against the printed accept length; one that scatters is no witness.
grown AS (
    SELECT d.run, d.source, d.line, (d.tokens - lag(d.tokens) OVER w) / (r.log_interval * d.running * d.commit_len) AS ratio, d.steady, d.commit_len
    FROM decode d JOIN run r ON r.run = d.run AND r.page_size = 1 AND r.log_interval > 0 AND r.speculates
    WINDOW w AS (PARTITION BY d.run, d.rank ORDER BY d.source, d.line)
),
growth AS (
    SELECT run, count(*) AS rows, median(ratio) AS ratio, quantile_cont(ratio, 0.25) AS low, quantile_cont(ratio, 0.75) AS high, median(commit_len) AS commit_len,
        arg_min(cite(source, line), line, 4) AS lines
    FROM grown WHERE steady AND ratio > 0 GROUP BY run
),
growths AS (
    SELECT run, format('the token counter grows by {:.2f} tokens a step over {} steady decode lines, the printed accept length is {:.2f}', ratio * commit_len, rows, commit_len) AS message,
        'token counter against accept length' AS compared, ratio * commit_len AS first_value, commit_len AS second_value, lines
    FROM growth WHERE rows >= 8 AND abs(ratio - 1) > $growth AND high < 1.15 * low
)
SELECT run, message, compared, first_value, second_value, lines FROM records
UNION ALL SELECT run, message, compared, first_value, second_value, lines FROM kinds
UNION ALL SELECT run, message, compared, first_value, second_value, lines FROM growths
