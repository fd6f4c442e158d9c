-- Facts of a run.

INSERT INTO run BY NAME
WITH accept AS (
    SELECT run, kind,
        sum(commit_len * coalesce(steps, 1)) / sum(coalesce(steps, 1)) AS accept_len,
        row_number() OVER (PARTITION BY run ORDER BY list_position(['step', 'decode', 'acceptance', 'request', 'benchmark', 'state'], kind)) AS nth
    FROM commit_sample GROUP BY run, kind
),
timed AS (  -- of computed times only where none was measured
    SELECT run, bool_or(measured) AS measured,
        coalesce(median(ms) FILTER (measured AND drawn), median(ms) FILTER (drawn)) AS step_ms,
        coalesce(min(ctx_len) FILTER (measured), min(ctx_len)) AS ctx_min,
        coalesce(max(ctx_len) FILTER (measured), max(ctx_len)) AS ctx_max
    FROM (SELECT t.*, drawn(kind, line, coalesce(every, 1)) AS drawn FROM time_sample t LEFT JOIN share USING (run) WHERE stage = 'step') GROUP BY run
),
decoded AS (  -- data-parallel ranks serve side by side; other ranks repeat each other
    SELECT run, sum(tokens_per_s) AS tokens_per_s, sum(running) AS running, min(ctx_min) AS ctx_min, max(ctx_max) AS ctx_max,
        sum(rows) AS rows, bool_or(accepts) AS accepts, min(started) AS started, max(ended) AS ended
    FROM (
        SELECT run, regexp_extract(coalesce(rank, ''), 'DP[0-9]+') AS replica,
            median(tokens_per_s) FILTER (usable AND drawn('decode', line, every)) AS tokens_per_s, median(running) FILTER (usable AND drawn('decode', line, every)) AS running,
            min(ctx_len) FILTER (usable) AS ctx_min, max(ctx_len) FILTER (usable) AS ctx_max, count(*) AS rows,
            bool_or(accept_len IS NOT NULL) AS accepts, min(time) AS started, max(time) AS ended
        FROM decode JOIN share USING (run) GROUP BY run, replica
    ) GROUP BY run
),
stepped AS (
    SELECT run, count(*) AS rows, mode(upper(coalesce(algorithm, mode))) AS executed,
        bool_or(CASE  -- the lists are looked at last
            WHEN mode ILIKE '%tree%' OR algorithm ILIKE '%tree%' OR mode ILIKE 'shadow%' THEN true
            WHEN budget IS NOT NULL AND NOT coalesce(mode, algorithm, '') SIMILAR TO '(?i).*(linear|chain|dflash).*' THEN true
            ELSE len(list_distinct(parents)) < len(parents)
        END) AS tree,
        bool_or(mode ILIKE 'shadow%') AS shadow,
        mode(upper(coalesce(algorithm_requested, algorithm, mode))) AS requested,
        max(commit_len) > 1 OR max(accepted_depth) > 0 OR max(accepted_drafts) > 0 OR max(nodes) > 0 OR bool_or(
            coalesce(algorithm, mode) IS NOT NULL AND NOT coalesce(algorithm, mode) SIMILAR TO '(?i)((auto|plain|baseline|vanilla|naive|(target|base)[-_ ]only|(no|non|without)[-_ ]?spec|sampl).*|none|null|off|false|ar|base|greedy|normal|regular|standard|decode)'
        ) AS speculates,
        mode(coalesce(budget_requested, budget)) AS budget, mode(top_k) AS top_k,
        sum(coalesce(commit_len, accepted_drafts + 1)) / nullif(sum(step_ms), 0) * 1000 AS tokens_per_s, median(batch) FILTER (drawn('step', line, every)) AS running,
        min(ctx_len) AS ctx_min, max(ctx_len) AS ctx_max
    FROM step JOIN share USING (run) WHERE NOT coalesce(warmup, false) GROUP BY run
),
counted AS (
    SELECT run, mode(budget) FILTER (emitted_tokens IS NULL) AS budget, mode(budget) FILTER (emitted_tokens IS NOT NULL) AS chain,  -- vLLM's V0 engine
        mode(top_k) AS top_k, count(*) AS rows, median(tokens_per_s) AS tokens_per_s
    FROM acceptance GROUP BY run
),
hooked AS (
    SELECT run, max(upper(name)) FILTER (kind = 'hook') AS executed,
        bool_or(kind = 'hook' AND name ILIKE '%tree%') AS tree, bool_or(kind = 'ready') AS ready,
        arg_min(coalesce(value, "after" - 1), line) FILTER (kind = 'hook' AND detail = 'verify' AND name ILIKE '%tree%') AS first_verify_drafts,
        min(time) AS started, max(time) AS ended, count(*) FILTER (kind NOT IN ('arguments', 'frame', 'native_frame', 'stack')) AS rows
    FROM event GROUP BY run
),
measured AS (
    SELECT run, arg_max(tokens_per_s, line) AS tokens_per_s, any_value(upper(algorithm)) AS algorithm,
        any_value(model) AS model, max(accept_len) AS accept_len, TRY_CAST(max(draft_tokens) AS INTEGER) AS draft_tokens,
        TRY_CAST(max(draft_steps) AS INTEGER) AS draft_steps, TRY_CAST(max(top_k) AS INTEGER) AS top_k
    FROM benchmark GROUP BY run
),
answered AS (
    SELECT run, bool_or(verify_steps > 0 OR proposed_drafts > 0) AS speculates FROM request GROUP BY run
),
versioned AS (  -- the engine's own, as its arguments or its start-up say it, else a client's word
    SELECT run, max_by(version, (told, version)) AS version FROM (
        SELECT run, value AS version, lower(key) = 'version' AS told FROM config
        WHERE lower(key) IN ('version', 'code_version', 'sglang', 'vllm') AND regexp_matches(value, '^v?[0-9]')
        UNION ALL
        SELECT run, version, false FROM benchmark WHERE version IS NOT NULL
    ) GROUP BY run
),
told AS (
    SELECT run, bool_or(accept_len >= 1) AS speculates, sum(tokens_per_s) AS tokens_per_s FROM server_state GROUP BY run
)
SELECT
    a.run,
    CASE
        WHEN a.algorithm IN ('NONE', 'NULL') THEN 'NONE'
        WHEN a.algorithm IS NOT NULL THEN replace(a.algorithm, 'NEXTN', 'EAGLE')
        WHEN s.requested IS NOT NULL THEN s.requested
        WHEN m.algorithm IS NOT NULL THEN m.algorithm
        WHEN a.configured AND a.model IS NOT NULL AND NOT coalesce(d.accepts, false) AND NOT coalesce(c.rows > 0, false) AND NOT coalesce(q.speculates, false) THEN 'NONE'
    END AS algorithm,
    coalesce(s.executed, h.executed) AS executed,
    coalesce(a.algorithm NOT IN ('NONE', 'NULL'), false) OR coalesce(d.accepts, false) OR coalesce(s.speculates, false)
        OR coalesce(c.rows > 0, false) OR coalesce(q.speculates, false) OR coalesce(m.accept_len IS NOT NULL, false)
        OR coalesce(v.speculates, false) AS speculates,
    coalesce(a.algorithm SIMILAR TO '.*(DDTREE|TREEFLASH).*', false) OR coalesce(s.tree, false) OR coalesce(h.tree, false)
        OR coalesce(a.tree_flag, false) OR (coalesce(a.top_k, 1) > 1 AND NOT coalesce(a.algorithm, 'NONE') SIMILAR TO 'NONE|.*(LINEAR|CHAIN|DFLASH).*')
        OR coalesce(c.budget IS NOT NULL, false) AS tree,
    coalesce(a.shadow, false) OR coalesce(s.shadow, false) AS shadow,
    coalesce(d.rows > 0, false) OR coalesce(h.rows > 0, false) AS server,
    coalesce(a.model, m.model) AS model, a.draft_model, e.version,
    coalesce(a.draft_tokens, a.hinted_draft_tokens, a.verify_width, a.drafted_plus_one, a.block, a.hinted_block, m.draft_tokens, c.chain + 1) AS draft_tokens,
    coalesce(a.draft_steps, m.draft_steps) AS draft_steps,
    coalesce(a.budget, c.budget, s.budget, a.hinted_budget) AS budget,
    coalesce(c.top_k, s.top_k, a.top_k, m.top_k) AS top_k,
    coalesce(a.block, a.hinted_block) AS block,
    a.page_size, a.log_interval,
    coalesce(h.ready, false) OR coalesce(d.rows > 0, false) AS ready,
    coalesce(d.rows > 0, false) OR coalesce(s.rows > 0, false) OR coalesce(c.rows > 0, false)
        OR q.run IS NOT NULL OR m.run IS NOT NULL AS served,
    CASE WHEN f.formula = 'commit_per_proposed' AND f.commit_width = a.draft_steps + 1 AND a.draft_tokens <> a.draft_steps + 1
         THEN 'commit_per_step' ELSE f.formula END AS rate_formula,
    TRY_CAST(CASE WHEN f.formula = 'drafts_per_proposed' THEN f.drafts_width ELSE f.commit_width END AS INTEGER) AS rate_width,
    h.first_verify_drafts,
    x.accept_len, x.kind AS accept_len_from,
    coalesce(d.tokens_per_s, s.tokens_per_s, m.tokens_per_s, c.tokens_per_s, v.tokens_per_s) AS tokens_per_s,
    t.step_ms, t.measured AS step_ms_measured,
    coalesce(t.ctx_min, d.ctx_min, s.ctx_min) AS ctx_min, coalesce(t.ctx_max, d.ctx_max, s.ctx_max) AS ctx_max,
    coalesce(d.running, s.running) AS running,
    least(d.started, h.started) AS started, greatest(d.ended, h.ended) AS ended
FROM asked a
LEFT JOIN accept x ON x.run = a.run AND x.nth = 1
LEFT JOIN timed t ON t.run = a.run
LEFT JOIN decoded d ON d.run = a.run
LEFT JOIN stepped s ON s.run = a.run
LEFT JOIN counted c ON c.run = a.run
LEFT JOIN hooked h ON h.run = a.run
LEFT JOIN measured m ON m.run = a.run
LEFT JOIN answered q ON q.run = a.run
LEFT JOIN told v ON v.run = a.run
LEFT JOIN versioned e ON e.run = a.run
LEFT JOIN rate_fit f ON f.run = a.run
ORDER BY a.run;
