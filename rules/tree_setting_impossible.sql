-- title    = "Tree settings that contradict each other"
-- severity = "medium"
-- family   = "tree"
-- needs    = { config = ["key"], run = [], problem = [], event = [], commit_sample = [] }
-- why      = "With top-k candidates a step and s steps a tree has k + (s - 1) k^2 candidates: more draft tokens than that, and the root, cannot be chosen. With pages of several tokens branches share a page, which few attention backends can read; which ones differs between releases, so the server's own word counts, or what it suffers."
-- fix      = [
--   "Set --page-size 1 and an attention backend that reads tree masks (flashinfer, fa3, triton; the message of your release lists them).",
--   "Or give up the branches: --speculative-eagle-topk 1 with --speculative-num-draft-tokens = steps + 1.",
--   "Choose the draft tokens between steps + 1 and k + (s - 1) k^2 + 1.",
-- ]
-- formula  = "N - 1 > k + (s - 1) k^2 in a run that never served; s > N - 1: the last drafts of each step can never be verified; k > 1 with pages > 1: refused by the server, or C <= 1.05 or a kernel that dies"
-- sides    = { "candidates there are" = "candidates", "candidates needed" = "candidates_needed" }
-- unlike   = [
--   "A release that accepts the combination, and serves: nothing suffers, whatever older releases said.",
--   "Top-k 1: a chain has no branches.",
--   "DFLASH, DDTREE and n-gram trees, which are sized by a budget.",
-- ]
-- causes   = [
--   { name = "page", cause = "branches need pages of one token with this attention backend", test = "--page-size 1, one flag: it starts, and drafts are accepted" },
--   { name = "backend", cause = "this attention backend verifies chains only", test = "--speculative-eagle-topk 1 --speculative-num-draft-tokens steps + 1: it starts" },
--   { name = "count", cause = "steps and top-k cannot make so many draft tokens", test = "draft tokens = steps + 1: it starts" },
-- ]
-- reports  = ["sgl-project/sglang#5491", "sgl-project/sglang#26981", "sgl-project/sglang#4425", "sgl-project/sglang#13352"]
-- explains = ["combination_unsupported", "start_failed", "draft_never_accepted", "speculative_assertion", "graph_capture_failed", "illegal_memory_access", "server_died"]
-- params   = { floor = 1.05, steps = 200.0 }

WITH argument AS (
    SELECT run, key, arg_max(value, line) AS value, arg_max(cite(source, line), line) AS place
    FROM config WHERE value NOT IN ('None', 'null', '') GROUP BY run, key
),
setting AS (
    SELECT run, upper(max(value) FILTER (key = 'speculative_algorithm')) AS algorithm,
        TRY_CAST(max(value) FILTER (key = 'speculative_num_steps') AS BIGINT) AS steps,
        TRY_CAST(max(value) FILTER (key = 'speculative_eagle_topk') AS BIGINT) AS top_k,
        TRY_CAST(max(value) FILTER (key = 'speculative_num_draft_tokens') AS BIGINT) AS draft_tokens,
        coalesce(TRY_CAST(max(value) FILTER (key = 'page_size') AS BIGINT), 1) AS page_size,
        coalesce(max(value) FILTER (key = 'decode_attention_backend'), max(value) FILTER (key = 'attention_backend')) AS backend,
        any_value(place) FILTER (key = 'speculative_num_draft_tokens') AS place
    FROM argument GROUP BY run
),
tree AS (
    SELECT s.*, r.served, s.top_k + (s.steps - 1) * s.top_k ** 2 AS candidates
    FROM setting s JOIN run r USING (run)
    WHERE s.algorithm SIMILAR TO '(EAGLE|EAGLE3|NEXTN|STANDALONE)' AND s.top_k >= 1 AND s.steps >= 1 AND s.draft_tokens >= 1
),
-- What the server says of it. A request that was refused kills no server.
complaint AS (
    SELECT run, source, line, type, message, fatal,
        CASE WHEN regexp_matches(message, '(?i)page.?size') THEN 'page' WHEN regexp_matches(message, '(?i)selected index k|out of range') THEN 'count'
            ELSE 'backend' END AS cause
    FROM problem
    WHERE regexp_matches(message, '(?i)(?:topk|top.k)[^.]{0,40}(?:> ?1|= ?1\b|== ?1|>= ?2)|only supports? (?:top.?k|a chain)')
        AND regexp_matches(message, '(?i)page.?size|backend|spec(?:ulative)?\b|only supports?|requires?|unstable')
),
refused AS (
    SELECT * FROM complaint QUALIFY row_number() OVER (PARTITION BY run ORDER BY fatal DESC, source, line) = 1
),
broken AS (  -- torch.topk over too few candidates, or a kernel that read past a branch
    SELECT run, arg_min(cite(source, line), (source, line)) AS place, arg_min(message, (source, line)) AS message,
        bool_or(regexp_matches(message, 'selected index k out of range')) AS too_few
    FROM problem WHERE regexp_matches(message,
        'selected index k out of range|illegal memory access|srcIndex < srcSelectDimSize|device-side assert|Sizes of tensors must match') GROUP BY run
),
accepted AS (
    SELECT run, sum(commit_len * coalesce(steps, 1)) / sum(coalesce(steps, 1)) AS commit_len, sum(coalesce(steps, 1)) AS steps, arg_min(cite(source,
        line), line, 2) AS lines
    FROM commit_sample WHERE run IN (SELECT run FROM tree WHERE top_k > 1 AND page_size > 1) GROUP BY run
),
found AS (
    SELECT r.run, format('the server refuses a tree here: {}', shortened(r.message, 200)) AS message, CASE WHEN r.fatal THEN 'critical'
        ELSE 'medium' END AS severity,
        t.steps, t.top_k, t.draft_tokens, t.page_size, t.backend, [r.cause] AS causes, list_filter([cite(r.source, r.line), t.place],
            lambda one: one IS NOT NULL) AS lines, 0 AS nth
    FROM refused r LEFT JOIN tree t USING (run)
    UNION ALL BY NAME
    SELECT t.run, format('{} steps with top-k {} make {:.0f} candidates, {} draft tokens need {}{}', t.steps, t.top_k, t.candidates, t.draft_tokens,
        t.draft_tokens - 1,
            CASE WHEN b.too_few THEN ': ' || shortened(b.message, 100) ELSE '' END) AS message,
        CASE WHEN b.run IS NOT NULL THEN 'critical' ELSE 'high' END AS severity,
        t.steps, t.top_k, t.draft_tokens, t.candidates, t.draft_tokens - 1 AS candidates_needed, t.page_size, t.backend, ['count'] AS causes, list_filter([t.place, b.place],
            lambda one: one IS NOT NULL) AS lines, 1 AS nth
    FROM tree t LEFT JOIN broken b USING (run)
    WHERE t.top_k > 1 AND t.draft_tokens - 1 > t.candidates AND (NOT t.served OR b.too_few)
    UNION ALL BY NAME
    SELECT t.run, format('top-k {} with pages of {} tokens on {}: {}', t.top_k, t.page_size, coalesce(t.backend, 'the default attention backend'),
            CASE WHEN b.run IS NOT NULL THEN shortened(b.message, 120) ELSE format('the commit length is {:.2f} over {:,.0f} steps', a.commit_len,
                a.steps) END) AS message,
        CASE WHEN b.run IS NOT NULL THEN 'critical' ELSE 'high' END AS severity,
        t.steps, t.top_k, t.draft_tokens, t.page_size, t.backend, ['page', 'backend'] AS causes, list_filter(list_concat([t.place, b.place], a.lines),
            lambda one: one IS NOT NULL) AS lines, 2 AS nth
    FROM tree t LEFT JOIN broken b USING (run) LEFT JOIN accepted a USING (run)
    WHERE t.top_k > 1 AND t.page_size > 1 AND (b.run IS NOT NULL OR (a.commit_len <= $floor AND a.steps >= $steps))
    UNION ALL BY NAME
    SELECT t.run, format('{} draft steps, but only {} draft tokens are verified: a path in the tree never gets deeper than {}', t.steps,
        t.draft_tokens - 1, t.draft_tokens - 1) AS message,
        'low' AS severity, t.steps, t.top_k, t.draft_tokens, t.page_size, t.backend, ['count'] AS causes, [t.place] AS lines, 3 AS nth
    FROM tree t WHERE t.top_k > 1 AND t.steps > t.draft_tokens - 1 AND t.served
    UNION ALL BY NAME
    SELECT e.run, concat('the number of draft tokens was overridden: a chain of top-k 1 has as many as it has steps, and the root',
            CASE WHEN t.draft_tokens <> t.steps + 1 THEN format(' ({} were asked for, {} are verified)', t.draft_tokens, t.steps + 1) END) AS message,
        'info' AS severity, t.steps, t.top_k, t.draft_tokens, t.page_size, t.backend, ['count'] AS causes, list_filter([cite(e.source, e.line),
            t.place], lambda one: one IS NOT NULL) AS lines, 4 AS nth
    FROM event e LEFT JOIN tree t USING (run) WHERE e.kind = 'draft_tokens' AND e.detail LIKE '%is adjusted to speculative_num_steps + 1%'
)
SELECT run, message, severity, steps, top_k, draft_tokens, candidates, candidates_needed, page_size, backend, causes, lines
FROM found QUALIFY row_number() OVER (PARTITION BY run ORDER BY nth) = 1
