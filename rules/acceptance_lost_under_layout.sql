-- title    = "Acceptance is lost under one parallel layout"
-- severity = "high"
-- family   = "acceptance"
-- needs    = { rival = ["against"], difference = [], run = [], decode = [], request = [], event = [] }
-- applies  = "speculates AND served AND (run IN (SELECT run FROM rival) OR run IN (SELECT run FROM pairing WHERE declared))"
-- enable   = "give a run of the same model, drafter and prompts under another layout: --baseline RUN|PATH"
-- why      = "How a model is split over cards changes who computes, not what: the commit length is the same under every tensor, data or expert parallelism, and at every load. Where it is not, the drafter gets only part of what it needs."
-- formula  = "C of two runs that differ in their layout and in nothing that drafts: more than 20 % apart and more than three standard errors, on every data-parallel rank"
-- sides    = { "commit length" = "commit_len", "in the other layout" = "other_commit_len" }
-- unlike   = [
--   "Other prompts, hardware or lengths of answers: no verdict (table hindrance).",
--   "No draft accepted at all: the drafter is not wired up on that side (draft_never_accepted).",
--   "One rank that is lower than the rest: its traffic is another.",
--   "Another attention backend, quantisation, version or drafter setting beside the layout: then it may be that.",
-- ]
-- causes   = [
--   { name = "partial_sync", cause = "under attention data parallelism only part of the tokens or states is gathered for the draft pass", test = "dp_size 1 with the same tp_size: acceptance comes back" },
--   { name = "transfer", cause = "hidden states are not transferred, or their buffers have the wrong size, where prefill and decode are separated", test = "one node without separation: acceptance comes back" },
--   { name = "reduction", cause = "the drafter's features are taken before the sum over the tensor-parallel ranks, or its split head sees part of the vocabulary", test = "tensor parallelism 1, or a smaller model that fits on one card: acceptance comes back" },
--   { name = "experts", cause = "the drafter's or the target's experts are dispatched in another precision or order", test = "the plain all-to-all backend with expert parallelism 1: acceptance comes back" },
-- ]
-- fix      = [
--   "Compare one rank alone with the group on one greedy prompt; the first step that differs names the place.",
--   "Update, and keep speculation off in that layout until both commit the same.",
-- ]
-- explains = ["slower_than_baseline", "acceptance_below_published"]
-- reports  = ["sgl-project/sglang#16274", "sgl-project/sglang#7242", "sgl-project/sglang#34285"]
-- params   = { drop = 0.2, errors = 3.0, floor = 1.05 }

-- What a layout brings along by itself is no confounder: chunk sizes, capacities, graph sizes, the
-- settings of the transfer and of the all-to-all.
WITH told AS (
    SELECT run, against, bool_or(kind = 'layout') AS layout,
        bool_or(kind IN ('version', 'draft', 'quantisation', 'sampling') OR key = 'revision' OR key ILIKE '%simulat%'
            OR (kind = 'kernel' AND regexp_matches(key, 'attn|attention|sampling_backend') AND NOT regexp_matches(key, 'dp_attention|disagg'))) AS confounded,
        bool_or(regexp_matches(key, 'dp|data_parallel')) AS dp, bool_or(key LIKE 'disaggregation%') AS split,
        bool_or(regexp_matches(key, '^tp_size$|tensor_parallel')) AS tp, bool_or(regexp_matches(key, 'ep_size|expert_parallel|a2a|deepep')) AS experts,
        list(format('{}={} (there {})', key, coalesce(value, 'unset'), coalesce(other, 'unset')) ORDER BY key) FILTER (kind = 'layout') AS layouts,
        list(format('{}={} (there {})', key, coalesce(value, 'unset'), coalesce(other, 'unset')) ORDER BY key) FILTER (kind <> 'layout') AS besides
    FROM difference GROUP BY run, against
),
heat AS (SELECT run, avg(temperature) AS temperature FROM request WHERE temperature IS NOT NULL GROUP BY run),
replica AS (
    SELECT run, count(*) AS replicas, max(commit_len) AS highest FROM (
        SELECT run, regexp_extract(coalesce(rank, ''), 'DP[0-9]+') AS replica, sum(commit_len) / sum(rows) AS commit_len
        FROM (SELECT run, rank, sum(commit_len) AS commit_len, count(*) AS rows FROM decode
              WHERE usable AND accept_len IS NOT NULL AND run IN (SELECT run FROM told WHERE layout) GROUP BY run, rank)
        GROUP BY run, replica HAVING sum(rows) >= 3
    ) GROUP BY run
)
SELECT
    r.run, r.against,
    format('commit length {:.2f} with {}, and {:.2f} in the other layout ({:.0f} % lower, {:.1f} standard errors){}{}', r.commit_len, array_to_string(t.layouts[:4], ', '), r.other_len,
        100 * (1 - r.commit_len / r.other_len), r.errors,
        CASE WHEN d.replicas > 1 THEN format('; all {} ranks are low', d.replicas) ELSE '' END,
        CASE WHEN r.same_prompts IS NULL THEN '; whether the prompts are the same is not known' ELSE '' END) AS message,
    CASE WHEN r.same_prompts IS NULL THEN 'low' END AS severity,
    1 - r.commit_len / r.other_len AS impact,
    r.commit_len, r.other_len AS other_commit_len, sqrt(r.error ** 2 + r.other_error ** 2) AS error, t.layouts AS differs, t.besides AS differs_besides,
    d.replicas, d.highest AS highest_replica,
    list_filter([CASE WHEN t.split THEN 'transfer' END, CASE WHEN t.dp THEN 'partial_sync' END, CASE WHEN t.tp THEN 'reduction' END, CASE WHEN t.experts THEN 'experts' END],
        lambda one: one IS NOT NULL) AS causes,
    list_concat(r.lines[:2], r.other_lines[:2]) AS lines
FROM rival r
JOIN told t ON t.run = r.run AND t.against = r.against AND t.layout AND NOT t.confounded
JOIN run a ON a.run = r.run JOIN run b ON b.run = r.against
LEFT JOIN replica d ON d.run = r.run
LEFT JOIN heat x ON x.run = r.run LEFT JOIN heat y ON y.run = r.against
WHERE r.commit_len > $floor AND r.commit_len < (1 - $drop) * r.other_len AND r.errors > sure($errors)
    AND (d.replicas IS NULL OR d.replicas < 2 OR d.highest < (1 - $drop / 2) * r.other_len)
    AND a.algorithm IS NOT DISTINCT FROM b.algorithm AND a.tree = b.tree AND a.shadow = b.shadow
    AND a.draft_model IS NOT DISTINCT FROM b.draft_model AND a.draft_tokens IS NOT DISTINCT FROM b.draft_tokens AND a.budget IS NOT DISTINCT FROM b.budget
    AND coalesce(abs(x.temperature - y.temperature) <= 0.05, true)
    AND r.run NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive'))
    AND r.against NOT IN (SELECT run FROM event WHERE kind IN ('simulated', 'adaptive'))
QUALIFY row_number() OVER (PARTITION BY r.run ORDER BY r.declared DESC, r.errors DESC, r.against) = 1
