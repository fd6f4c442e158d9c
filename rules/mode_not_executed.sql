-- title    = "The mode that was asked for did not run"
-- severity = "high"
-- family   = "trace"
-- needs    = { run = ["algorithm"], event = [], step = [], decode = [], acceptance = [] }
-- why      = "A build with a new algorithm proves itself by its own lines: the worker is initialised, the mode is announced, the first verification is reported. Where one is missing while requests are served, something else served them. One reported verification proves only that the path ran once."
-- fix      = [
--   "Check that the build which runs is the one that was patched, and that its start-up log is complete (both stdout and stderr, log level info).",
--   "Look for an option that switches the mode off silently: page size, overlap schedule, sampling, batch size, attention backend.",
--   "Let the smoke test demand every one of the lines, and a commit length over many steps.",
-- ]
-- formula  = "each of the lines that a mode prints once is there, or something else served the requests"
-- sides    = { "verified by" = "verified_by", "asked for" = "asked" }
-- unlike   = [
--   "A log that begins after the start-up.",
--   "A higher log level than info, which hides the lines.",
-- ]
-- causes   = [
--   { name = "build", cause = "another build runs than the one that was patched", test = "the version line and the path of the module in a traceback" },
--   { name = "option", cause = "an option switches the mode off silently", test = "the start with that one option removed" },
-- ]
-- reports  = ["sgl-project/sglang#34285"]
-- explains = ["tree_runs_linear", "tree_below_chain", "slower_than_baseline"]
-- params   = { lines = 3 }

WITH asked AS (
    SELECT run, algorithm, shadow, algorithm SIMILAR TO '(DDTREE|DFLASH_DDTREE|TREEFLASH)' AS tree,
        -- an accept rate that divides by the tree's rows tells that it was verified, one by the block's
        -- that a chain was (tree_runs_linear)
        abs(rows - budget - 1) <= 1 AND rows IS DISTINCT FROM block AS wide, rows = block AND rows < budget AS narrow
    FROM (SELECT *, rate_width + (rate_formula = 'drafts_per_proposed')::INTEGER AS rows FROM run)
),
-- a server that says why it falls back is another finding (tree_runs_linear)
reasoned AS (SELECT DISTINCT run FROM event WHERE kind = 'fallback' AND detail ILIKE '%linear%'),
hook AS (
    SELECT run,
        count(*) FILTER (detail = 'initialized' AND name ILIKE '%tree%') AS tree_started,
        count(*) FILTER (detail = 'verify' AND name ILIKE '%tree%') AS tree_verified,
        count(*) FILTER (detail = 'verify' AND NOT name ILIKE '%tree%') AS chain_verified,
        count(*) FILTER (detail = 'initialized' AND NOT name ILIKE '%tree%') AS chain_started,
        count(*) FILTER (detail = 'shadow-linear') AS shadowed,
        max(name) FILTER (detail = 'verify') AS verifier,
        list(cite(source, line) ORDER BY line)[:3] AS lines
    FROM event WHERE kind = 'hook' GROUP BY run
),
started AS (
    SELECT run, true AS complete, arg_min(cite(source, line), line, 4) AS lines FROM event WHERE kind IN ('weights', 'capacity') GROUP BY run
),
served AS (
    SELECT run, count(*) AS lines, [arg_min(cite(source, line), line)] AS places FROM decode WHERE complete GROUP BY run
),
counted AS (SELECT DISTINCT run FROM acceptance WHERE tree_size IS NOT NULL OR accepted_depth IS NOT NULL),
logged AS (
    SELECT a.run,
        CASE
            WHEN a.tree AND coalesce(h.tree_verified, 0) = 0 AND h.chain_verified > 0
                THEN format('{} was asked for, but the verification that ran is {}''s', a.algorithm, h.verifier)
            WHEN a.shadow AND h.tree_started > 0 AND h.shadowed = 0
                THEN format('shadow-linear {} was asked for, but the line that announces the mode is missing', a.algorithm)
            -- DFLASH_DDTREE announces itself at its first verification only
            WHEN a.tree AND coalesce(h.tree_started, 0) + coalesce(h.tree_verified, 0) = 0 AND h.chain_started > 0
                AND (a.algorithm <> 'DFLASH_DDTREE' OR s.lines >= $lines)
                THEN format('{} was asked for, but the worker that was initialised is another', a.algorithm)
            WHEN a.tree AND NOT coalesce(a.wide OR a.narrow, false) AND c.run IS NULL AND h.run IS NULL AND t.complete AND s.lines >= $lines AND a.run NOT IN (FROM reasoned)
                THEN format('{} was asked for, but none of its lines is in the log: no worker initialised, no verification', a.algorithm)
            WHEN a.tree AND a.algorithm <> 'TREEFLASH'  -- which reports none
                AND NOT coalesce(a.wide OR a.narrow, false) AND c.run IS NULL AND h.tree_started > 0 AND coalesce(h.tree_verified, 0) = 0 AND s.lines >= $lines
                THEN format('the {} worker was initialised, but no verification of it is reported while {} decode lines are', a.algorithm, s.lines)
        END AS message,
        -- lines that are missing may have been cut or never printed by this build
        CASE WHEN h.run IS NULL THEN 'low' END AS severity,
        a.algorithm AS asked, coalesce(h.verifier, 'nothing') AS verified_by,
        list_concat(coalesce(h.lines, t.lines, []), coalesce(s.places, []))[:4] AS lines
    FROM asked a
    LEFT JOIN hook h USING (run) LEFT JOIN started t USING (run) LEFT JOIN served s USING (run) LEFT JOIN counted c USING (run)
),
mode AS (
    SELECT run, algorithm, algorithm_requested, count(*) AS steps, min(line) AS line, any_value(source) AS source
    FROM step WHERE warmup IS NOT TRUE GROUP BY run, algorithm, algorithm_requested
),
traced AS (
    SELECT run, format('{} of {} steps ran {} although {} was asked for', sum(steps) FILTER (differs), sum(steps), arg_max(algorithm, steps) FILTER (differs), arg_max(algorithm_requested, steps) FILTER (differs)) AS message,
        arg_max(algorithm_requested, steps) FILTER (differs) AS asked, arg_max(algorithm, steps) FILTER (differs) AS verified_by,
        first_few(list(cite(source, line)) FILTER (differs)) AS lines
    FROM (  -- EAGLE-3 is eagle3, and an eagle
        SELECT *, ran <> asked AND regexp_replace(ran, '[0-9]+$', '') <> asked AS differs FROM (
            SELECT *, regexp_replace(upper(algorithm), '[^A-Z0-9]', '', 'g') AS ran, regexp_replace(upper(algorithm_requested), '[^A-Z0-9]', '', 'g') AS asked
            FROM mode))
    GROUP BY run HAVING bool_or(differs)
)
SELECT run, message, severity, asked, verified_by, lines FROM logged WHERE message IS NOT NULL
UNION ALL
SELECT run, message, NULL, asked, verified_by, lines FROM traced
