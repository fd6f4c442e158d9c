-- title    = "Two sources of the same figure disagree"
-- severity = "medium"
-- family   = "metrics"
-- needs    = { ledger = [], request = [], commit_sample = [], decode = [], run = ["speculates"], event = [], benchmark = [], acceptance = [], metric = [] }
-- applies  = "speculates AND served"
-- why      = "A record's counters are tied to each other: accept length = tokens / steps, the histogram counts every step once, a step proposes the same number of drafts each time. The log, the records and the benchmark of one run count the same steps. Where they do not fit, one of them is computed from something else."
-- fix      = [
--   "Trust the source that holds raw counts (steps, tokens, histogram) over the one that holds a ratio.",
--   "Check which of them counts the bonus token, and whether the benchmark read a lifetime mean of an older server.",
--   "`specdiag ledger` shows every entry with both sides, its residual and what it may be.",
-- ]
-- formula  = "double entry: per record histogram = steps, drafts + steps + 1 = tokens, proposed = steps x width, accept length x steps = tokens; per run token counter = throughput x time = steps x batch x C, and C of the log = records = benchmark"
-- sides    = { "one source" = "first_value", "the other source" = "second_value" }
-- unlike   = [
--   "The first token, which prefill makes, and what a stop cuts off the last block: up to a block per record.",
--   "Two definitions of a rate (rate_definition_differs).",
--   "A mean over requests beside a mean over steps; other clients in the window; a log that was cut: compared only where both hold about the same tokens.",
-- ]
-- causes   = [
--   { name = "other_convention", cause = "one source counts the bonus token and the other does not", test = "add 1 to the smaller figure: they agree in all records" },
--   { name = "counter_not_passed_on", cause = "a path (another draft width, a retraction, a patched worker) does not feed one of the counters", test = "greedy, one request at a time, fixed draft width: they agree there" },
--   { name = "printed_is_not_committed", cause = "the printed accept length is of what was measured, not of what was committed", test = "compare with the number of tokens that the client received divided by the steps" },
-- ]
-- reports  = ["sgl-project/sglang#13754", "sgl-project/sglang#34814", "sgl-project/sglang#33518"]

-- The ledger (schema.sql) says what balances and what has room for harmless residues. Of a record the
-- first account that is off counts, of a run each.
WITH off AS (
    SELECT *, list_position(['accept length', 'proposed drafts', 'steps', 'accepted drafts', 'tokens'], account) AS place FROM ledger
    WHERE NOT balanced AND account <> 'throughput'  -- which is shown and never judged
),
record AS (
    SELECT * FROM off WHERE place IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY run, source, line, request ORDER BY place) = 1
),
total AS (
    SELECT run, count(*) AS records FROM request WHERE verify_steps > 0 GROUP BY run
),
records AS (
    SELECT run, format('{} of {} response records contradict themselves: {}', count(*), any_value(records), array_to_string(list(concat_ws(': ', request, told) ORDER BY line)[:3], '; ')) AS message,
        'identities of a record' AS compared, NULL::DOUBLE AS first_value, NULL::DOUBLE AS second_value,
        CASE WHEN bool_and(told LIKE '%lacks the bonus%') THEN ['other_convention'] ELSE ['counter_not_passed_on'] END AS causes, arg_min(cite(source, line), line, 4) AS lines
    FROM record JOIN total USING (run) GROUP BY run
),
runs AS (
    SELECT run, told AS message, left_side || ' against ' || right_side AS compared, left_value AS first_value, right_value AS second_value,
        CASE WHEN abs(abs(residual) - 1) <= 0.05 THEN ['other_convention'] ELSE ['counter_not_passed_on'] END AS causes, [cite(source, line)] AS lines
    FROM off WHERE account = 'commit length'
    UNION ALL  -- the witness against the printed accept length
    SELECT run, array_to_string(list(told ORDER BY account), '; '), arg_min(left_side, account) || ' against accept length', arg_min(left_value, account), arg_min(right_value, account),
        ['printed_is_not_committed'], list_distinct(list(cite(source, line)))
    FROM off WHERE account = 'context growth' GROUP BY run
)
SELECT run, message, compared, first_value, second_value, causes, lines FROM records
UNION ALL SELECT run, message, compared, first_value, second_value, causes, lines FROM runs
