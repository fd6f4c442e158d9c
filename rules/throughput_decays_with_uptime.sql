-- title    = "The same work gets slower the longer the server runs"
-- severity = "medium"
-- family   = "speed"
-- needs    = { decode = ["running", "tokens_per_s", "time"], event = [], run = ["server"] }
-- enough   = { decode = 40 }
-- applies  = "server AND ended - started >= INTERVAL 30 MINUTE"
-- enable   = "keep the decode lines of the whole time"
-- why      = "The time of a step depends on its batch and its context, not on the clock. Where it rises from hour to hour at the same batch and context, something piles up: requests that nobody ends, slots that are lost, host memory, or heat."
-- fix      = [
--   "Send the same prompt right after a restart and again hours later, alone: the two step times tell the decay from the load.",
--   "Look for requests without a client (zombie_requests), pools that do not empty (pool_leak), and host memory of the scheduler process.",
--   "Compare clock, temperature and power of the GPU at both times (nvidia-smi -q -d CLOCK,PERFORMANCE), and what else runs on it.",
-- ]
-- formula  = "step time / its mean in the cell of equal batch and context (15 %), averaged over each quarter of the uptime: every quarter above the one before, the last >= 1.25 x the first, beyond three standard errors"
-- sides    = { "times as long as at first" = "rise" }
-- unlike   = [
--   "Longer contexts or larger batches later in the day: only equal ones are compared.",
--   "A cache that fills to its ceiling without retractions: the step time stays.",
--   "One jump and no further rise: another process on the GPU, a retraction (no_recovery_after_retraction).",
--   "Draft steps that follow the load: such runs are left out.",
-- ]
-- causes   = [
--   { name = "pile_up", cause = "requests without a client, or slots that are never freed, take part in every step", test = "stop all traffic for a minute: running or usage does not fall to zero" },
--   { name = "host", cause = "the scheduler's own work per step grows (tree of prefixes, lists, garbage collection)", test = "flush the cache over the API: fast again without a restart" },
--   { name = "heat", cause = "the GPU lowers its clock", test = "nvidia-smi -q -d PERFORMANCE: a throttle reason is active; a lower power limit makes both times equal" },
-- ]
-- params   = { minutes = 30.0, rise = 1.25, step = 0.03, rows = 40, per_quarter = 8 }

-- The speed of a step, whatever the acceptance: running x C / throughput, or without C the time of a
-- token. A cell is a rank's batch and context (of vLLM what the pool holds a request).
WITH line AS NOT MATERIALIZED (
    SELECT run, source, line, time, coalesce(rank, '') AS rank, round(ln(running) / ln(1.1)) AS running,
        round(ln(greatest(coalesce(ctx_len, 10000 * usage / running), 1)) / ln(1.15)) AS length, ln(coalesce(step_ms, 1000 * running / tokens_per_s)) AS cost, usage
    FROM decode
    WHERE usable AND NOT after_prefill AND time IS NOT NULL AND coalesce(graph, true) AND NOT coalesce(prompt_tokens_per_s > 0.1 * tokens_per_s, false)
        AND run IN (SELECT run FROM run WHERE ended - started >= INTERVAL 30 MINUTE)
        AND run NOT IN (SELECT run FROM event WHERE kind IN ('adaptive', 'simulated'))
        AND (step_ms IS NOT NULL OR run IN (SELECT run FROM run WHERE NOT speculates))
),
lived AS (
    SELECT run, min(time) AS since, epoch(max(time)) - epoch(min(time)) AS span_s FROM line GROUP BY run
),
placed AS NOT MATERIALIZED (
    SELECT l.*, least(4, 1 + floor(4 * (epoch(l.time) - epoch(v.since)) / v.span_s)) AS quarter
    FROM line l JOIN lived v USING (run) WHERE v.span_s >= 60 * $minutes
),
-- Only cells that were seen in all quarters, each quarter with the same weight: what came late
-- must not be measured against itself.
part AS (
    SELECT run, rank, running, length, quarter, avg(cost) AS cost, count(*) AS rows FROM placed GROUP BY ALL
),
cell AS (
    SELECT run, rank, running, length, avg(cost) AS cost FROM part GROUP BY run, rank, running, length HAVING count(*) = 4
),
rising AS (  -- by the levels of the quarters alone
    SELECT run FROM (
        SELECT run, quarter, sum(p.rows) AS rows, sum(p.rows * (p.cost - c.cost)) / sum(p.rows) AS level FROM part p JOIN cell c USING (run, rank, running, length) GROUP BY run, quarter)
    GROUP BY run HAVING count(*) = 4 AND min(rows) >= $per_quarter AND exp(arg_max(level, quarter) - arg_min(level, quarter)) >= 0.999 * $rise
),
relative AS (
    SELECT p.*, p.cost - c.cost AS excess FROM placed p JOIN cell c USING (run, rank, running, length) WHERE p.run IN (FROM rising)
),
quartered AS (
    SELECT run, quarter, count(*) AS rows, avg(excess) AS level, coalesce(var_samp(excess), 0) / count(*) AS variance, median(usage) AS usage,
        median(exp(cost)) AS step_ms, arg_min(cite(source, line), line, 2) AS first_lines, arg_max(cite(source, line), line, 2) AS last_lines
    FROM relative GROUP BY run, quarter
),
ordered AS (
    SELECT *, level - lag(level) OVER (PARTITION BY run ORDER BY quarter) AS rise FROM quartered
),
summed AS (
    SELECT run, sum(rows) AS rows, min(rows) AS fewest, count(*) AS quarters, list(exp(level) ORDER BY quarter) AS levels, min(rise) AS least_rise,
        arg_max(level, quarter) - arg_min(level, quarter) AS risen, sqrt(arg_max(variance, quarter) + arg_min(variance, quarter)) AS error,
        arg_min(usage, quarter) AS usage_first, arg_max(usage, quarter) AS usage_last,
        list_concat(arg_min(first_lines, quarter), arg_max(last_lines, quarter)) AS lines
    FROM ordered GROUP BY run
)
SELECT
    s.run,
    format('at the same batch and context a step takes {:.2f}x as long in the last quarter of {:.1f} h as in the first (by quarters 1.00, {:.2f}, {:.2f}, {:.2f}; {} decode lines){}', exp(risen), v.span_s / 3600,
        levels[2] / levels[1], levels[3] / levels[1], levels[4] / levels[1], rows,
        CASE WHEN usage_last > usage_first + 0.1 THEN format('; the pool is {:.0f} % full instead of {:.0f} %', 100 * usage_last, 100 * usage_first) ELSE '' END) AS message,
    1 - exp(-risen) AS impact,
    CASE WHEN usage_last > usage_first + 0.1 OR s.run IN (SELECT run FROM event WHERE kind IN ('zombie', 'leak')) THEN ['pile_up'] ELSE ['host'] END AS causes,
    exp(risen) AS rise, v.span_s / 60 AS minutes, usage_first, usage_last, rows AS decode_lines, lines
FROM summed s JOIN lived v USING (run)
WHERE quarters = 4 AND rows >= $rows AND fewest >= $per_quarter AND exp(risen) >= $rise AND least_rise >= $step AND risen > 3 * error
