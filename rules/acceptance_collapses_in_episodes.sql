-- title    = "Acceptance collapses, for a while or for good"
-- severity = "high"
-- family   = "acceptance"
-- needs    = { run = ["served"], acceptance = [], decode = [], request = [], event = [] }
-- applies  = "speculates AND served AND run IN (SELECT run FROM decode WHERE accept_len IS NOT NULL UNION SELECT run FROM acceptance UNION SELECT run FROM request WHERE verify_steps > 0)"
-- why      = "Hard text lowers acceptance, it does not end it: hundreds of drafts without one that is accepted, between healthy windows of the same server, mean that the drafter or the target worked on a state that was not the text's."
-- fix      = [
--   "List the requests that ran in these windows, with their cached tokens and finish reasons; repeat one of them on a fresh server.",
--   "Run the same traffic with the prefix cache off (--disable-radix-cache, --no-enable-prefix-caching): if the episodes are gone, a hit leaves the drafter's cache or the recurrent state stale.",
--   "Where it fell with an update of the weights, exchange the drafter with the target (or train it on), and compare on the prompts of before.",
--   "Until it is found, restart when a window accepts nothing, and read the answers of the episode: they may be wrong.",
-- ]
-- formula  = "windows with A <= 0.01 a step, at least 2 in a row and 100 steps or 300 drafts together, with healthy windows (A >= 0.3 a step) before and after; or, with A <= 0.05, at least 5 in a row and 1,000 steps or 3,000 drafts, after healthy windows and up to the end; or A at 0.6 of before at most, of 8 reports on each side of an update of the weights, none of which overlap"
-- sides    = { "accepted drafts in episodes" = "episode_drafts", "accepted drafts around them" = "healthy_drafts" }
-- unlike   = [
--   "Long contexts on which nothing is accepted, between short ones (acceptance_decays_with_context).",
--   "Idle windows: a handful of drafts, none accepted.",
--   "A policy that stops to draft above a batch size, or a simulated acceptance (acceptance_low_on_purpose).",
--   "One strange request among many: the others would still be accepted.",
--   "N-gram drafts on text that repeats nothing: few are accepted by nature.",
--   "Other prompts after an update of the weights: the same ones tell.",
--   "A decline to something above nothing, or as the context grows (acceptance_decays_with_context, position_cliff).",
-- ]
-- causes   = [
--   { name = "cache_hit", cause = "a prefix-cache hit, an abort or the request before leaves the drafter's cache or the recurrent state stale", test = "the same traffic with the prefix cache off: no episode" },
--   { name = "poisoned_state", cause = "a state inside the engine is broken for good and only some requests meet it", test = "repeat a prompt of the episode alone on a fresh server: accepted there" },
--   { name = "looping", cause = "the target itself produces garbage in the episode", test = "the same prompt without speculation, greedy: the text is sound there" },
--   { name = "update", cause = "the target's weights were exchanged and the drafter's were not", test = "the old weights back, or a drafter for the new ones: accepted as before" },
-- ]
-- reports  = ["vllm-project/vllm#55357", "vllm-project/vllm-ascend#10495", "ggml-org/llama.cpp#19231"]
-- explains = ["draft_never_accepted", "prefix_cache_conflict"]
-- params   = { floor = 0.01, nearly = 0.05, healthy = 0.3, drafts = 50, windows = 2, steps = 100.0, drafted = 300, around = 2, loop = 0.6, last = 5, longer = 10, reports = 8, kept = 0.6 }

WITH spoken_for AS (
    SELECT run FROM event WHERE kind IN ('simulated', 'adaptive')
    UNION
    SELECT run FROM run WHERE copies(algorithm)
),
-- Every report of acceptance, in order: of windows, of decode lines, of requests. Lines that count
-- since the start have no rate of their own and are left out; idle windows tell nothing.
report AS NOT MATERIALIZED (
    SELECT run, 'counter line' AS kind, source, line, coalesce(rank, '') AS rank, time, accepted_tokens / a.steps AS drafts,
        a.steps, drafted_tokens AS drafted, NULL AS running, ctx_len
    FROM (SELECT * REPLACE (coalesce(steps, drafted_tokens / coalesce(len(positions), 1)) AS steps) FROM acceptance) a
    WHERE drafted_tokens >= $drafts AND accept_rate IS NOT NULL
    UNION ALL
    SELECT run, 'counter line', source, line, coalesce(rank, ''), time, coalesce(commit_len - 1, accepted_drafts), NULL, NULL, batch, ctx_len
    FROM acceptance WHERE drafted_tokens IS NULL AND coalesce(commit_len - 1, accepted_drafts) IS NOT NULL
    UNION ALL
    SELECT d.run, 'decode line', d.source, d.line, coalesce(d.rank, ''), d.time, d.accept_len - 1, d.running * coalesce(r.log_interval, 40), NULL,
        d.running, d.ctx_len
    FROM decode d JOIN run r USING (run) WHERE d.usable AND d.accept_len IS NOT NULL
    UNION ALL
    SELECT run, 'request', source, line, '', time, coalesce(correct_drafts / verify_steps, commit_len - 1), verify_steps, proposed_drafts, NULL, prompt_tokens
    FROM request WHERE verify_steps >= 10
),
-- An episode takes dead reports and healthy ones: most runs have not even as many.
mixed AS (
    SELECT DISTINCT run, kind FROM (
        SELECT run, kind FROM report GROUP BY run, kind, rank
        HAVING count(*) FILTER (drafts <= $nearly) >= $windows AND count(*) FILTER (drafts >= $healthy) >= 2 * $around)
    WHERE run NOT IN (FROM spoken_for)
),
state AS (
    SELECT *, CASE WHEN drafts <= $nearly THEN 'dead' WHEN drafts >= $healthy THEN 'healthy' ELSE 'between' END AS state
    FROM report SEMI JOIN mixed USING (run, kind)
),
parted AS (
    SELECT *, sum(CASE WHEN changed THEN 1 ELSE 0 END) OVER (PARTITION BY run, kind, rank ORDER BY source, line) AS stretch
    FROM (SELECT *, (state = 'dead') IS DISTINCT FROM lag(state = 'dead') OVER (PARTITION BY run, kind, rank ORDER BY source, line) AS changed FROM state)
),
stretch AS (
    SELECT run, kind, rank, stretch, bool_or(state = 'dead') AS dead, count(*) AS windows, count(*) FILTER (state = 'healthy') AS healthy,
        count(*) FILTER (drafts <= $floor) AS none, sum(steps) FILTER (drafts <= $floor) AS none_steps, sum(drafted) FILTER (drafts <= $floor) AS none_drafted,
        sum(steps) AS steps, sum(drafted) AS drafted, min(running) AS running_min, max(running) AS running_max, median(ctx_len) AS ctx_len, median(drafts) AS drafts,
        min(source) AS source, min(line) AS first_line, max(line) AS last_line, arg_min(cite(source, line), line, 2) AS lines
    FROM parted GROUP BY run, kind, rank, stretch
),
around AS (
    SELECT s.*,
        sum(healthy) OVER (PARTITION BY run, kind, rank ORDER BY stretch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS healthy_before,
        sum(healthy) OVER (PARTITION BY run, kind, rank ORDER BY stretch ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS healthy_after,
        stretch = max(stretch) OVER (PARTITION BY run, kind, rank) AS last
    FROM stretch s
),
batch AS (  -- healthy at these batch sizes, and up to this context
    SELECT run, kind, max(running) AS running_max, median(ctx_len) AS ctx_len, median(drafts) AS drafts, arg_max(cite(source, line), line) AS place
    FROM state WHERE state = 'healthy' GROUP BY run, kind
),
dead_time AS (
    SELECT a.* FROM around a JOIN batch b USING (run, kind)
    WHERE a.dead AND a.healthy_before >= $around
        -- what accepts a little is a chance's work only where there is much of it
        AND (a.none >= $windows AND (a.none_steps >= $steps OR a.none_drafted >= $drafted OR (a.steps IS NULL AND a.none >= 5))
            OR (a.windows >= $last AND (a.steps >= $longer * $steps OR a.drafted >= $longer * $drafted)))
        -- Nothing after it shows that the drafter still works: what is dead to the end must be so for longer.
        AND (a.healthy_after >= $around
            OR (a.last AND a.healthy_before >= 2 * $around AND a.windows >= $last AND (a.steps >= $longer * $steps OR a.drafted >= $longer * $drafted)))
        AND (a.kind <> 'decode line' OR coalesce(a.none_steps, a.steps) >= 2 * $steps OR a.steps >= $longer * $steps)
        AND NOT coalesce(a.running_min > b.running_max, false)
),
-- Contexts at which most of the reports accept nothing are no episode: that is
-- acceptance_decays_with_context. What is dead to the end may well be most of them.
at_length AS (
    SELECT d.run, d.kind, d.rank, d.stretch FROM dead_time d JOIN batch b USING (run, kind)
    JOIN state s ON s.run = d.run AND s.kind = d.kind AND s.ctx_len >= d.ctx_len
    WHERE d.ctx_len > b.ctx_len
    GROUP BY d.run, d.kind, d.rank, d.stretch, d.last
    HAVING avg((s.state = 'dead')::INTEGER) >= 0.5 AND NOT (d.last AND count(*) FILTER (s.state = 'healthy') >= 2 * $around)
),
episode AS (FROM dead_time ANTI JOIN at_length USING (run, kind, rank, stretch)),
-- Answers that ended in an episode.
answer AS (
    SELECT e.run, e.kind, e.stretch, count(*) AS requests, count(*) FILTER (q.finish = 'length') AS cut,
        count(*) FILTER (repetition(q.text) >= $loop) AS looping,
        max(q.cached_tokens) AS cached_tokens
    FROM episode e JOIN request q ON q.run = e.run AND q.source = e.source AND q.line BETWEEN e.first_line AND e.last_line
    GROUP BY e.run, e.kind, e.stretch
),
summed AS (
    SELECT e.run, e.kind, count(*) AS episodes, bool_or(e.last) AS last, max(e.drafts) AS drafts_most, sum(e.windows)::BIGINT AS windows, sum(e.steps) AS steps, sum(e.drafted)::BIGINT AS drafted,
        min(e.first_line) AS first_line, max(e.last_line) AS last_line, coalesce(sum(a.looping), 0)::BIGINT AS looping, coalesce(sum(a.requests),
            0)::BIGINT AS requests,
        coalesce(sum(a.cut), 0)::BIGINT AS cut, max(a.cached_tokens) AS cached_tokens, flatten(list(e.lines ORDER BY e.windows DESC)) AS lines
    FROM episode e LEFT JOIN answer a USING (run, kind, stretch) GROUP BY e.run, e.kind
),
-- Weights that are exchanged part the reports: those before an update are compared with those after it.
sided AS (
    SELECT r.run, r.kind, r.rank, u.line AS update, r.drafts, r.source, r.line,
        row_number() OVER (PARTITION BY r.run, r.kind, r.rank, r.source, u.line ORDER BY r.line) AS nth,
        row_number() OVER (PARTITION BY r.run, r.kind, r.rank, r.source, u.line ORDER BY r.line DESC) AS back
    FROM report r
    ASOF LEFT JOIN (SELECT run, source, line FROM event WHERE kind = 'update' AND regexp_matches(detail, '(?i)weights')) u
        ON u.run = r.run AND u.source = r.source AND u.line < r.line
    WHERE r.run IN (SELECT run FROM event WHERE kind = 'update') AND r.run NOT IN (FROM spoken_for)
),
side AS (  -- the first report after it covers both
    SELECT run, kind, rank, source, update, count(*) AS reports,
        min(drafts) FILTER (back <= $reports) AS before_least, avg(drafts) FILTER (back <= $reports) AS before, arg_max(cite(source, line), line) AS before_place,
        max(drafts) FILTER (nth BETWEEN 2 AND $reports + 1) AS after_most, avg(drafts) FILTER (nth BETWEEN 2 AND $reports + 1) AS after, min(cite(source, line)) FILTER (nth = 2) AS after_place
    FROM sided GROUP BY run, kind, rank, source, update
),
exchanged AS (
    SELECT * FROM (
        SELECT *, lag(before_least) OVER own AS least, lag(before) OVER own AS was, lag(before_place) OVER own AS place, lag(reports) OVER own AS reports_before
        FROM side WINDOW own AS (PARTITION BY run, kind, rank, source ORDER BY update NULLS FIRST)
    )
    WHERE reports_before >= $reports AND reports > $reports AND was >= $healthy AND after_most < least AND after <= $kept * was
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY after / was, source, update) = 1
),
told AS (
    SELECT
        s.run,
        format('{} {} in {} accept {} draft{}, {} others that accept {:.2f} a step{}', s.windows,
            CASE s.kind WHEN 'counter line' THEN 'windows' WHEN 'request' THEN 'requests' ELSE 'decode lines' END,
            CASE WHEN s.episodes = 1 THEN 'a row' ELSE format('{} episodes', s.episodes) END, CASE WHEN s.drafts_most <= $floor THEN 'no' ELSE 'hardly a' END,
            CASE WHEN s.drafted > 0 THEN format(' of {:,}', s.drafted) WHEN s.steps > 0 THEN format(' in {:,.0f} steps', s.steps) ELSE '' END,
            CASE WHEN s.last AND s.episodes = 1 THEN 'the last ones, after' ELSE 'between' END, b.drafts, CASE WHEN s.looping > 0 THEN format('; {} of {} answers of the episode repeat themselves', s.looping, s.requests)
                ELSE '' END) AS message,
        CASE WHEN s.looping > 0 THEN 'critical' ELSE 'high' END AS severity,
        s.episodes, s.windows, s.steps, s.drafted, s.drafts_most AS episode_drafts, b.drafts AS healthy_drafts, s.first_line, s.last_line, s.looping AS looping_answers, s.requests AS answers,
        CASE WHEN s.looping > 0 THEN ['looping'] WHEN s.cached_tokens > 0 THEN ['cache_hit'] ELSE [] END AS causes,
        list_concat(s.lines[:3], [b.place]) AS lines
    FROM summed s JOIN batch b USING (run, kind)
    QUALIFY row_number() OVER (PARTITION BY s.run ORDER BY s.windows DESC, s.kind) = 1
)
FROM told
UNION ALL BY NAME
SELECT
    run,
    format('{:.2f} drafts a step are accepted after an update of the weights, {:.2f} before it: none of {} reports on one side is as the other', after, was, 2 * $reports) AS message,
    'medium' AS severity, after AS episode_drafts, was AS healthy_drafts, ['update'] AS causes, [place, cite(source, update), after_place] AS lines
FROM exchanged WHERE run NOT IN (SELECT run FROM told)
