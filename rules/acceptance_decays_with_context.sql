-- title    = "Acceptance decays with context"
-- severity = "medium"
-- needs    = { commit_sample = ["commit_len", "ctx_len"], decode = [], step = [] }
-- enough   = 15
-- applies  = "speculates AND served"
-- enable   = "run longer contexts, or log more often (--decode-log-interval)"
-- why      = "A drafter that was trained on short text, or reads only a window of it, loses its target as the context grows: the commit length falls while the step gets no cheaper."
-- fix      = [
--   "Repeat with the same predictable text at a short and a long context: if the commit length holds there, the text is hard and the drafter sound.",
--   "Use a drafter tuned for long contexts, or its window setting; check its RoPE scaling.",
--   "Until then limit speculation, or the number of drafts, beyond the length where the commit length crosses break-even.",
-- ]
-- params   = { drop = 0.25, range = 3.0, per_bin = 5, chance = 2.4, order = 0.4 }

-- Contexts in equal steps of the logarithm; a bin needs a few lines (or steps: they scatter, so
-- the fall must also be several standard errors). Lines of another batch size are left out.
WITH usual AS (
    SELECT run, kind, mode(coalesce(running, 1)) AS running
    FROM commit_sample WHERE kind IN ('decode', 'acceptance', 'step') AND ctx_len > 0 GROUP BY run, kind
),
sample AS (
    SELECT s.* FROM commit_sample s JOIN usual u
        ON u.run = s.run AND u.kind = s.kind AND coalesce(s.running, 1) = u.running
    WHERE s.ctx_len > 0
),
-- Each text has an acceptance of its own: three texts at three lengths fall in order by chance.
-- A witness is a request (a stretch of decode lines without a prompt between them) at a length;
-- the order of all of them (Kendall's tau) must be more than chance.
told AS (
    SELECT s.run, s.kind, s.source, s.line, s.ctx_len, s.commit_len, coalesce(d.rank, '') AS rank,
        coalesce(t.request, '') AS request, coalesce(d.after_prefill, false) AS after_prefill
    FROM sample s
    LEFT JOIN decode d ON s.kind = 'decode' AND d.source = s.source AND d.line = s.line
    LEFT JOIN step t ON s.kind = 'step' AND t.source = s.source AND t.line = s.line
),
texted AS (
    SELECT *, sum(CASE WHEN fresh THEN 1 ELSE 0 END) OVER (PARTITION BY run, kind, rank, request ORDER BY source, line) AS text
    FROM (SELECT *, after_prefill OR ctx_len < lag(ctx_len) OVER (PARTITION BY run, kind, rank, request ORDER BY source, line) AS fresh FROM told)
),
witness AS (
    SELECT run, kind, avg(ctx_len) AS ctx_len, avg(commit_len) AS commit_len
    FROM texted GROUP BY run, kind, rank, request, text, round(3 * ln(ctx_len))
    HAVING kind <> 'step' OR count(*) >= $per_bin
),
ranked AS (
    SELECT *, count(*) OVER (PARTITION BY run, kind) AS n FROM witness
    QUALIFY row_number() OVER (PARTITION BY run, kind ORDER BY hash(ctx_len, commit_len)) <= 1000
),
ordered AS (
    SELECT a.run, a.kind, sum(sign(b.commit_len - a.commit_len)) AS score, any_value(least(a.n, 1000)) AS n
    FROM ranked a JOIN ranked b ON b.run = a.run AND b.kind = a.kind AND b.ctx_len > a.ctx_len
    GROUP BY a.run, a.kind
),
extent AS (
    SELECT run, kind, ln(min(ctx_len)) AS low, ln(max(ctx_len)) AS high FROM sample GROUP BY run, kind
    HAVING max(ctx_len) >= $range * min(ctx_len)
),
binned AS (
    SELECT s.*, least(floor(5 * (ln(s.ctx_len) - low) / (high - low)), 4) AS bin FROM sample s JOIN extent USING (run, kind)
),
bin AS (
    SELECT run, kind, bin, count(*) AS rows, avg(commit_len) AS mean, median(ctx_len) AS ctx_len,
        stddev_samp(commit_len) / sqrt(count(*)) AS error,
        var_pop(commit_len) AS spread, arg_min(cite(source, line), line) AS place
    FROM binned GROUP BY run, kind, bin HAVING count(*) >= $per_bin
),
stepped AS (
    SELECT *, lag(mean) OVER w AS before, row_number() OVER w AS nth,
        first_value(mean) OVER w AS first_mean, first_value(error) OVER w AS first_error
    FROM bin WINDOW w AS (PARTITION BY run, kind ORDER BY bin)
),
edge AS (  -- the shortest and the longest tenth, for the message
    SELECT run, kind, avg(commit_len) FILTER (place <= 0.1) AS shortest_commit_len, avg(commit_len) FILTER (place >= 0.9) AS longest_commit_len,
        median(ctx_len) FILTER (place <= 0.1) AS shortest_ctx, median(ctx_len) FILTER (place >= 0.9) AS longest_ctx
    FROM (SELECT *, percent_rank() OVER (PARTITION BY run, kind ORDER BY ctx_len) AS place FROM sample) GROUP BY run, kind
),
summed AS (
    SELECT run, kind, count(*) AS bins,
        any_value(first_mean) AS short_commit_len, arg_max(mean, bin) AS long_commit_len,
        sqrt(any_value(first_error) ** 2 + arg_max(error, bin) ** 2) AS error,
        bool_and(before IS NULL OR mean <= before * 1.05) AS monotone,
        1 - sum(spread * rows) / nullif(sum(rows * (spread + mean ** 2)) - sum(rows * mean) ** 2 / sum(rows), 0) AS explained,
        first_few(list(place)) AS lines
    FROM stepped GROUP BY run, kind
)
SELECT
    run,
    format('commit length falls from {:.2f} at {:,.0f} tokens of context to {:.2f} at {:,.0f}', shortest_commit_len, shortest_ctx, longest_commit_len, longest_ctx) AS message,
    shortest_commit_len, longest_commit_len, shortest_ctx, longest_ctx, explained AS share_explained_by_context, lines
FROM summed JOIN edge USING (run, kind) JOIN ordered USING (run, kind)
WHERE bins >= 3
    AND long_commit_len - 1 < (1 - $drop) * (short_commit_len - 1)
    AND long_commit_len < (1 - $drop / 2) * short_commit_len
    AND short_commit_len - long_commit_len > 4 * error
    AND score < -$chance * sqrt(n * (n - 1) * (2 * n + 5) / 18) AND score < -$order * n * (n - 1) / 2
QUALIFY row_number() OVER (PARTITION BY run ORDER BY bins DESC, kind) = 1
