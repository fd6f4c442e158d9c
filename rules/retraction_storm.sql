-- title    = "Requests are thrown out of a full KV pool again and again"
-- severity = "high"
-- family   = "capacity"
-- needs    = { decode = [], event = [], prefill = [], request = [], metric = [] }
-- applies  = "run IN (SELECT run FROM decode WHERE running IS NOT NULL) OR run IN (SELECT run FROM metric WHERE regexp_matches(name, 'num_preemptions|num_retracted_requests'))"
-- why      = "The pool holds fewer tokens than the admitted requests grow to. A request that is retracted is prefilled again, prompt and answer so far, and the same tokens are paid for twice."
-- fix      = [
--   "Admit fewer: lower --max-running-requests, or raise --schedule-conservativeness so that the estimate of what requests grow to is higher.",
--   "Make the pool larger: raise --mem-fraction-static if memory is free, use an 8-bit KV cache, fewer draft tokens or a smaller draft.",
--   "Refuse what can never fit: a limit on prompt plus answer length below the pool's size.",
-- ]
-- formula  = "at least 5 retractions at more than one a minute, or above 5 % of the finished requests, with the pool above 90 % full"
-- sides    = { "retractions" = "retractions", "fullest pool" = "usage_max" }
-- unlike   = [
--   "A single retraction in many minutes.",
--   "A pool that is full of cached prefixes: usage at its ceiling without retractions.",
-- ]
-- causes   = [
--   { name = "admission", cause = "more requests are admitted than the pool can hold to their end", test = "--max-running-requests at half: no retraction" },
--   { name = "pool", cause = "draft weights, draft cache and over-reservation left too small a pool", test = "the same load without speculation: the pool is larger by what the draft took" },
--   { name = "length", cause = "a few very long requests fill the pool", test = "a limit on prompt plus answer length" },
-- ]
-- reports  = ["sgl-project/sglang#14972", "sgl-project/sglang#14948", "vllm-project/vllm#52530"]
-- explains = ["no_recovery_after_retraction"]
-- params   = { least = 5, per_minute = 1.0, seconds = 20.0, gap_s = 120.0, share_of_finished = 0.05, usage = 0.9, ratio = 0.85 }

-- Every rank of a replica prints the same retraction: the rank with the most of them stands for all.
-- SGLang writes a line for each, vLLM counts them in its decode lines (and once named some of them).
-- A line without ratio and name is the server's own test mode.
-- A server that was only scraped: its counter, its pool and its queue at each scrape.
WITH scraped AS (
    SELECT *, nullif(regexp_extract(labels, '(?:^|,)(?:engine|dp_rank)="([^"]*)"', 1), '') AS rank, value - lag(value) OVER (PARTITION BY source, name, labels ORDER BY scrape) AS growth
    FROM metric WHERE regexp_matches(name, '^(?:vllm:(?:num_preemptions|kv_cache_usage_perc|gpu_cache_usage_perc|num_requests_waiting)|sglang:(?:num_retracted_requests|(?:full_)?token_usage|num_queue_reqs))(?:_total)?$')
        AND coalesce(regexp_extract(labels, '(?:^|,)tp_rank="([^"]*)"', 1), '') IN ('', '0')
        AND run NOT IN (SELECT run FROM event WHERE kind = 'retraction') AND run NOT IN (SELECT run FROM decode WHERE retracted > 0)
),
written AS (
    SELECT run, source, line, time, rank, value AS requests, 1 AS times, "after" AS ratio, detail
    FROM event WHERE kind = 'retraction' AND ("after" IS NOT NULL OR name IS NOT NULL)
    UNION ALL
    -- of a decode node of SGLang the same column is the number that waits, not a count
    SELECT run, source, line, time, rank, retracted, retracted, NULL, NULL
    FROM decode WHERE retracted > 0 AND prompt_tokens_per_s IS NOT NULL
    UNION ALL
    SELECT run, source, line, time, rank, growth, growth::BIGINT, NULL, NULL FROM scraped WHERE regexp_matches(name, 'preemptions|retracted') AND growth > 0
),
printed AS (
    SELECT *, coalesce(rank, '') AS rank_key, sum(times) OVER (PARTITION BY run, coalesce(rank, '')) AS of_rank
    FROM written
),
retraction AS (
    SELECT * FROM printed
    QUALIFY dense_rank() OVER (PARTITION BY run ORDER BY of_rank DESC, rank_key) = 1
),
-- Retractions that follow each other closely are one episode.
parted AS (
    SELECT *, sum(CASE WHEN apart THEN 1 ELSE 0 END) OVER (PARTITION BY run ORDER BY time, source, line) AS episode
    FROM (SELECT *, coalesce(epoch(time) - epoch(lag(time) OVER (PARTITION BY run ORDER BY time, source, line)) > $gap_s, true) AS apart
          FROM retraction WHERE time IS NOT NULL)
),
episode AS (
    SELECT run, episode, sum(times) AS retractions,
        epoch(max(time)) - epoch(min(time)) AS span_s,
        sum(times) >= $least AND count(*) > 1
            AND (sum(times) - 1) * 60.0 >= $per_minute * (epoch(max(time)) - epoch(min(time)))
            AND epoch(max(time)) - epoch(min(time)) >= $seconds AS dense
    FROM parted GROUP BY run, episode
),
finished AS (
    SELECT run, count(*) AS requests FROM request GROUP BY run
),
-- All retractions where they are many among what was finished, else those of the dense episodes.
counted AS (
    SELECT s.run, coalesce(sum(s.requests) > $share_of_finished * any_value(f.requests) AND any_value(f.requests) >= 20, false) AS many
    FROM retraction s LEFT JOIN finished f ON f.run = s.run GROUP BY s.run
),
storm AS (
    SELECT s.* FROM retraction s JOIN counted c USING (run)
    WHERE c.many OR EXISTS (
        FROM parted p JOIN episode e ON e.run = p.run AND e.episode = p.episode
        WHERE e.dense AND p.run = s.run AND p.source = s.source AND p.line = s.line
    )
),
-- How full the pool was: the lines next to the retraction, which lowers it. A pool that never was
-- full is looked at no further.
usage_line AS NOT MATERIALIZED (
    SELECT run, source, line, greatest(usage, swa_usage, state_usage) AS usage, queued FROM decode
    UNION ALL
    SELECT run, source, line, greatest(usage, swa_usage, state_usage), queued FROM prefill
    UNION ALL
    SELECT run, source, min(line), max(value) FILTER (name LIKE '%usage%'), max(value) FILTER (regexp_matches(name, 'waiting|queue'))::BIGINT FROM scraped GROUP BY run, source, scrape
),
pressed AS (
    SELECT run FROM usage_line WHERE usage >= $usage AND run IN (SELECT run FROM storm) GROUP BY run
    UNION
    SELECT run FROM storm GROUP BY run HAVING median(ratio) >= $ratio
),
seen AS (
    SELECT r.*, u.usage AS used, u.queued
    FROM (FROM storm WHERE run IN (FROM pressed)) r ASOF LEFT JOIN (FROM usage_line WHERE run IN (FROM pressed)) u ON u.run = r.run AND u.source = r.source AND u.line <= r.line
),
dense AS (
    SELECT run, count(*) AS episodes, sum(span_s) AS span_s, sum(retractions)::BIGINT AS retractions
    FROM episode WHERE dense GROUP BY run
),
summed AS (
    SELECT run, sum(times)::BIGINT AS retractions, sum(requests)::BIGINT AS requests,
        min(used) AS usage_min, max(used) AS usage_max, avg((used >= $usage)::INTEGER) AS full_share,
        median(ratio) AS ratio, arg_min(queued, (source, line)) AS queued_first, arg_max(queued, (source, line)) AS queued_last,
        sum(TRY_CAST(detail AS BIGINT))::BIGINT AS tokens_freed,
        arg_min(cite(source, line), line, 4) AS lines
    FROM seen GROUP BY run
)
SELECT
    s.run,
    format('{} retractions{}{}: the pool {}{}{}', s.retractions,
        CASE WHEN s.requests > s.retractions THEN format(' of {} requests', s.requests) ELSE '' END,
        CASE WHEN d.span_s > 0 THEN format(' in {:.0f} s, {:.1f} a minute{}', d.span_s, 60 * (d.retractions - d.episodes) / d.span_s,
                 CASE WHEN d.episodes > 1 THEN format(', in {} episodes', d.episodes) ELSE '' END) ELSE '' END,
        CASE WHEN usage_max IS NULL THEN 'was full' ELSE format('was up to {:.0f} % full', 100 * least(usage_max, 1)) END,
        CASE WHEN ratio IS NOT NULL THEN format(', the new-token ratio jumps to {:.2f} (median)', ratio) ELSE '' END,
        CASE WHEN queued_last > queued_first THEN format(', the queue grew from {} to {}', queued_first, queued_last) ELSE '' END) AS message,
    s.retractions, s.requests, d.span_s, 60 * (d.retractions - d.episodes) / nullif(d.span_s, 0) AS per_minute,
    usage_min, usage_max, ratio AS ratio_median, queued_first, queued_last, tokens_freed, f.requests AS finished,
    lines
FROM summed s LEFT JOIN dense d USING (run) LEFT JOIN finished f USING (run)
WHERE s.retractions >= $least AND (coalesce(full_share >= 0.5, false) OR coalesce(ratio >= $ratio, false))
