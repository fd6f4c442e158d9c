-- title    = "Tree verification commits less than the chain"
-- severity = "critical"
-- family   = "tree"
-- needs    = { commit_sample = ["commit_len"], chain = ["against"], run = [], step = [], chain_prompts = [] }
-- enough   = { commit_sample = 5 }
-- applies  = "tree AND served"
-- enable   = "run the same prompts with linear verification and analyse both runs together"
-- why      = "With one candidate per depth the tree is the chain: the same drafts, the same target, token for token the same commits. A branching tree holds more candidates and should not commit fewer. A tree that commits less loses drafts on the way: a walk that stops, state or positions of another node, siblings that displace the spine."
-- fix      = [
--   "Force a spine-only tree (top-k 1) and compare step by step with linear verification: the first step that differs points at the state.",
--   "Then a depth-1 star, then a chain that branches late: each isolates mask, sibling state, and the gather of the path.",
--   "Until both agree, trust no result of the tree, its text included.",
-- ]
-- formula  = "mean C of the tree against mean C of the chain on the same prompts: below by more than 5 % and 3 standard errors"
-- sides    = { "commit length of the tree" = "commit_len", "commit length of the chain" = "chain_commit_len" }
-- unlike   = [
--   "Other prompts, other lengths, sampling.",
--   "A budget so small that its tree is shorter than the chain.",
--   "Numerics that differ between two runs of the chain alone.",
-- ]
-- causes   = [
--   { name = "walk", cause = "the walk stops early or follows siblings wrongly", test = "top-k 1: C equals the chain's" },
--   { name = "state", cause = "positions, mask or recurrent state of branches are wrong", test = "a chain that branches only at its last depth: C equals the chain's" },
--   { name = "spine", cause = "siblings displace the spine under a small budget", test = "a budget of depth x top-k" },
-- ]
-- reports  = ["vllm-project/vllm#42910"]
-- explains = ["slower_than_baseline"]
-- params   = { margin = 0.05, errors = 3.0, prompts = 0.5, length = 0.1 }

-- Text at another context length is not the same text.
-- Text changes slowly, so neighbouring rows are alike: the error is taken from ten stretches, not
-- from single rows.
WITH stretch AS (
    SELECT run, kind, avg(commit_len) AS commit_len, count(*) AS rows, median(ctx_len) AS ctx_len,
        arg_min(cite(source, line), line, 2) AS lines
    FROM (SELECT *, ntile(10) OVER (PARTITION BY run, kind ORDER BY source, line) AS stretch FROM commit_sample)
    GROUP BY run, kind, stretch
),
sample AS (
    SELECT run, kind, sum(commit_len * rows) / sum(rows) AS commit_len, stddev_samp(commit_len) / sqrt(count(*)) AS error,
        sum(rows) AS rows, median(ctx_len) AS ctx_len, flatten(list(lines ORDER BY lines[1].line)) AS lines
    FROM stretch GROUP BY run, kind HAVING sum(rows) >= CASE kind WHEN 'step' THEN 50 ELSE 5 END
),
-- Other prompts are other text. Where both runs show their prompts' lengths, half of them must be
-- the same, or the mean about the same.
stranger AS (SELECT DISTINCT run, against FROM chain_prompts WHERE apart > $length AND shared < $prompts),
-- A tree without a branch in any step is a chain, whatever its top-k was; one node says nothing of it.
single AS (
    SELECT run, bool_and(parents = list_transform(range(len(parents)), lambda i: i - 1)) AS chains
    FROM step WHERE len(parents) > 2 AND NOT coalesce(warmup, false) GROUP BY run
),
-- What the chain would commit if it reached no deeper than the tree can: all its nodes in a row
-- where there is one candidate a depth, half of them where siblings take their share, and what a
-- trace shows where it is less, since a drafter that is sure of nothing makes shallow trees. Rows
-- that are means take it from a geometric distribution with that mean.
reach AS (
    SELECT t.run, s.run AS against, s.kind, avg(CASE
        WHEN t.depth IS NULL THEN s.commit_len
        WHEN s.kind = 'step' THEN least(s.commit_len, t.depth + 1)
        ELSE s.commit_len * (1 - (1 - 1 / greatest(s.commit_len, 1)) ** (t.depth + 1)) END) AS commit_len
    FROM chain p
    JOIN (SELECT run, least(traced, CASE WHEN budget IS NULL THEN block - 1 ELSE least(budget / CASE WHEN top_k = 1 OR chains THEN 1 ELSE 2 END, block - 1) END) AS depth
          FROM run LEFT JOIN single USING (run) LEFT JOIN (SELECT run, avg(list_max(depths)) AS traced FROM step WHERE len(depths) > 1 GROUP BY run) USING (run)
          WHERE tree) t ON t.run = p.run
    JOIN commit_sample s ON s.run = p.against
    GROUP BY t.run, s.run, s.kind
),
compared AS (
    SELECT t.run, c.run AS against, st.kind, st.commit_len, sc.commit_len AS chain_commit_len, h.commit_len AS reach, coalesce(o.chains, false) AS chains,
        sqrt(st.error ** 2 + sc.error ** 2) AS error, t.top_k, t.budget, list_concat(st.lines[:2], sc.lines[:2]) AS lines, st.rows + sc.rows AS rows
    FROM chain p
    JOIN run t ON t.run = p.run AND t.tree
    JOIN run c ON c.run = p.against
    JOIN sample st ON st.run = t.run
    JOIN sample sc ON sc.run = c.run AND sc.kind = st.kind
    JOIN reach h ON h.run = t.run AND h.against = c.run AND h.kind = st.kind
    LEFT JOIN single o ON o.run = t.run
    WHERE (t.draft_model IS NULL OR c.draft_model IS NULL OR t.draft_model = c.draft_model)
        AND NOT EXISTS (FROM stranger x WHERE x.run = t.run AND x.against = c.run)
        AND (st.ctx_len IS NULL OR sc.ctx_len IS NULL OR (st.ctx_len <= 3 * sc.ctx_len AND sc.ctx_len <= 3 * st.ctx_len))
)
SELECT
    run, against,
    format('the tree{} commits {:.2f} tokens a step, the chain {:.2f}{}',
        CASE WHEN top_k = 1 THEN ' of one chain (top-k 1)' WHEN chains THEN ' of one chain' ELSE '' END, commit_len, chain_commit_len,
        CASE WHEN error > 1e-6 THEN format(' ({:.1f} standard errors apart)', (chain_commit_len - commit_len) / error) ELSE '' END) AS message,
    CASE WHEN top_k = 1 OR chains THEN 'critical' ELSE 'high' END AS severity,
    1 - commit_len / chain_commit_len AS impact,
    commit_len, chain_commit_len, error, top_k, budget, lines
FROM compared
WHERE commit_len < reach - sure($errors) * error AND commit_len < (1 - $margin) * reach
QUALIFY row_number() OVER (PARTITION BY run ORDER BY rows DESC, against) = 1
