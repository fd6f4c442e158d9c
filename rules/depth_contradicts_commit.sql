-- title    = "Accepted depth contradicts commit length"
-- severity = "critical"
-- family   = "tree"
-- needs    = { commit_sample = ["commit_len"], acceptance = [], step = [], replay = [] }
-- enough   = 1
-- applies  = "speculates AND served"
-- enable   = "log accepted depth and commit length together, or record a step trace"
-- why      = "A path of A accepted drafts commits A + 1 tokens: the drafts and the target's own. Only a request's last step may commit fewer (stop, length limit, grammar), and none commits more."
-- fix      = [
--   "Look at a step's text: if it goes on down the recorded path, the walk or the commit stopped early and output is at risk; if not, the depth counter is wrong.",
--   "Run one chain (top-k 1) and compare with linear verification of the same drafter: both must commit the same.",
--   "Check what the depth column counts: a constant equal to the budget or to the depth of the tree is no acceptance.",
-- ]
-- formula  = "C = A + 1 for each step that is not its request's last; of printed means C = A + 1 within 0.05; the next step of the request starts C tokens further on"
-- sides    = { "accepted depth" = "accepted_depth", "commit length" = "commit_len", "commit length it needs" = "expected_commit_len" }
-- unlike   = [
--   "A request's last step: a stop token, the length limit or the grammar cuts what was accepted.",
--   "A convention that counts the root, or leaves the bonus out: off by exactly one everywhere.",
--   "No bonus behind a draft that is accepted as a whole, as some loops with a draft model have it.",
--   "Sums over a batch: they have as many bonus tokens as there are requests.",
-- ]
-- causes   = [
--   { name = "walk", cause = "the walk or the commit stops before the path ends", test = "the same prompt with top-k 1 against linear verification: C differs" },
--   { name = "counter", cause = "the depth column counts the tree, not the path", test = "the budget doubled: the depth doubles with it, C does not" },
--   { name = "batch", cause = "depth is a maximum or a sum over the batch and C a mean", test = "one request alone: both agree" },
-- ]
-- reports  = ["sgl-project/sglang#15360", "sgl-project/sglang#26866"]
-- explains = ["tree_below_chain", "throughput_contradicts_commit", "counter_is_not_acceptance", "draft_never_accepted", "acceptance_decays_with_context", "sources_disagree"]
-- params   = { tolerance = 0.05, unlinked = 0.33, stray = 8, trace = 20, agree = 0.8 }

-- Aggregate lines are means over steps, and means obey the same sum; what is printed with two
-- decimals may be off by one in the last. A request's last step, or the last one of a trace, may
-- be cut. Where rows name no request, one that the next does not continue may be a last one too:
-- then too few tokens are a contradiction only if that is the rule and not the exception.
WITH unequal AS (
    SELECT run FROM step WHERE abs(coalesce(accepted_depth, accepted_drafts) + 1 - commit_len) > $tolerance GROUP BY run
),
linked AS (
    SELECT run, source, line, step, request, accepted_depth, accepted_drafts, commit_len, ctx_len, nodes, last OR cut IS NOT NULL AS ends,
        request IS NULL AND NOT coalesce(lead(ctx_len) OVER (PARTITION BY run ORDER BY source, line)
            BETWEEN ctx_len + 1 AND ctx_len + greatest(commit_len, coalesce(accepted_depth, accepted_drafts) + 1), false) AS loose
    FROM (FROM step WHERE run IN (FROM unequal))
    -- Where the record of a step proves that its counter is wrong, that is the finding.
    ANTI JOIN (
        SELECT source, line FROM replay WHERE identity = 'I1' GROUP BY ALL
        HAVING bool_or(field IN ('accepted_depth', 'accepted_drafts')) AND NOT bool_or(field = 'commit_len')
    ) USING (source, line)
    WHERE NOT coalesce(warmup, false)
        -- sums over a batch have a bonus for each of its requests
        AND NOT coalesce(batch > 1 AND "row" IS NULL AND request IS NULL AND commit_len - coalesce(accepted_depth, accepted_drafts) = batch, false)
),
judged AS (
    SELECT *, loose AND avg((loose AND coalesce(accepted_depth, accepted_drafts) + 1 - commit_len > $tolerance)::INTEGER) OVER (PARTITION BY run) < $unlinked AS excused
    FROM linked
),
broken AS (
    SELECT run, source, line, NULL AS step, NULL AS request, accepted_depth,
        coalesce(commit_len, accepted_drafts + 1) AS commit_len, ctx_len, 'line' AS unit
    FROM acceptance
    WHERE accepted_depth IS NOT NULL
        AND abs(accepted_depth + 1 - coalesce(commit_len, accepted_drafts + 1)) > $tolerance
    UNION ALL
    SELECT run, source, line, NULL, NULL, accepted_drafts, commit_len, ctx_len, 'line'
    FROM acceptance
    WHERE accepted_depth IS NULL AND abs(accepted_drafts + 1 - commit_len) > $tolerance
    UNION ALL
    SELECT run, source, line, step, request, coalesce(accepted_depth, accepted_drafts), commit_len, ctx_len, 'step'
    FROM judged
    WHERE CASE WHEN ends OR excused
                 THEN commit_len > coalesce(accepted_depth, accepted_drafts) + 1 + $tolerance
                 ELSE abs(coalesce(accepted_depth, accepted_drafts) + 1 - commit_len) > $tolerance END
),
-- Some keep no bonus, or none where the whole draft is accepted: then it is missing in every such step.
kept AS (
    SELECT run, bool_and(depth = commit_len) FILTER (NOT free) AND bool_and(commit_len <= depth) AS never,
        bool_and(depth = commit_len) FILTER (NOT free AND whole) AND bool_and(depth + 1 = commit_len) FILTER (NOT free AND NOT whole) AS not_behind_all
    FROM (SELECT run, commit_len, coalesce(accepted_depth, accepted_drafts) AS depth, ends OR excused AS free,
            depth = coalesce(nodes, max(depth) OVER (PARTITION BY run)) AS whole FROM judged WHERE commit_len IS NOT NULL)
    WHERE depth IS NOT NULL GROUP BY run
),
seen AS (
    SELECT run, count(*) AS checked FROM (
        SELECT run FROM acceptance WHERE coalesce(accepted_depth, accepted_drafts) IS NOT NULL
            AND (commit_len IS NOT NULL OR (accepted_depth IS NOT NULL AND accepted_drafts IS NOT NULL))
        UNION ALL
        SELECT run FROM step WHERE coalesce(accepted_depth, accepted_drafts) IS NOT NULL AND commit_len IS NOT NULL AND run IN (FROM unequal)
    ) GROUP BY run
),
summed AS (
    SELECT run, any_value(unit) AS unit, count(*) AS contradicting,
        avg(accepted_depth) AS accepted_depth, avg(commit_len) AS commit_len,
        min(accepted_depth + 1 - commit_len) AS least, max(accepted_depth + 1 - commit_len) AS most,
        (list(step ORDER BY line) FILTER (step IS NOT NULL))[:8] AS steps,
        arg_min(accepted_depth, line) AS first_depth, arg_min(commit_len, line) AS first_commit,
        arg_min(cite(source, line), line, 4) AS lines
    FROM broken GROUP BY run
),
told AS (
    SELECT
        run,
        CASE
            WHEN s.never THEN
                format('commit length is equal to the accepted depth on all {} {}s: the bonus token is not counted in the one, or the root is in the other (off by exactly one)', contradicting, unit)
            WHEN s.not_behind_all THEN
                format('all {} steps that accept the whole draft commit {:.2f} tokens, one less than with a bonus, and all others have theirs: no bonus is kept behind a whole draft', contradicting, commit_len)
            ELSE format('{} of {} {}s: accepted depth {:.2f} must commit {:.2f} tokens, {:.2f} were committed (first of them: depth {:.2f}, commit {:.2f})',
                        contradicting, checked, unit, accepted_depth, accepted_depth + 1, commit_len, first_depth, first_commit)
        END AS message,
        -- one quantity counted in two ways is a matter of names, not of wrong output
        CASE WHEN s.never OR s.not_behind_all THEN 'low' END AS severity,
        contradicting, checked, accepted_depth, commit_len, accepted_depth + 1 AS expected_commit_len, steps, lines
    FROM (
        SELECT * EXCLUDE (never, not_behind_all), contradicting >= 3 AND least >= 0.98 AND most <= 1.02 AND (contradicting = checked OR unit = 'step' AND coalesce(k.never, false)) AS never,
            contradicting >= 3 AND unit = 'step' AND coalesce(k.not_behind_all, false) AS not_behind_all
        FROM summed JOIN seen USING (run) LEFT JOIN kept k USING (run)
    ) s
),
-- A context grows by what was committed. Where a trace has the accepted rows, its proofs say more (I5);
-- a new prompt in between makes it much longer at once.
growing AS NOT MATERIALIZED (
    FROM step WHERE request IS NOT NULL AND ctx_len > 0 AND commit_len > 0 AND accepted IS NULL AND NOT coalesce(warmup, false)
),
uneven AS (  -- where all that was committed is all that it grew by, no step is looked at
    SELECT run FROM (
        SELECT run, max(ctx_len) - min(ctx_len) AS growth, sum(commit_len) - arg_max(commit_len, ctx_len) AS committed
        FROM growing GROUP BY run, request
    ) WHERE growth <> committed GROUP BY run
),
grown AS (
    SELECT run, source, line, step, commit_len, lead(ctx_len) OVER w - ctx_len AS growth, lead(step) OVER w = step + 1 AS follows
    FROM (FROM growing WHERE run IN (FROM uneven))
    WINDOW w AS (PARTITION BY run, request ORDER BY source, line)
),
strayed AS (
    SELECT run, count(*) FILTER (growth <> commit_len) AS contradicting, count(*) AS checked, avg(commit_len) FILTER (growth <> commit_len) AS commit_len, avg(growth) FILTER (growth <> commit_len) AS growth,
        (list(step ORDER BY line) FILTER (growth <> commit_len))[:8] AS steps, arg_min(cite(source, line), line, 4) FILTER (growth <> commit_len) AS lines
    FROM grown WHERE follows AND abs(growth - commit_len) <= $stray
    GROUP BY run HAVING count(*) >= $trace AND avg((growth = commit_len)::INTEGER) BETWEEN $agree AND 0.9999
)
FROM told
UNION ALL BY NAME
SELECT run, format('after {} of {} steps the context has grown by another number of tokens than was committed: by {:.2f}, {:.2f} were committed', contradicting, checked, growth, commit_len) AS message,
    NULL AS severity, contradicting, checked, commit_len, steps, lines
FROM strayed WHERE run NOT IN (SELECT run FROM told)
