-- title    = "Prefix cache and speculation hurt each other"
-- severity = "high"
-- family   = "acceptance"
-- needs    = { run = ["served"], baseline = [], prefill = [], request = [], decode = [], config = [] }
-- applies  = "speculates AND served AND run IN (SELECT run FROM prefill WHERE cached_tokens IS NOT NULL UNION SELECT run FROM request WHERE cached_tokens IS NOT NULL)"
-- why      = "A cached prefix saves its prefill, and nothing else may change. Where speculation reserves so much that prefixes are evicted, prompts are computed again; where the drafter's own cache is not filled on a hit, drafts after it are refused."
-- fix      = [
--   "Compare the hit ratio by prompt depth with speculation on and off, on the same turns.",
--   "Try the same traffic with the prefix cache off: a commit length that recovers proves that hits leave the drafter without its context.",
--   "A larger pool (--mem-fraction-static) or fewer draft tokens leaves room for prefixes.",
-- ]
-- formula  = "sum(cached) / sum(prompt) against the run without speculation on the same turns: less than 0.6 of it; or (C_cold - C_cached) / (C_cold - 1) >= 0.25 in cells of the same prompt length, three standard errors apart"
-- sides    = { "commit length, cached prefix" = "cached_commit_len", "commit length, cold prefix" = "cold_commit_len", "cached with speculation" = "hit_ratio", "cached without it" = "baseline_hit_ratio" }
-- unlike   = [
--   "Unique prompts, and a cache too small for the turns with speculation or without: both ratios are low.",
--   "Other turns: runs whose prompts do not add up to the same.",
--   "Later turns are longer and another text: only prompts of the same length are compared.",
--   "A count of cached tokens that one release reports as zero, while prefill and first tokens are as fast as before.",
-- ]
-- causes   = [
--   { name = "draft_cache", cause = "the drafter's cache is not filled for a prefix that was hit", test = "--disable-radix-cache (vLLM --no-enable-prefix-caching), same turns: the commit length of cached prompts recovers" },
--   { name = "eviction", cause = "draft pool and reserved slots leave no room, prefixes are evicted", test = "half the running limit, one flag: the hit ratio recovers" },
--   { name = "keys", cause = "prefixes are stored under other keys than they are looked up with (page size, drafts in the key, last block dropped)", test = "send one prompt twice on an idle server: the second is not cached either" },
-- ]
-- reports  = ["sgl-project/sglang#32459", "sgl-project/sglang#10846", "sgl-project/sglang#17193", "vllm-project/vllm#53670"]
-- params   = { ratio = 0.6, least = 0.3, prompts = 8, same = 0.15, full = 0.95, hit = 0.3, cold = 0.05, drop = 0.25, errors = 3.0, each = 5 }

WITH off AS (
    SELECT DISTINCT run FROM config
    WHERE (key ILIKE '%disable_radix_cache' AND value ILIKE 'true') OR (key ILIKE '%enable_prefix_caching' AND value ILIKE 'false')
),
pool AS (
    SELECT run, max(usage) AS usage FROM (SELECT run, usage FROM decode UNION ALL SELECT run, usage FROM prefill)
    WHERE run IN (SELECT run FROM baseline UNION SELECT against FROM baseline) GROUP BY run
),
-- How much of the prompts came from the cache, by what the run shows of it.
cached AS (
    SELECT run, 'prefill' AS kind, count(*) AS prompts, sum(cached_tokens) AS cached, sum(cached_tokens + new_tokens) AS tokens, NULL AS ttft_s,
        arg_max(cite(source, line), new_tokens, 2) AS lines
    FROM prefill WHERE cached_tokens IS NOT NULL AND new_tokens IS NOT NULL GROUP BY run
    UNION ALL
    SELECT run, 'request', count(*), sum(cached_tokens), sum(prompt_tokens), median(ttft_s), arg_max(cite(source, line), prompt_tokens - cached_tokens, 2)
    FROM request WHERE cached_tokens IS NOT NULL AND prompt_tokens > 0 GROUP BY run
),
ratio AS (
    SELECT s.run, b.run AS against, s.kind, s.cached / s.tokens AS hit, b.cached / b.tokens AS baseline_hit, s.prompts, s.tokens,
        s.ttft_s / b.ttft_s AS ttft, ps.usage, pb.usage AS baseline_usage, list_concat(s.lines, b.lines) AS lines
    FROM baseline p
    JOIN cached s ON s.run = p.run JOIN cached b ON b.run = p.against AND b.kind = s.kind
    LEFT JOIN pool ps ON ps.run = s.run LEFT JOIN pool pb ON pb.run = b.run
    WHERE s.tokens > 0 AND b.tokens > 0 AND s.prompts >= $prompts AND b.prompts >= $prompts
        AND abs(s.tokens - b.tokens) <= $same * b.tokens
        AND s.run NOT IN (FROM off)
        AND NOT (s.kind = 'request' AND s.cached = 0 AND NOT coalesce(s.ttft_s >= 1.3 * b.ttft_s, false))  -- not counted, or not cached?
),
collapsed AS (
    SELECT *, NULL::DOUBLE AS cold_commit_len, NULL::DOUBLE AS cached_commit_len, NULL::DOUBLE AS error, NULL::DOUBLE AS impact FROM ratio
    WHERE baseline_hit >= $least AND hit < $ratio * baseline_hit AND NOT coalesce(baseline_usage >= $full AND usage >= $full, false)
),
-- The commit length of a text, and how much of its prompt was cached: of requests, or of decode lines
-- that one prompt alone stands before.
mixed AS (  -- with enough prompts of either kind
    SELECT run FROM prefill WHERE new_requests = 1 GROUP BY run
    HAVING count(*) FILTER (cached_tokens >= $hit * (cached_tokens + new_tokens)) >= $each AND count(*) FILTER (cached_tokens <= $cold * (cached_tokens + new_tokens)) >= $each
),
text AS (
    SELECT run, 'request' AS kind, cached_tokens AS cached, prompt_tokens AS prompt, commit_len, coalesce(temperature, -1) AS temperature,
        cite(source, line) AS place
    FROM request WHERE cached_tokens IS NOT NULL AND prompt_tokens > 0 AND verify_steps >= 20
    UNION ALL
    SELECT d.run, 'decode', any_value(f.cached_tokens), any_value(f.cached_tokens + f.new_tokens), avg(d.accept_len), -1, cite(any_value(d.source),
        min(d.line))
    FROM (FROM decode WHERE usable AND accept_len IS NOT NULL AND running = 1 AND run IN (FROM mixed)) d
    ASOF JOIN (SELECT run, source, coalesce(rank, '') AS rank_key, line, new_requests, new_tokens, cached_tokens FROM prefill WHERE run IN (FROM mixed)) f
        ON f.run = d.run AND f.source = d.source AND f.rank_key = coalesce(d.rank, '') AND f.line <= d.line
    WHERE f.new_requests = 1
    GROUP BY d.run, d.source, f.rank_key, f.line HAVING count(*) >= 2
),
cell AS (
    SELECT run, kind, temperature, round(ln(prompt) / ln(1.5)) AS length, cached >= $hit * prompt AS hit, count(*) AS n, avg(commit_len) AS commit_len,
        var_samp(commit_len) AS variance, arg_min(place, commit_len, 2) AS lines
    FROM text WHERE prompt > 0 AND (cached >= $hit * prompt OR cached <= $cold * prompt) GROUP BY run, kind, temperature, length, hit HAVING count(*) >= 2
),
paired AS (
    SELECT h.run, h.kind, least(h.n, c.n) AS weight, h.commit_len, c.commit_len AS cold, h.variance / h.n + c.variance / c.n AS variance, h.n,
        c.n AS cold_n,
        list_concat(h.lines, c.lines) AS lines
    FROM cell h JOIN cell c USING (run, kind, temperature, length) WHERE h.hit AND NOT c.hit
),
after AS (
    SELECT run, kind, sum(weight * commit_len) / sum(weight) AS cached_commit_len, sum(weight * cold) / sum(weight) AS cold_commit_len,
        sqrt(sum(weight ** 2 * variance)) / sum(weight) AS error, sum(n)::BIGINT AS prompts, sum(cold_n) AS cold_prompts, arg_max(lines, weight) AS lines
    FROM paired GROUP BY run, kind
),
lower AS (
    SELECT * FROM after
    WHERE prompts >= $each AND cold_prompts >= $each AND run NOT IN (FROM off)
        AND cold_commit_len - cached_commit_len > greatest(sure($errors) * error, $drop * (cold_commit_len - 1), 0.1)
),
found AS (
    SELECT run, against, kind, 1 AS nth,
        format('{:.0f} % of the prompt tokens come from the cache, without speculation {:.0f} % on the same turns{}{}', 100 * hit, 100 * baseline_hit,
            CASE WHEN ttft >= 1.1 THEN format('; the first token takes {:.1f} times as long', ttft) ELSE '' END,
            CASE WHEN usage >= $full THEN format('; the pool is up to {:.0f} % full', 100 * usage) ELSE '' END) AS message,
        impact, hit AS hit_ratio, baseline_hit AS baseline_hit_ratio, cached_commit_len, cold_commit_len, prompts,
        CASE WHEN usage >= $full THEN ['eviction'] ELSE ['keys', 'eviction'] END AS causes, lines
    FROM collapsed
    UNION ALL BY NAME
    SELECT run, kind, 0 AS nth,
        format('{} prompts with a cached prefix commit {:.2f} tokens a step, cold ones of the same length {:.2f} ({:.1f} standard errors apart)',
            prompts, cached_commit_len, cold_commit_len,
            (cold_commit_len - cached_commit_len) / greatest(error, 1e-9)) AS message,
        1 - cached_commit_len / cold_commit_len AS impact, cached_commit_len, cold_commit_len, prompts, ['draft_cache'] AS causes, lines
    FROM lower
)
SELECT run, against, message, impact, hit_ratio, baseline_hit_ratio, cached_commit_len, cold_commit_len, prompts, causes, lines
FROM found QUALIFY row_number() OVER (PARTITION BY run ORDER BY nth, kind) = 1
