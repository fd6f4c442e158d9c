-- title    = "Acceptance decays with context"
-- severity = "medium"
-- family   = "acceptance"
-- needs    = { commit_sample = ["commit_len", "ctx_len"], decode = [], step = [], acceptance = [], prefill = [], event = [], run = [] }
-- enough   = 15
-- applies  = "speculates AND served"
-- enable   = "run longer contexts, or log more often (--decode-log-interval)"
-- why      = "A drafter that was trained on short text, or reads only a window of it, loses its target as the context grows: the commit length falls while the step gets no cheaper."
-- fix      = [
--   "Repeat with the same predictable text at a short and a long context: if the commit length holds there, the text is hard and the drafter sound.",
--   "Use a drafter tuned for long contexts, or its window setting; check its RoPE scaling.",
--   "Until then limit speculation, or the number of drafts, beyond the length where the commit length crosses break-even.",
-- ]
-- formula  = "median C in the lowest third of the contexts against the highest, with the contexts at least 3x apart, and a rank correlation of C with context that chance does not give; or C <= 1.01 on all of at least 10 lines and 1,000 steps beyond some context, and C >= 1.5 below it"
-- sides    = { "commit length, long context" = "longest_commit_len", "commit length, short context" = "shortest_commit_len" }
-- unlike   = [
--   "A batch that grew at the same time: more requests, not more context.",
--   "Text that changes with the position in the prompt (code first, prose later): the control is the same predictable text at each length.",
--   "Requests that were retracted and start again.",
-- ]
-- causes   = [
--   { name = "limit", cause = "beyond this context the drafter has no positions, no rows in its cache, or no window left", test = "its max_position_embeddings and context length against the edge; the same text with both raised: accepted beyond it" },
--   { name = "training", cause = "the drafter was trained on short sequences, or reads a window of the context", test = "the same predictable text at 1k and at 32k: C falls with the drafter, and holds where only the text was hard" },
--   { name = "rope", cause = "the drafter or the target is run with another RoPE scaling than it was trained with", test = "the same prompt with the published RoPE settings in the drafter's config.json" },
--   { name = "draft_cache", cause = "the drafter loses rows of its own context as a request goes on", test = "a step trace of one request: draft_context_wrong names the first step" },
-- ]
-- reports  = ["sgl-project/sglang#30763", "vllm-project/vllm#47602"]
-- params   = { drop = 0.25, range = 3.0, per_bin = 5, per_window = 3, chance = 2.6, walk = 3.2, order = 0.4, floor = 1.01, alive = 1.5, beyond = 10, steps = 1000 }

-- Contexts in equal steps of the logarithm; a bin needs a few lines or steps. They scatter, so
-- the fall must also be several standard errors. Lines of another batch size are left out. A window or
-- a request counts hundreds of steps: fewer of them will do.
WITH size AS (
    SELECT run, kind, coalesce(running, 1) AS running, count(*) AS rows, min(line) AS line, min(ctx_len) AS low, max(ctx_len) AS high
    FROM commit_sample WHERE kind IN ('decode', 'acceptance', 'step') AND ctx_len > 0 GROUP BY ALL
),
usual AS (
    FROM size QUALIFY row_number() OVER (PARTITION BY run, kind ORDER BY rows DESC, line) = 1
),
-- Only where C falls between the ends is the rest worth its time.
trend AS (
    SELECT s.run, s.kind, least(floor(5 * (ln(s.ctx_len) - ln(u.low)) / (ln(u.high) - ln(u.low))), 4) AS bin,
        avg(s.commit_len) AS mean, stddev_samp(s.commit_len) / sqrt(count(*)) AS error
    FROM commit_sample s JOIN usual u ON u.run = s.run AND u.kind = s.kind AND coalesce(s.running, 1) = u.running
    WHERE s.ctx_len > 0 AND u.high >= $range * u.low
    GROUP BY s.run, s.kind, bin HAVING count(*) >= CASE s.kind WHEN 'acceptance' THEN $per_window ELSE $per_bin END
),
fallen AS (
    SELECT run, kind, any_value(u.running) AS running, any_value(u.low) AS low, any_value(u.high) AS high, count(*) AS bins
    FROM trend JOIN usual u USING (run, kind) GROUP BY run, kind
    HAVING count(*) >= 2
        AND arg_max(mean, bin) - 1 < (1 - $drop) * (arg_min(mean, bin) - 1)
        AND arg_max(mean, bin) < (1 - $drop / 2) * arg_min(mean, bin)
        AND arg_min(mean, bin) - arg_max(mean, bin) > 4 * sqrt(arg_min(error, bin) ** 2 + arg_max(error, bin) ** 2)
),
sample AS (
    SELECT s.run, s.kind, s.source, s.line, s.ctx_len, s.commit_len, coalesce(s.steps, 1) AS weight, least(floor(5 * (ln(s.ctx_len) - ln(f.low)) / (ln(f.high) - ln(f.low))), 4) AS bin
    FROM commit_sample s JOIN fallen f ON f.run = s.run AND f.kind = s.kind AND coalesce(s.running, 1) = f.running
    WHERE s.ctx_len > 0
),
-- Each text has an acceptance of its own: three texts at three lengths fall in order by chance.
-- So either many texts fall in order, or one text does that grew long. A text is a request, or a
-- stretch of lines with no prompt in it. The order (Kendall's tau) must be more than chance.
told_of_requests AS (  -- llama.cpp: each row is a request, and so a text
    SELECT run, source, line FROM acceptance WHERE requests = 1 AND accepted_tokens IS NOT NULL
),
admitted AS (
    SELECT run, source * 1000000000000 + line AS place, row_number() OVER (PARTITION BY run ORDER BY source, line) AS nth
    FROM prefill WHERE run IN (SELECT run FROM fallen WHERE kind = 'acceptance')
),
told AS (  -- every row, also those too rough for a mean: a prompt may stand before one of them
    SELECT run, 'decode' AS kind, source, line, coalesce(rank, '') AS rank, '' AS request, ctx_len, coalesce(after_prefill, false) AS fresh FROM decode
    WHERE run IN (SELECT run FROM fallen WHERE kind = 'decode')
    UNION ALL
    SELECT run, 'step', source, line, '', coalesce(request, ''), ctx_len, false FROM step
    WHERE run IN (SELECT run FROM fallen WHERE kind = 'step')
    UNION ALL
    SELECT s.run, kind, source, line, '', '', ctx_len,
        (source, line) IN (SELECT (source, line) FROM told_of_requests) OR coalesce(a.nth > lag(coalesce(a.nth, 0)) OVER (PARTITION BY s.run ORDER BY source, line), false)
    FROM (FROM sample WHERE kind = 'acceptance') s ASOF LEFT JOIN admitted a ON a.run = s.run AND s.source * 1000000000000 + s.line >= a.place
),
series AS (
    SELECT *, row_number() OVER () AS series FROM (SELECT DISTINCT run, kind, rank, request FROM told)
),
row AS (
    SELECT s.series, t.run, t.kind, t.rank, t.source, t.line, t.ctx_len, t.fresh FROM told t JOIN series s USING (run, kind, rank, request)
),
opening AS (  -- of a text
    SELECT series, source * 1000000000000 + line AS place FROM row QUALIFY fresh OR ctx_len < lag(ctx_len) OVER (PARTITION BY series ORDER BY source, line)
),
texted AS (
    SELECT s.*, r.rank, r.series || ' ' || coalesce(o.place, 0) AS text
    FROM sample s JOIN row r USING (run, kind, source, line)
    ASOF LEFT JOIN opening o ON o.series = r.series AND s.source * 1000000000000 + s.line >= o.place
),
witness AS (  -- a text at a length
    SELECT run, kind, rank, text, avg(ctx_len) AS ctx_len, avg(commit_len) AS commit_len, min([source, line]) AS place
    FROM texted
    GROUP BY run, kind, rank, text, round(3 * ln(texted.ctx_len))
    HAVING kind <> 'step' OR count(*) >= $per_bin
),
whole AS (
    SELECT run, kind, rank, avg(ctx_len) AS ctx_len, avg(commit_len) AS commit_len, min(place) AS place FROM witness GROUP BY run, kind, rank, witness.text
),
-- Stretches of a busy server share most of their requests with the one before, and so their context
-- and their acceptance: two slow walks agree for long. They count as many times less as there are
-- requests that stay, and where they are many also by what they remember (Bartlett). Rows of one request
-- each share none.
memory AS (
    SELECT w.run, w.kind, 'texts' AS across,
        greatest(1, any_value(b.running) * count(*) / nullif(any_value(p.requests), 0),
            CASE WHEN w.kind = 'acceptance' AND w.run IN (SELECT run FROM told_of_requests) THEN 1
                WHEN count(*) >= 20 THEN (1 + any_value(kept)) / (1 - any_value(kept))
                WHEN w.kind = 'acceptance' AND any_value(b.running) > 1 THEN count(*) END) AS fewer  -- too few to tell what they remember
    FROM (
        SELECT run, kind, least(0.99, greatest(0, coalesce(corr(ln(ctx_len), ln(ctx_before)), 0)) * greatest(0, coalesce(corr(commit_len, commit_before), 0))) AS kept
        FROM (SELECT *, lag(ctx_len) OVER w AS ctx_before, lag(commit_len) OVER w AS commit_before FROM whole WINDOW w AS (PARTITION BY run, kind, rank ORDER BY place))
        GROUP BY run, kind
    ) JOIN whole w USING (run, kind)
    -- Steps are told apart by their request.
    LEFT JOIN (SELECT run, max(running) AS running FROM usual GROUP BY run) b ON b.run = w.run AND w.kind <> 'step'
    LEFT JOIN (SELECT run, sum(new_requests) AS requests FROM prefill GROUP BY run) p ON p.run = w.run AND w.kind <> 'step'
    GROUP BY w.run, w.kind
),
point AS (
    SELECT run, kind, 'texts' AS across, ctx_len, commit_len, '' AS text FROM whole
    UNION ALL
    SELECT run, kind, 'lengths', ctx_len, commit_len, text FROM (
        FROM witness QUALIFY max(ctx_len) OVER (PARTITION BY run, kind, text) >= $range * min(ctx_len) OVER (PARTITION BY run, kind, text))
),
counted AS (  -- a thousand of them say it all
    SELECT *, dense_rank() OVER (ORDER BY run, kind, across, text) AS nth, count(*) OVER (PARTITION BY run, kind, across, text) AS n FROM (
        FROM point QUALIFY row_number() OVER (PARTITION BY run, kind, across ORDER BY hash(ctx_len, commit_len)) <= 1000)
),
compared AS (
    SELECT a.nth, sum(sign(b.commit_len - a.commit_len)) AS score
    FROM counted a JOIN counted b ON b.nth = a.nth AND b.ctx_len > a.ctx_len GROUP BY a.nth
),
tally AS (
    SELECT run, kind, across, any_value(score) AS score, any_value(n) AS n FROM counted JOIN compared USING (nth) GROUP BY run, kind, across, nth
),
ordered AS (
    SELECT run, kind FROM (
        SELECT run, kind, across, sum(score) AS score, sqrt(coalesce(any_value(m.fewer), 1) * sum(n * (n - 1) * (2 * n + 5) / 18)) AS chance, sum(n * (n - 1) / 2) AS pairs,
            any_value(m.fewer) > 1 AS estimated  -- what they remember, from the same few
        FROM tally LEFT JOIN memory m USING (run, kind, across) GROUP BY run, kind, across)
    WHERE score < -sure(CASE WHEN estimated THEN $walk ELSE $chance END) * chance AND score < -$order * pairs
    GROUP BY run, kind
),
bin AS (
    SELECT run, kind, bin, count(*) AS rows, avg(commit_len) AS mean, var_pop(commit_len) AS spread, arg_min(cite(source, line), line) AS place
    FROM sample GROUP BY run, kind, bin HAVING count(*) >= CASE kind WHEN 'acceptance' THEN $per_window ELSE $per_bin END
),
edge AS (  -- the shortest and the longest tenth, for the message
    SELECT run, kind, avg(commit_len) FILTER (place <= 0.1) AS shortest_commit_len, avg(commit_len) FILTER (place >= 0.9) AS longest_commit_len,
        median(ctx_len) FILTER (place <= 0.1) AS shortest_ctx, median(ctx_len) FILTER (place >= 0.9) AS longest_ctx
    FROM (SELECT *, percent_rank() OVER (PARTITION BY run, kind ORDER BY ctx_len) AS place FROM sample) GROUP BY run, kind
),
summed AS (
    SELECT run, kind,
        1 - sum(spread * rows) / nullif(sum(rows * (spread + mean ** 2)) - sum(rows * mean) ** 2 / sum(rows), 0) AS explained,
        first_few(list(place)) AS lines
    FROM bin GROUP BY run, kind
),
-- Or nothing at all is accepted beyond some context. One strange text does that, too: so it must be one
-- that was accepted before it grew so long, or several.
reach AS (
    SELECT run, kind, max(ctx_len) FILTER (commit_len > $floor) AS last_ctx FROM texted GROUP BY run, kind
),
dead AS (
    SELECT run, kind, last_ctx, avg(commit_len) FILTER (ctx_len <= last_ctx) AS commit_len, min(ctx_len) FILTER (ctx_len > last_ctx) AS dead_ctx,
        count(*) FILTER (ctx_len > last_ctx) AS rows, count(DISTINCT text) FILTER (ctx_len > last_ctx) AS texts,
        len(list_intersect(list(text) FILTER (commit_len > $floor), list(text) FILTER (ctx_len > last_ctx))) > 0 AS outlived,
        list_concat(arg_max(cite(source, line), ctx_len, 1) FILTER (ctx_len <= last_ctx), arg_min(cite(source, line), ctx_len, 3) FILTER (ctx_len > last_ctx)) AS lines
    FROM texted JOIN reach USING (run, kind) GROUP BY run, kind, last_ctx
    HAVING count(*) FILTER (ctx_len > last_ctx) >= $beyond AND sum(weight) FILTER (ctx_len > last_ctx) >= $steps
),
ended AS (
    FROM dead WHERE commit_len >= $alive AND (outlived OR texts >= 3)
        AND run NOT IN (SELECT run FROM run WHERE copies(algorithm))
        AND run NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive'))
)
SELECT
    run,
    CASE WHEN d.rows > 0 THEN format('no draft is accepted from {:,.0f} tokens of context on ({} lines), and up to {:,.0f} the commit length is {:.2f}', d.dead_ctx, d.rows, d.last_ctx, d.commit_len)
        ELSE format('commit length falls from {:.2f} at {:,.0f} tokens of context to {:.2f} at {:,.0f}', shortest_commit_len, shortest_ctx, longest_commit_len, longest_ctx) END AS message,
    CASE WHEN d.rows > 0 THEN 'high' END AS severity,
    shortest_commit_len, longest_commit_len, shortest_ctx, longest_ctx, explained AS share_explained_by_context,
    CASE WHEN d.rows > 0 THEN ['limit', 'draft_cache', 'rope'] ELSE ['training', 'rope', 'draft_cache'] END AS causes, coalesce(d.lines, s.lines) AS lines
FROM summed s JOIN edge USING (run, kind) JOIN fallen USING (run, kind) LEFT JOIN ended d USING (run, kind)
WHERE d.rows > 0 OR (bins >= 3 AND (run, kind) IN (SELECT (run, kind) FROM ordered))
QUALIFY row_number() OVER (PARTITION BY run ORDER BY bins DESC, kind) = 1
