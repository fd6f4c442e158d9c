-- title    = "Acceptance fell with a change of versions"
-- severity = "medium"
-- family   = "acceptance"
-- needs    = { rival = ["against"], difference = [], run = [], request = [], event = [] }
-- applies  = "speculates AND served AND (run IN (SELECT run FROM rival) OR run IN (SELECT run FROM pairing WHERE declared))"
-- enable   = "give the older run with the same model, drafter, hardware and prompts: --baseline RUN|PATH"
-- why      = "The same drafter, target and prompts are accepted alike by every version that computes the same. Where a newer one accepts less, something on the way from the target's states to the drafter changed: a default, a cache, a kernel, the numbering of layers."
-- formula  = "C of the new run against C of the old one: more than 10 % lower and more than three standard errors; or, of the same greedy prompts, 5 % more steps a token (paired)"
-- sides    = { "commit length" = "commit_len", "before the change" = "other_commit_len" }
-- unlike   = [
--   "Other prompts, other lengths of answers, other hardware: no verdict (table hindrance).",
--   "A rate that changed while the length did not: the definition changed (rate_definition_differs). Rates are not compared here.",
--   "Other settings of the drafter, another quantisation, another layout or temperature: each has a rule of its own.",
-- ]
-- causes   = [
--   { name = "defaults", cause = "a default changed: of the drafter's window, its attention, its cache or its quantisation", test = "set the keys that differ to their old values in the new version: acceptance comes back" },
--   { name = "kernel", cause = "another attention or graph path is chosen in the new version", test = "name the old attention backend explicitly in the new version, graphs off: acceptance comes back" },
--   { name = "code", cause = "the new version feeds the drafter something else", test = "bisect between the two versions with one short greedy prompt; compare steps a token" },
-- ]
-- fix      = [
--   "Stay with the old version until the cause is known; report steps per token of both, which no definition touches.",
--   "Set every key that differs explicitly, then bisect the versions with the shortest prompt that shows it.",
-- ]
-- explains = ["slower_than_baseline", "acceptance_below_published"]
-- reports  = ["vllm-project/vllm#26191", "ggml-org/llama.cpp#27106", "ggml-org/llama.cpp#26750"]
-- params   = { drop = 0.1, errors = 3.0, steps = 0.05, prompts = 10 }

WITH told AS (
    SELECT run, against, bool_or(kind = 'version') AS versions,
        bool_or(kind IN ('quantisation', 'layout', 'sampling') OR key = 'revision' OR key ILIKE '%simulat%'
            OR regexp_matches(key, '^md$|draft_(?:model|max|min|n|p)|draft_tokens|num_speculative|num_steps|top_?k|budget|block_size|spec_type|spec_draft')) AS confounded,
        bool_or(kind = 'kernel') AS kernel, bool_or(kind = 'draft') AS draft,
        list(format('{}={} (was {})', key, coalesce(value, 'unset'), coalesce(other, 'unset')) ORDER BY kind <> 'version', kind <> 'draft', key) AS differs
    FROM difference GROUP BY run, against
),
heat AS (SELECT run, avg(temperature) AS temperature FROM request WHERE temperature IS NOT NULL GROUP BY run),
pair AS (
    SELECT r.*, t.versions, t.kernel, t.draft, coalesce(t.differs, []) AS differs
    FROM rival r JOIN run a ON a.run = r.run JOIN run b ON b.run = r.against
    LEFT JOIN told t ON t.run = r.run AND t.against = r.against
    LEFT JOIN heat x ON x.run = r.run LEFT JOIN heat y ON y.run = r.against
    WHERE r.later IS NOT false AND (t.versions OR r.declared) AND NOT coalesce(t.confounded, false)
        AND a.algorithm IS NOT DISTINCT FROM b.algorithm AND a.tree = b.tree AND a.shadow = b.shadow
        AND (a.draft_model = b.draft_model OR a.draft_model IS NULL OR b.draft_model IS NULL)
        AND (a.draft_tokens = b.draft_tokens OR a.draft_tokens IS NULL OR b.draft_tokens IS NULL)
        AND (a.budget = b.budget OR a.budget IS NULL OR b.budget IS NULL) AND (a.top_k = b.top_k OR a.top_k IS NULL OR b.top_k IS NULL)
        AND coalesce(abs(x.temperature - y.temperature) <= 0.05, true)
        AND r.run NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive'))
        AND r.against NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive'))
),
-- The same greedy prompts are a pair each: their spread falls out.
asked AS (
    SELECT run, prompt, sum(verify_steps) AS steps, sum(completion_tokens - 1) AS tokens FROM request
    WHERE prompt IS NOT NULL AND temperature = 0 AND verify_steps > 0 AND completion_tokens > 16 GROUP BY run, prompt
),
paired AS (
    SELECT p.run, p.against, count(*) AS prompts, avg(ln((x.steps / x.tokens) / (y.steps / y.tokens))) AS more,
        stddev_samp(ln((x.steps / x.tokens) / (y.steps / y.tokens))) / sqrt(count(*)) AS error
    FROM pair p JOIN asked x ON x.run = p.run JOIN asked y ON y.run = p.against AND y.prompt = x.prompt
    GROUP BY p.run, p.against HAVING count(*) >= $prompts
)
SELECT
    p.run, p.against,
    format('commit length {:.2f} against {:.2f} ({:.0f} % lower, {:.1f} standard errors){}{}{}', p.commit_len, p.other_len, 100 * (1 - p.commit_len / p.other_len), p.errors,
        CASE WHEN q.prompts IS NOT NULL THEN format('; the same {} prompts take {:.0f} % more steps a token', q.prompts, 100 * (exp(q.more) - 1)) ELSE '' END,
        CASE WHEN len(p.differs) > 0 THEN format('; they differ in {}{}', array_to_string(p.differs[:4], ', '), CASE WHEN len(p.differs) > 4 THEN format(' and {} more', len(p.differs) - 4) ELSE '' END)
             ELSE '; no setting is known to differ' END,
        CASE WHEN p.same_prompts IS NULL AND q.prompts IS NULL THEN '; whether the prompts are the same is not known' ELSE '' END) AS message,
    CASE WHEN p.same_prompts IS NULL AND q.prompts IS NULL THEN 'low' END AS severity,
    1 - p.commit_len / p.other_len AS impact,
    p.commit_len, p.other_len AS other_commit_len, sqrt(p.error ** 2 + p.other_error ** 2) AS error, q.prompts AS paired_prompts, exp(q.more) AS steps_ratio, p.differs AS differs,
    list_filter([CASE WHEN p.draft THEN 'defaults' END, CASE WHEN p.kernel THEN 'kernel' END, 'code'], lambda one: one IS NOT NULL) AS causes,
    list_concat(p.lines[:2], p.other_lines[:2]) AS lines
FROM pair p LEFT JOIN paired q ON q.run = p.run AND q.against = p.against
WHERE (p.commit_len < (1 - $drop) * p.other_len AND p.errors > sure($errors))
    OR (q.more > ln(1 + $steps) AND q.more > sure($errors) * q.error)
QUALIFY row_number() OVER (PARTITION BY p.run ORDER BY p.declared DESC, p.errors DESC, p.against) = 1
