-- title    = "The benchmark measured something else, too"
-- severity = "low"
-- family   = "metrics"
-- needs    = { benchmark = ["tokens_per_s"], run = [], peer = [], decode = [], prefill = [], config = [], difference = [] }
-- why      = "A figure is worth what can be repeated: the same prompts, nobody else on the server, a cold or an equally warm cache, graphs on, enough requests, and the commit length beside every speed."
-- fix      = [
--   "Repeat both arms in one life of the server, in both orders, with the same prompts and a flushed cache.",
--   "Take text that people write, not random tokens: what a drafter cannot know it cannot draft.",
--   "Give tokens a step and milliseconds a step with each speed.",
-- ]
-- formula  = "any of: running > max concurrency; random tokens as prompts; cached share of the prompts 0.2 apart; no graphs; fewer requests than twice the concurrency, or under 5 s; two equal arms whose speeds differ by 10 % as their commit lengths do"
-- unlike   = [
--   "Arms that differ on purpose: another algorithm, budget or number of drafts.",
--   "One request at a time on one idle server, over hundreds of prompts: nothing to say.",
-- ]
-- causes   = [
--   { name = "other_clients", cause = "other requests ran in the same window", test = "the same benchmark on an idle server" },
--   { name = "random_tokens", cause = "the prompts are random tokens, which no drafter knows", test = "the same shape with --dataset-name sharegpt" },
--   { name = "warm_cache", cause = "one arm found its prompts in the prefix cache", test = "flush the cache before each arm" },
--   { name = "eager", cause = "graphs were off", test = "drop --disable-cuda-graph or --enforce-eager" },
--   { name = "short", cause = "too few requests: start and end of the batch weigh as much as the middle", test = "ten times as many prompts" },
--   { name = "text", cause = "the arms wrote other text, and were accepted differently", test = "greedy, the same prompts: compare milliseconds a step" },
-- ]
-- params   = { apart = 0.2, seconds = 5.0, fold = 2.0, spread = 0.1, share = 0.2 }

WITH bench AS (
    SELECT b.*, r.speculates, r.algorithm AS ran FROM benchmark b JOIN run r USING (run) WHERE b.tokens_per_s > 0
),
argument AS (
    SELECT run, key, arg_max(value, line) AS value, arg_max(cite(source, line), line) AS place FROM config GROUP BY run, key
),
-- More requests in the batch than the client had open, in a server log that belongs to it.
crowd AS (
    SELECT b.run, max(b.max_concurrency) AS most, max(d.running) AS running, count(*) FILTER (d.running > 1.05 * m.most) AS crowded, count(*) AS lines,
        arg_max(cite(d.source, d.line), d.running, 2) AS places
    FROM bench b JOIN (SELECT run, max(max_concurrency) AS most FROM bench GROUP BY run) m USING (run) JOIN decode d ON d.run = b.run AND d.usable
    GROUP BY b.run
),
cached AS (
    SELECT run, sum(cached_tokens) / sum(cached_tokens + new_tokens) AS share, arg_max(cite(source, line), cached_tokens) AS place FROM prefill
    WHERE cached_tokens + new_tokens > 0 GROUP BY run HAVING count(*) >= 5
),
artefact AS (
    SELECT run, 'other_clients' AS what, format('{} of {} decode lines show more than the {:.0f} requests that the client had open (up to {})',
        crowded, lines, most, running) AS message, places AS lines, 0 AS nth
    FROM crowd WHERE crowded >= $share * lines AND crowded >= 3
    UNION ALL
    SELECT run, 'warm_cache', format('{:.0f} % of its prompt tokens were cached, {:.0f} % of those of {}', 100 * share, 100 * other, against), lines,
        1 FROM (
        SELECT p.run, p.against, a.share, b.share AS other, [a.place, b.place] AS lines FROM peer p
        JOIN bench x ON x.run = p.run JOIN bench y ON y.run = p.against AND y.input_tokens = x.input_tokens
        JOIN cached a ON a.run = p.run JOIN cached b ON b.run = p.against
        WHERE a.share - b.share >= $apart AND NOT (y.speculates AND NOT x.speculates)  -- the other way round: prefix_cache_conflict
        QUALIFY row_number() OVER (PARTITION BY p.run ORDER BY p.against) = 1)
    UNION ALL
    SELECT b.run, 'eager', 'graphs were off (' || any_value(a.key) || ')', [any_value(a.place)], 2
    FROM bench b JOIN argument a ON a.run = b.run AND a.key IN ('disable_cuda_graph', 'enforce_eager') AND a.value ILIKE 'true' GROUP BY b.run
    UNION ALL
    SELECT b.run, 'random_tokens', format('the prompts are random tokens (dataset {})', any_value(dataset)), arg_min(cite(source, line), line, 2), 3
    FROM bench b WHERE speculates AND (dataset ILIKE 'random-ids' OR dataset ILIKE 'random_ids' OR (dataset ILIKE 'random%'
        AND backend ILIKE '%vllm%')) GROUP BY b.run
    UNION ALL
    SELECT b.run, 'short', format('{} requests{} in {:.1f} s', any_value(completed), coalesce(format(' at a concurrency of {:.0f}',
        any_value(max_concurrency)), ''), any_value(duration_s)), arg_min(cite(source, line), line, 2), 4
    FROM bench b WHERE completed > 1 AND (duration_s < $seconds OR completed < $fold * max_concurrency) GROUP BY b.run  -- a single batch has no client
    UNION ALL
    SELECT run, 'text', format('{:.0f} % faster than {}, which differs in nothing but its text: {:.2f} tokens a step against {:.2f}',
        100 * (speed - 1), against, accept_len, other_len), lines, 5 FROM (
        SELECT p.run, p.against, x.tokens_per_s / y.tokens_per_s AS speed, x.accept_len, y.accept_len AS other_len, [cite(x.source, x.line),
            cite(y.source, y.line)] AS lines
        FROM peer p JOIN bench x ON x.run = p.run JOIN bench y ON y.run = p.against
        JOIN run a ON a.run = p.run JOIN run b ON b.run = p.against
        WHERE a.algorithm = b.algorithm AND a.draft_model IS NOT DISTINCT FROM b.draft_model AND a.draft_tokens IS NOT DISTINCT FROM b.draft_tokens
            AND a.budget IS NOT DISTINCT FROM b.budget
            AND a.top_k IS NOT DISTINCT FROM b.top_k AND x.max_concurrency IS NOT DISTINCT FROM y.max_concurrency AND x.request_rate IS NOT DISTINCT
                FROM y.request_rate
            AND NOT EXISTS (FROM difference d WHERE d.run = p.run AND d.against = p.against)
            AND x.accept_len > 1 AND y.accept_len > 1 AND ln(x.tokens_per_s / y.tokens_per_s) > $spread
            AND abs(ln(x.tokens_per_s / y.tokens_per_s) - ln(x.accept_len / y.accept_len)) < 0.3 * ln(x.tokens_per_s / y.tokens_per_s)
        QUALIFY row_number() OVER (PARTITION BY p.run ORDER BY p.against) = 1)
)
SELECT run, array_to_string(list(message ORDER BY nth), '; ') AS message, list(what ORDER BY nth) AS causes, list(what ORDER BY nth) AS artefacts,
    flatten(list(lines ORDER BY nth)) AS lines
FROM artefact GROUP BY run
