-- title    = "Acceptance is low from the first window on"
-- severity = "high"
-- family   = "acceptance"
-- needs    = { commit_mean = ["commit_len"], rival = [], difference = [], run = [], acceptance = [], request = [], event = [], decode = [], config = [], benchmark = [] }
-- applies  = "speculates AND served"
-- enable   = "keep the decode lines or the response records of at least 200 steps"
-- why      = "A drafter that works elsewhere and is accepted less here from its first line on, at every length, is fed something else or computes something else here. Hard text gives the same figure: only the same prompts, or the positions, tell the two apart."
-- formula  = "C against another run of the same drafter on the same prompts: more than 20 % and three standard errors lower, also in the first third; or, alone and flat, first position of a trained drafter below 0.45 (without positions C - 1, which is no less), or below 0.5 and the next ones, once it is accepted, 0.25 better"
-- sides    = { "commit length" = "commit_len", "same drafter elsewhere" = "other_commit_len", "first draft accepted" = "first_share", "second, once the first is" = "second_share" }
-- unlike   = [
--   "Other prompts, thinking on in one run only, other lengths of answers: no verdict (table hindrance).",
--   "Acceptance that starts well and falls (acceptance_decays_with_context) or collapses in episodes.",
--   "Another version, layout or temperature: acceptance_regressed, acceptance_lost_under_layout, sampling_lowers_acceptance.",
--   "Fewer drafts or nodes than in the other run: a lower ceiling. A window or threshold that was set is told as low.",
-- ]
-- causes   = [
--   { name = "draft_precision", cause = "the drafter inherits a quantisation, or its experts are left in another number format", test = "set the drafter's quantisation explicitly to none: acceptance comes back" },
--   { name = "target_changed", cause = "the target was quantised again, rotated or fine-tuned, and the stock drafter does not fit it", test = "the original target with the same drafter: acceptance comes back" },
--   { name = "backend", cause = "another attention backend or graph path of the drafter", test = "the other run's attention backend, graphs off: acceptance comes back" },
--   { name = "features", cause = "the drafter is fed other layers: numbering off by one, or states from before the sum over ranks", test = "tensor parallelism 1, no fusion, one greedy prompt: compare per position; then shift the layer ids by one" },
--   { name = "text", cause = "the text is hard for this drafter", test = "predictable text (a list of numbers) with the same settings: many tokens a step there, so the drafter is sound" },
-- ]
-- fix      = [
--   "Run the same greedy prompts in a set-up where this drafter is known to work, and compare per position.",
--   "Check the drafter's quantisation and attention backend in the start-up log, and set both explicitly.",
-- ]
-- explains = ["slower_than_baseline", "acceptance_below_published"]
-- reports  = ["sgl-project/sglang#25454", "sgl-project/sglang#28343", "vllm-project/vllm#42704", "vllm-project/vllm#47854", "ggml-org/llama.cpp#25792"]
-- params   = { drop = 0.2, errors = 3.0, floor = 1.05, drift = 0.2, first = 0.5, rise = 0.25, poor = 0.45, rare = 0.3, without = 0.1, windows = 10, steps = 1000.0, trained = '.*(EAGLE|DFLASH|MTP|MEDUSA|HYDRA|DSPARK).*' }

WITH told AS (
    SELECT run, against, bool_or(kind IN ('version', 'layout') OR key ILIKE '%simulat%') AS elsewhere,
        -- chosen for speed, and known to cost acceptance
        bool_or(kind = 'draft' AND regexp_matches(key, 'window|sink|bonus|threshold|p_min|token_map|vocab|capacity|confidence|limit')) AS traded,
        -- llama.cpp's longest draft; what is unset there may be anything
        bool_or(regexp_matches(key, '^draft$|draft_(?:max|n_max|n)$') AND coalesce(TRY_CAST(value AS INTEGER) < TRY_CAST(other AS INTEGER), true)) AS fewer,
        bool_or(kind = 'quantisation') AS target_changed, bool_or(kind = 'draft') AS draft, bool_or(kind = 'kernel') AS kernel,
        list(format('{}={} (there {})', key, coalesce(value, 'unset'), coalesce(other, 'unset')) ORDER BY kind NOT IN ('draft', 'quantisation'), kind <> 'kernel', key) AS differs
    FROM difference GROUP BY run, against
),
heat AS (SELECT run, avg(temperature) AS temperature FROM request WHERE temperature IS NOT NULL GROUP BY run),
-- dummy weights agree on nothing
sound AS (
    SELECT * FROM run WHERE speculates AND run NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive') UNION SELECT run FROM config WHERE key = 'load_format' AND value ILIKE 'dummy')
),
compared AS (
    SELECT r.run, r.against,
        format('commit length is {:.2f} from the first third on ({:.2f}), {:.2f} with the same drafter elsewhere ({:.0f} % lower, {:.1f} standard errors){}{}',
            r.commit_len, r.first_third, r.other_len, 100 * (1 - r.commit_len / r.other_len), r.errors,
            CASE WHEN len(t.differs) > 0 THEN format('; they differ in {}{}', array_to_string(t.differs[:4], ', '), CASE WHEN len(t.differs) > 4 THEN format(' and {} more', len(t.differs) - 4) ELSE '' END)
                 ELSE '; no setting is known to differ' END,
            CASE WHEN r.same_prompts IS NULL THEN '; whether the prompts are the same is not known' ELSE '' END) AS message,
        CASE WHEN r.same_prompts IS NULL OR t.traded THEN 'low' END AS severity, 1 - r.commit_len / r.other_len AS impact,
        r.commit_len, r.other_len AS other_commit_len, sqrt(r.error ** 2 + r.other_error ** 2) AS error, t.differs,
        list_filter([CASE WHEN t.target_changed THEN 'target_changed' END, CASE WHEN t.draft THEN 'draft_precision' END, CASE WHEN t.kernel THEN 'backend' END],
            lambda one: one IS NOT NULL) AS causes,
        list_concat(r.lines[:2], r.other_lines[:2]) AS lines
    FROM rival r JOIN sound a ON a.run = r.run JOIN sound b ON b.run = r.against
    LEFT JOIN told t ON t.run = r.run AND t.against = r.against
    LEFT JOIN heat x ON x.run = r.run LEFT JOIN heat y ON y.run = r.against
    WHERE r.commit_len > $floor AND r.commit_len < (1 - $drop) * r.other_len AND r.errors > sure($errors)
        AND r.first_third < (1 - $drop / 2) * r.other_len AND abs(r.first_third - r.last_third) <= $drift * r.commit_len
        AND NOT coalesce(t.elsewhere, false) AND NOT coalesce(t.fewer, false)
        AND a.algorithm IS NOT DISTINCT FROM b.algorithm AND a.tree = b.tree AND a.shadow = b.shadow AND a.draft_model IS NOT DISTINCT FROM b.draft_model
        AND a.algorithm IS NOT NULL AND NOT copies(a.algorithm)
        AND coalesce(a.draft_tokens >= b.draft_tokens, true) AND coalesce(a.budget >= b.budget, true) AND coalesce(a.top_k >= b.top_k, true)
        AND coalesce(abs(x.temperature - y.temperature) <= 0.05, true)
    QUALIFY row_number() OVER (PARTITION BY r.run ORDER BY r.declared DESC, r.errors DESC, r.against) = 1
),
-- Shares of steps that accept at least one, two and three drafts.
position AS (
    SELECT run, sum(weight) AS steps, sum(weight * p1) / sum(weight) AS p1, sum(weight * p2) / sum(weight) AS p2, sum(weight * p3) / sum(weight) AS p3, arg_min(place, place, 4) AS lines
    FROM (
        SELECT run, accepted_tokens / nullif(list_sum(positions), 0) AS weight, positions[1] AS p1, positions[2] AS p2, positions[3] AS p3, cite(source, line) AS place
        FROM acceptance WHERE len(positions) >= 3 AND accepted_tokens > 0
        UNION ALL
        SELECT run, list_sum(histogram), list_sum(histogram[2:]) / list_sum(histogram), list_sum(histogram[3:]) / list_sum(histogram), list_sum(histogram[4:]) / list_sum(histogram), cite(source, line)
        FROM request WHERE len(histogram) >= 4 AND list_sum(histogram) > 0
    ) WHERE weight > 0 GROUP BY run
),
-- Where no positions are told, the first draft is accepted at most as often as there are drafts accepted.
first AS (
    SELECT p.run, p.steps, p1, p2 / p1 AS second, p3 / nullif(p2, 0) AS third, m.commit_len, m.error, m.first_third, m.last_third, p.lines,
        p1 < $first AND p2 / p1 - p1 > $rise AND p3 / nullif(p2, 0) - p1 > $rise AS rises
    FROM position p JOIN commit_mean m ON m.run = p.run AND m.kind IN ('acceptance', 'request')
    WHERE m.rows >= 5
    QUALIFY row_number() OVER (PARTITION BY p.run ORDER BY m.kind) = 1
    UNION ALL
    SELECT m.run, m.steps, m.commit_len - 1, NULL, NULL, m.commit_len, m.error, m.first_third, m.last_third, m.lines, false
    FROM commit_mean m JOIN (
        -- a policy that drafts now and then has lines without any
        SELECT run FROM decode WHERE usable AND accept_len IS NOT NULL GROUP BY run HAVING avg((accept_len <= 1.01)::INTEGER) <= $without
    ) USING (run)
    WHERE m.kind = 'decode' AND m.rows >= $windows AND m.run NOT IN (SELECT run FROM position)
),
alone AS (
    SELECT p.run, NULL AS against,
        CASE WHEN rises THEN format('the first draft is accepted in {:.0f} % of the steps, but the second in {:.0f} % and the third in {:.0f} % of those that reach it: the drafter continues well what it starts badly',
                100 * p1, 100 * second, 100 * third)
            WHEN second IS NULL THEN format('commit length is {:.2f} from the first third on ({:.2f}) to the last ({:.2f}): the first draft is accepted in {:.0f} % of the steps at most', p.commit_len, first_third, last_third, 100 * p1)
            ELSE format('commit length is {:.2f} from the first third on ({:.2f}) to the last ({:.2f}): the first draft is accepted in {:.0f} % of the steps only, the second in {:.0f} % of those that reach it',
                p.commit_len, first_third, last_third, 100 * p1, 100 * second) END AS message,
        CASE WHEN NOT rises AND p1 >= $rare THEN 'medium' END AS severity, NULL AS impact, p.commit_len, NULL AS other_commit_len, p.error, p1 AS first_share, second AS second_share, []::VARCHAR[] AS differs,
        CASE WHEN rises THEN ['features', 'text'] ELSE ['features', 'draft_precision', 'target_changed', 'text'] END AS causes, p.lines AS lines
    FROM first p JOIN sound a ON a.run = p.run
    LEFT JOIN heat x ON x.run = p.run
    WHERE (rises OR (p1 < $poor AND a.algorithm SIMILAR TO $trained))
        AND p.steps >= $steps AND p.commit_len > $floor AND abs(first_third - last_third) <= $drift * p.commit_len
        AND coalesce(x.temperature <= 0.3, true) AND NOT a.tree AND coalesce(a.draft_tokens >= 3, true)
        AND (a.algorithm SIMILAR TO $trained OR a.algorithm SIMILAR TO '.*(DRAFT_MODEL|STANDALONE).*')
        AND p.run NOT IN (SELECT run FROM compared) AND (rises OR p.run NOT IN (SELECT run FROM rival))
        AND p.run NOT IN (SELECT run FROM benchmark WHERE dataset ILIKE '%random%')  -- tokens that follow from nothing
)
FROM compared UNION ALL BY NAME FROM alone
