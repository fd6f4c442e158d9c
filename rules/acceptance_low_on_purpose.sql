-- title    = "Acceptance is low on purpose"
-- severity = "info"
-- family   = "acceptance"
-- needs    = { commit_sample = ["commit_len"], event = [], config = [] }
-- enough   = 5
-- why      = "A simulated acceptance, or a policy that drafts less under load, sets the commit length: it says nothing about the drafter."
-- fix      = ["Unset the simulation before quoting a figure.", "Where a policy switches speculation off, check that decode graphs are still used at those batch sizes."]
-- formula  = "C = 1 on every line of a run with a simulation set, or C = 1 exactly above one batch size and above 1.2 below it"
-- sides    = { "commit length" = "commit_len" }
-- unlike   = [
--   "C of 1.00 at every batch size: that is a draft which is never accepted.",
-- ]
-- causes   = [
--   { name = "simulated", cause = "a simulated acceptance length is set in the environment", test = "the environment of the process without the variable" },
--   { name = "policy", cause = "an adaptive policy drafts less under load", test = "one request at a time: C is back" },
-- ]
-- reports  = ["sgl-project/sglang#32595", "vllm-project/vllm#48494"]
-- explains = ["draft_never_accepted", "acceptance_decays_with_context"]
-- params   = { floor = 1.005, healthy = 1.2, lines = 5 }

WITH told AS (
    SELECT run, bool_or(kind = 'simulated') AS simulated, bool_or(kind = 'adaptive') AS adaptive,
        max(value) FILTER (kind = 'simulated') AS simulated_len, arg_min(cite(source, line), line, 4) AS lines
    FROM event WHERE kind IN ('simulated', 'adaptive') GROUP BY run
    UNION ALL
    SELECT run, bool_or(key ILIKE '%simulate%acc%'), bool_or(key = 'speculative_adaptive'), NULL, arg_min(cite(source, line), line, 4)
    FROM config
    WHERE (key ILIKE '%simulate%acc%' AND value NOT IN ('None', '0', '-1', 'False', ''))
        OR (key = 'speculative_adaptive' AND value = 'True')
    GROUP BY run
),
asked AS (
    SELECT run, bool_or(simulated) AS simulated, bool_or(adaptive) AS adaptive,
        max(simulated_len) AS simulated_len, first_few(flatten(list(lines))) AS lines
    FROM told GROUP BY run
),
size AS (
    SELECT run, running, count(*) FILTER (commit_len <= $floor) AS off_lines, count(*) FILTER (commit_len >= $healthy) AS on_lines
    FROM commit_sample WHERE kind = 'decode' GROUP BY run, running
),
switched AS (
    SELECT run FROM size GROUP BY run
    HAVING run IN (SELECT run FROM asked)
        OR (sum(off_lines) >= $lines AND sum(on_lines) >= $lines AND min(running) FILTER (off_lines > 0) > max(running) FILTER (on_lines > 0))
),
batch AS (
    SELECT run,
        count(*) FILTER (commit_len <= $floor) AS off_lines, count(*) FILTER (commit_len >= $healthy) AS on_lines,
        min(running) FILTER (commit_len <= $floor) AS off_from, max(running) FILTER (commit_len >= $healthy) AS on_to,
        arg_min(cite(source, line), line, 4) FILTER (commit_len <= $floor) AS lines
    FROM commit_sample WHERE kind = 'decode' AND run IN (FROM switched) GROUP BY run
),
mean AS (
    SELECT run, avg(commit_len) AS commit_len FROM commit_sample WHERE run IN (SELECT run FROM asked UNION FROM switched) GROUP BY run
)
SELECT
    m.run,
    CASE
        WHEN a.simulated THEN format('acceptance is simulated: the commit length of {:.2f} is a setting, not a measurement', m.commit_len)
        WHEN a.adaptive THEN format('adaptive speculation was on and switched drafting off: commit length 1.00 on {} decode lines', b.off_lines)
        ELSE format('speculation is off from {:.0f} running requests on and on up to {:.0f}: commit length follows a batch-size policy', b.off_from, b.on_to)
    END AS message,
    m.commit_len, b.off_from, b.on_to, list_concat(coalesce(a.lines, []), coalesce(b.lines, []))[:4] AS lines
FROM mean m
LEFT JOIN asked a USING (run)
LEFT JOIN batch b USING (run)
WHERE coalesce(a.simulated, false)
    OR (coalesce(a.adaptive, false) AND b.off_lines >= $lines)
    OR (b.off_lines >= $lines AND b.on_lines >= $lines AND b.off_from > b.on_to)
