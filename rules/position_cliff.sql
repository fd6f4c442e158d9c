-- title    = "Drafts beyond a position are never accepted"
-- severity = "medium"
-- family   = "acceptance"
-- needs    = { run = ["served"], acceptance = [], request = [], decode = [], benchmark = [] }
-- applies  = "speculates AND served AND NOT copies(algorithm) AND run IN (SELECT run FROM acceptance WHERE positions IS NOT NULL UNION SELECT run FROM request WHERE histogram IS NOT NULL UNION SELECT run FROM benchmark WHERE positions IS NOT NULL)"
-- why      = "A draft is accepted only with all drafts before it, so acceptance by position falls gently. Where it stops dead behind a healthy position, the drafter does not see what it needs for the next one; where it fades out long before the last, most of each verification is thrown away."
-- fix      = [
--   "Draft no deeper than the last position that is accepted in 15 % of the steps; sweep the depths around it, the best one is a sharp peak.",
--   "A cliff that moves forward as the context grows: update the server, its sliding-window draft layers read the wrong part of the context.",
--   "Never draft deeper than the block or the number of steps that the drafter was trained for.",
-- ]
-- formula  = "a_k = steps that accept at least k drafts; with q = median(a_1 / steps, a_2 / a_1, ..., a_L / a_(L-1)) position L + 1 should have a_L q, and has less than a tenth of it"
-- sides    = { "last position accepted" = "last_accepted_position", "positions drafted" = "drafted_positions" }
-- unlike   = [
--   "Acceptance that fades: each position has about the same share of the one before it.",
--   "A draft of changing length: what was not drafted was not refused. Only steps that must have drafted so deep count.",
--   "A window of a few steps, where a late position has no accepted draft by chance.",
--   "A tree: its nodes are no positions.",
-- ]
-- causes   = [
--   { name = "window", cause = "sliding-window layers of the drafter run as full attention, or its positions are wrong beyond a length", test = "the same prompt cut to 1,000 tokens: positions behind the cliff are accepted there" },
--   { name = "depth", cause = "the drafter is asked for more drafts than the block it was trained with", test = "half as many draft tokens, one flag: the same commit length at a cheaper step" },
--   { name = "text", cause = "the text is too free for long chains", test = "a prompt that asks to repeat a paragraph: accepted to the last position there" },
-- ]
-- reports  = ["ggml-org/llama.cpp#22931", "ggml-org/llama.cpp#25908", "sgl-project/sglang#13553", "vllm-project/vllm#40898"]
-- explains = ["acceptance_decays_with_context", "slower_than_baseline"]
-- params   = { live = 0.02, least = 4.0, expected = 5.0, ratio = 0.1, first = 0.2, steps = 200.0, windows = 5, window_steps = 50.0, keep = 0.15, dead = 0.5, drafted = 3.0 }

-- Share of steps by position: as servers print it for a window or a request, or from histograms.
WITH window_line AS (
    SELECT run, 'window' AS kind, source, line, positions AS share, len(positions) AS width, drafted_tokens AS drafted, accepted_tokens AS accepted,
        CASE WHEN accepted_tokens > 0 AND list_sum(positions) > 0 THEN accepted_tokens / list_sum(positions)
            ELSE drafted_tokens / len(positions) END AS steps,
        -- every share is rounded to three decimals
        CASE WHEN accepted_tokens > 0 AND list_sum(positions) > 0.0005 * len(positions)
            THEN accepted_tokens / (list_sum(positions) - 0.0005 * len(positions)) ELSE steps END AS steps_most
    FROM acceptance WHERE len(positions) >= 3 AND drafted_tokens > 0
    UNION ALL
    SELECT run, 'window', source, line, positions, len(positions), verify_steps * len(positions), verify_steps * list_sum(positions), verify_steps, verify_steps
    FROM benchmark WHERE len(positions) >= 3 AND verify_steps > 0
),
record AS (
    SELECT q.run, 'record' AS kind, q.source, q.line, q.verify_steps AS steps, q.histogram,
        least(greatest(len(q.histogram) - 1, coalesce(ceil(q.proposed_drafts / q.verify_steps), r.draft_tokens - 1, 0)), 4096)::BIGINT AS width,
        q.proposed_drafts
    FROM request q JOIN run r ON r.run = q.run AND NOT r.tree
    WHERE q.verify_steps > 0 AND len(q.histogram) > 1
),
reported AS (
    FROM window_line
    UNION ALL BY NAME
    SELECT run, kind, source, line, width, steps, steps AS steps_most, coalesce(proposed_drafts, width * steps) AS drafted, list_sum(list_transform(histogram, lambda h,
        i: h * (i - 1))) AS accepted,
        list_transform(range(1, width + 1), lambda k: coalesce(list_sum(histogram[k + 1:]), 0) / steps) AS share
    FROM record WHERE width >= 3
),
-- How far a window reaches: a few accepted drafts at a position, not one by chance.
reach AS (
    SELECT w.*, d.usage,
        coalesce(list_max(list_filter(range(1, width + 1), lambda k: share[k] * steps >= greatest($least, $live * steps))), 0) AS live
    FROM reported w ASOF LEFT JOIN (SELECT run, source, line, usage FROM decode WHERE usage IS NOT NULL) d
        ON d.run = w.run AND d.source = w.source AND d.line <= w.line
),
-- Windows that reach equally far are one group: a cliff may move while the context grows. Records
-- are short, and each ends somewhere: they count only together.
member AS (
    SELECT *, 'reach ' || live AS part FROM reach WHERE kind = 'window' AND steps >= $window_steps
    UNION ALL
    SELECT *, 'all ' || kind FROM reach
),
-- What must have been drafted at position k, whatever the lengths were: with n drafts in s steps of
-- at most w, at least (n - s (k - 1)) / (w - k + 1) steps got there. Steps are known as well as the
-- shares that a line prints: drafts that all end at one length would seem to go on by the rounding.
spot AS (
    SELECT run, part, width, k, sum(share[k] * steps) AS accepted, sum(steps) AS steps,
        sum(least(steps, greatest(0, (drafted - steps_most * (k - 1)) / (width - k + 1)))) AS seen
    FROM (SELECT *, unnest(range(1, width + 1)) AS k FROM member) GROUP BY run, part, width, k
),
curve AS (
    SELECT run, part, width, any_value(steps) AS steps, list(accepted ORDER BY k) AS accepted, list(seen ORDER BY k) AS seen
    FROM spot GROUP BY run, part, width
),
edge AS (
    SELECT *, coalesce(list_max(list_filter(range(1, width + 1), lambda k: accepted[k] >= greatest($least, $live * steps))), 0) AS live FROM curve
),
tested AS (
    SELECT *, accepted[1] / steps AS first_share, accepted[live] / steps AS last_share, accepted[live + 1] AS observed, seen[live + 1] AS tried,
        accepted[live] * seen[live + 1] / steps
            * list_median(list_transform(range(1, live + 1), lambda k: accepted[k] / CASE WHEN k = 1 THEN steps ELSE accepted[k - 1] END)) AS expected,
        coalesce(list_max(list_filter(range(1, live + 1), lambda k: accepted[k] >= $keep * steps)), 1) AS keep
    FROM edge WHERE live >= 1 AND live < width
),
placed AS (
    SELECT t.*, m.windows, m.accepted_drafts, m.drafts, m.usage, m.lines
    FROM tested t
    JOIN (SELECT run, part, width, count(*) AS windows, sum(accepted) AS accepted_drafts, sum(drafted) AS drafts, median(usage) AS usage,
              arg_max(cite(source, line), steps, 2) AS lines
          FROM member GROUP BY run, part, width) m USING (run, part, width)
    WHERE first_share >= $first
),
cliff AS (
    FROM placed WHERE expected >= $expected AND observed <= $ratio * expected AND tried >= $window_steps
),
-- All groups with a cliff together must be more than an accident.
cliffs AS (
    SELECT run, sum(steps) AS steps, sum(windows) AS windows, min(live) AS live, max(live) AS live_most, max(width) AS width,
        arg_min(first_share, live) AS first_share, arg_min(last_share, live) AS last_share, sum(expected) AS expected, sum(observed) AS observed,
        arg_min(keep, live) AS keep, max(usage) AS usage, flatten(list(lines ORDER BY live)) AS lines
    FROM cliff WHERE part NOT LIKE 'all%' GROUP BY run HAVING sum(steps) >= $steps AND sum(windows) >= $windows
    UNION ALL
    SELECT run, steps, windows, live, live, width, first_share, last_share, expected, observed, keep, usage, lines
    FROM cliff WHERE part LIKE 'all%' AND steps >= $steps
),
-- Other windows of the same run that reach further.
better AS (
    SELECT c.run, count(*) AS windows, max(m.live) AS live, median(m.usage) AS usage, arg_max(cite(m.source, m.line), m.live) AS place
    FROM cliffs c JOIN member m ON m.run = c.run AND m.part NOT LIKE 'all%' AND m.live >= 2 * c.live_most GROUP BY c.run
),
found AS (
    SELECT c.run, CASE WHEN c.live <= 2 THEN 'high' ELSE 'medium' END AS severity,
        format('no draft behind position {} of {} is accepted in {:,.0f} steps{}: position {} still is in {:.0f} %, and {:,.0f} drafts should pass the next one{}',
            c.live_most, c.width, c.steps,
            CASE WHEN c.live < c.live_most THEN format(', later none behind position {}', c.live) ELSE '' END,
            c.live, 100 * c.last_share, c.expected,
            CASE WHEN b.windows >= 3 THEN format('; {} other windows reach position {}{}', b.windows, b.live,
                CASE WHEN b.usage < 0.8 * c.usage THEN format(', at {:.1f} % of the KV cache in use instead of {:.1f} %', 100 * b.usage,
                    100 * c.usage) ELSE '' END) ELSE '' END) AS message,
        c.live AS last_accepted_position, c.width AS drafted_positions, c.first_share, c.steps, c.expected, c.observed, c.keep AS positions_worth_drafting,
        CASE WHEN b.windows >= 3 AND coalesce(b.usage < 0.8 * c.usage, true) THEN ['window'] ELSE ['depth', 'window'] END AS causes,
        list_concat(c.lines[:3], CASE WHEN b.place IS NULL THEN [] ELSE [b.place] END) AS lines, 0 AS nth
    FROM cliffs c LEFT JOIN better b USING (run)
    UNION ALL
    SELECT run, 'medium',
        format('{} of {} drafted positions are accepted in less than {:.0f} % of {:,.0f} steps: {:.1f} tokens are verified for each that is committed', width - live, width, 100 * $live, steps,
            (drafts + steps) / (accepted_drafts + steps)),
        live, width, first_share, steps, NULL, NULL, keep, ['depth', 'text'], lines, 1
    FROM placed
    WHERE part LIKE 'all%' AND steps >= $steps AND tried >= 2 * $window_steps AND width - live >= $dead * width
        AND drafts >= $drafted * (accepted_drafts + steps)
)
SELECT run, message, severity, last_accepted_position, drafted_positions, first_share, steps, expected, observed, positions_worth_drafting, causes, lines
FROM found QUALIFY row_number() OVER (PARTITION BY run ORDER BY nth, steps DESC) = 1
