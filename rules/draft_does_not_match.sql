-- title    = "The draft model does not load or does not fit the target"
-- severity = "critical"
-- family   = "startup"
-- needs    = { problem = [], event = [], commit_mean = [], config = [], run = [] }
-- applies  = "run IN (SELECT run FROM problem WHERE type IS NOT NULL) OR run IN (SELECT run FROM event WHERE kind IN ('weights', 'weight_skipped', 'fallback'))"
-- why      = "A drafter is made for one target: its vocabulary, hidden size, layers and weight names must be those that the server's class for it expects. Another revision, another family or a wrong configuration key shows while its weights are loaded, or the server refuses it and goes on without."
-- fix      = [
--   "Compare the drafter's config.json (architectures, hidden_size, vocab_size, draft_vocab_size, layer ids) with the target's and with the model card that names the pair.",
--   "Check algorithm and class: an EAGLE head, an EAGLE3 head, a DFLASH block and an MTP module need different --speculative-algorithm (or method) values.",
--   "Take the revision of the drafter that the server's version was tested with, or update the server.",
-- ]
-- formula  = "the first exception of the start lies in frames that build the draft model, or names a weight, a size or a vocabulary while it is loaded; or weights of the drafter were skipped, or its class is not the algorithm's, and no draft is accepted (commit length <= 1.05 over >= 200 steps)"
-- sides    = { "one shape" = "first_shape", "the other shape" = "second_shape" }
-- unlike   = [
--   "The target's own weights, read before the draft's.",
--   "Memory, a missing module or kernel, which only happen while the draft loads.",
--   "A drafter with another vocabulary whose words are translated: it drafts, but badly.",
--   "Weights that loaders skip by design (scales, masks, positions): drafts are accepted.",
-- ]
-- causes   = [
--   { name = "pair", cause = "the drafter was made for another target (size, vocabulary, family)", test = "the drafter that the target's model card names: starts" },
--   { name = "weights", cause = "the checkpoint names or shapes its weights differently than the server's class", test = "another revision of the drafter, or a newer server: starts" },
--   { name = "class", cause = "the algorithm asked for is not the drafter's kind", test = "the algorithm that the drafter's card names: starts" },
--   { name = "path", cause = "the path or the repository has no such model", test = "`ls` the folder, or download it by hand" },
-- ]
-- reports  = ["vllm-project/vllm#11839", "sgl-project/sglang#21272", "vllm-project/vllm#52816", "vllm-project/vllm#18906", "vllm-project/vllm#17957", "ggml-org/llama.cpp#3812"]
-- params   = { floor = 1.05, steps = 200.0 }
-- explains = ["start_failed", "combination_unsupported", "graph_capture_failed", "speculation_never_engages", "draft_never_accepted", "acceptance_low_from_start", "module_missing", "server_died"]

WITH drafted AS (  -- the draft model began to load
    SELECT run, source, min(line) AS line, any_value(detail) AS path FROM event WHERE kind = 'weights' AND name = 'draft' GROUP BY run, source
),
-- What llama.cpp says of a drafter, fatal or not: its last words are the server's, its first the reason.
refused AS (
    SELECT p.run, p.source, p.line, p.type, p.message, p.frames, p.rank, p.fatal AND p.at_start AS fatal, true AS certain
    FROM problem p WHERE p.type = 'draft'
        -- the loader gives up, too, where there is no memory
        AND NOT EXISTS (FROM problem m WHERE m.run = p.run AND m.at_start AND m.line < p.line AND regexp_matches(m.message, '(?i)out of memory|failed to allocate'))
),
cause AS (
    SELECT p.run, p.source, p.line, p.type, p.message, p.frames, p.rank, true,
        regexp_matches(p.frames, '(?i)(?:draft|eagle|dflash|dspark|ddtree|nextn|mtp|medusa|standalone|multi_layer|speculator)[a-z0-9_]*\.py:|:(?:_?init_draft|load_draft|_load_draft|init_drafter|load_drafter|_vocab_size\b)[a-z_]*')
            OR coalesce(contains(p.message, r.draft_model) AND NOT contains(r.model, r.draft_model), false)
            OR coalesce(d.line < p.line, false)
            OR regexp_matches(p.message, '(?i)\b(?:draft(?:er)?|speculator|eagle3?|mtp|dflash)\b.{0,60}(?:vocab|hidden|mismatch|match|checkpoint|weights?|config|load|architecture)|(?:vocab\w*|hidden.?size|weights?|checkpoint|architecture).{0,60}\b(?:draft(?:er)?|speculator|eagle3?|dflash)\b|architectures? .{0,12}(?:\w*(?:draft|eagle|dflash|dspark|medusa|speculator|mtp)\w*)') AS certain
    FROM problem p JOIN run r ON r.run = p.run LEFT JOIN drafted d ON d.run = p.run AND d.source = p.source
    WHERE p.cause AND p.at_start AND p.type NOT IN ('draft', 'ImportError', 'ModuleNotFoundError', 'OutOfMemoryError', 'MemoryError', 'KeyboardInterrupt', 'Killed', 'nvcc', 'ptxas')
        AND NOT regexp_matches(p.message, '(?i)out of memory|not enough memory|mem.fraction|allocate|undefined symbol|no module named|compute capability|\bsm_?[0-9]{2,3}\b|no kernel image|NCCL|illegal memory|device-side')
        -- a capture and a forward pass are later than loading
        AND NOT regexp_matches(coalesce(p.frames, ''), '(?i)captur|event_loop|graph_runner|cuda_graph|forward_batch|profile_run|_dummy_run')
    UNION ALL  -- but a product whose inner widths differ, in the drafter's own layers, is of weights for another width
    SELECT p.run, p.source, p.line, p.type, p.message, p.frames, p.rank, true, true
    FROM problem p
    WHERE p.cause AND p.at_start AND regexp_matches(p.message, 'mat1 and mat2 shapes cannot be multiplied|must have same reduction dim|The expanded size of the tensor .*at non-singleton dimension 1')
        AND regexp_matches(p.frames, '(?i)(?:eagle|dflash|dspark|medusa|mtp|nextn|draft)[a-z0-9_]*\.py:\w+$')
),
-- In these frames or with this news it is about weights and shapes, not about an option.
mismatch AS (
    SELECT *, CASE
        WHEN regexp_matches(message, '(?i)vocab|hidden.?(?:size|states?)|size mismatch|shape|torch\.Size|must match|special tokens|bos|divisible|dimension|shapes cannot|reduction dim|expanded size|context.?length') OR regexp_matches(frames, ':_vocab_size$') THEN 'pair'
        WHEN regexp_matches(message, '(?i)architecture|class|method|algorithm|not an? \w+ (?:draft|head)|model.?type|unrecognized|not a compatible|has no attribute') THEN 'class'
        WHEN regexp_matches(message, '(?i)no such file|does not appear to have|repo|not found|no file named|not a local folder|cannot find any model weights|does not exist|failed to load|gated|client error|couldn.t connect') THEN 'path'
        ELSE 'weights' END AS kind
    FROM (FROM refused UNION ALL FROM cause)
    WHERE certain
        -- a backend or a setting that is refused while the draft loads is a combination
        AND NOT (type <> 'draft' AND regexp_matches(message, '(?i)(?:not|n.t) (?:yet |currently )?support|only supports?\b|only (?:be )?supported|not (?:yet )?implemented|incompatible')
            AND NOT regexp_matches(message, '(?i)architecture|model.?type|vocab|hidden.?size|state_dict|checkpoint'))
        AND (type = 'draft' OR type = 'error loading model'
        OR regexp_matches(frames, '(?i):(?:load_weights?|load_model|weight_loader|\w*weight_loader\w*|get_model|_initialize_model|load_draft\w*|from_pretrained|get_config|__post_init__|_load_\w+|set_embed\w*|init_lm_head\w*|_vocab_size)')
        OR (type = 'AttributeError' AND regexp_matches(message, 'object has no attribute'))
        OR regexp_matches(message, '(?i)mismatch|must match|does not match|vocab|hidden.?size|not initialized from checkpoint|(?:dflash|eagle|draft)\w*[ _]config|no module or parameter named|unexpected key|missing key|state_dict|Attempted to load weight|\.weight\b|architecture|torch\.Size|config\.json|not a local folder|[Nn]o such file|does not appear to have|gated repo|Client Error|divisible by|greater than the derived context|shapes cannot be multiplied|same reduction dim|expanded size of the tensor'))
),
first AS (
    SELECT * FROM mismatch
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY source, line) = 1
),
others AS (
    SELECT run, arg_min(cite(source, line), (source, line), 3) AS places FROM mismatch GROUP BY run
),
translated AS (
    SELECT run, min(line) AS line, arg_min(source, line) AS source FROM event WHERE kind = 'fallback' AND name = 'draft' AND detail LIKE '%translated%' GROUP BY run
),
-- A server that serves with a drafter that was loaded in part, or as another kind: no draft is accepted.
dead AS (
    SELECT run, sum(commit_len * steps) / sum(steps) AS commit_len, sum(steps) AS steps, flatten(list(lines ORDER BY kind))[:2] AS lines
    FROM commit_mean GROUP BY run HAVING sum(commit_len * steps) <= $floor * sum(steps) AND sum(steps) >= $steps
),
weighed AS (  -- of one rank the first record is the target's, the second the drafter's
    SELECT *, row_number() OVER (PARTITION BY run, source, coalesce(rank, '') ORDER BY line) AS nth
    FROM event WHERE kind = 'weights' AND coalesce(name, '') <> 'draft' AND run IN (SELECT run FROM dead)
),
target AS (
    SELECT run, source, min(line) AS line FROM (
        SELECT run, source, line FROM weighed WHERE nth = 1 UNION ALL SELECT run, source, line FROM drafted
    ) GROUP BY run, source
),
skipped AS (
    SELECT e.run, format('{} weight{} of its checkpoint found no place, the first {}', count(DISTINCT e.name), CASE WHEN count(DISTINCT e.name) = 1 THEN '' ELSE 's' END,
            arg_min(e.name, e.line)) AS about, 'weights' AS kind, NULL AS class, arg_min(cite(e.source, e.line), e.line, 3) AS places
    FROM event e JOIN target t ON t.run = e.run AND t.source = e.source AND e.line > t.line
    WHERE e.kind = 'weight_skipped' AND regexp_matches(e.name, '(?:weight|bias)(?:_packed|_scale\w*)?$') GROUP BY e.run
),
other_kind AS (  -- an EAGLE3 head takes the features of three layers, an EAGLE head those of one
    SELECT w.run, format('its class is {}, the algorithm {}', any_value(w.name), any_value(r.algorithm)) AS about, 'class' AS kind, any_value(w.name) AS class,
        [arg_min(cite(w.source, w.line), w.line)] AS places
    FROM weighed w JOIN run r USING (run)
    WHERE w.nth = 2 AND ((w.name ILIKE '%eagle3%' AND r.algorithm = 'EAGLE') OR (w.name ILIKE '%eagle' AND r.algorithm = 'EAGLE3')) GROUP BY w.run
),
misread AS (
    SELECT * FROM (FROM skipped UNION ALL FROM other_kind) JOIN dead USING (run)
    QUALIFY row_number() OVER (PARTITION BY run ORDER BY kind) = 1
),
loaded AS (SELECT run, string_agg(DISTINCT name, ', ' ORDER BY name) AS classes FROM event WHERE kind = 'weights' AND name <> 'draft' GROUP BY run),
path AS (
    SELECT r.run, coalesce(r.draft_model, (SELECT any_value(d.path) FROM drafted d WHERE d.run = r.run)) AS path, r.algorithm FROM run r
)
SELECT
    run,
    CASE WHEN fatal THEN 'critical' ELSE 'high' END AS severity,
    format('{}{}{}: {}{}',
        CASE WHEN fatal THEN 'the start died on the draft model' ELSE 'the draft model was refused and the server went on without it' END,
        CASE WHEN path IS NOT NULL THEN ' ' || path ELSE '' END,
        CASE WHEN algorithm <> 'NONE' THEN ' (' || algorithm || ')' ELSE '' END,
        CASE WHEN coalesce(message, '') IN ('', type) THEN type || ' in ' || coalesce(nullif(regexp_extract(frames, '[^ ]+$'), ''), '?')
             WHEN type IN ('draft', 'error loading model') THEN shortened(message, 200) ELSE type || ' ' || shortened(message, 200) END,
        CASE WHEN classes IS NOT NULL THEN '. Loaded before it: ' || classes ELSE '' END) AS message,
    [kind] AS causes,
    path AS draft_model, type AS exception, shortened(message, 300) AS text, nullif(regexp_extract(frames, '[^ ]+$'), '') AS innermost, classes AS loaded,
    regexp_extract_all(message, 'torch\.Size\(\[([0-9, ]+)\]\)', 1) AS shapes, shapes[1] AS first_shape, shapes[2] AS second_shape, rank,
    places AS lines
FROM first JOIN others USING (run) LEFT JOIN path USING (run) LEFT JOIN loaded USING (run)
UNION ALL
SELECT
    run, 'medium',
    format('the draft model{} has another vocabulary than the target: its words are translated, and few translations are accepted', coalesce(' ' || path, '')),
    ['pair'], path, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, [cite(source, line)]
FROM translated LEFT JOIN path USING (run)
WHERE run NOT IN (SELECT run FROM first)
UNION ALL
SELECT
    run, 'high',
    format('the draft model{} serves with a commit length of {:.2f} over {:,.0f} steps: {}', coalesce(' ' || path, ''), commit_len, steps, about),
    [kind], path, NULL, about, NULL, class, NULL, NULL, NULL, NULL, list_filter(list_concat(places, lines), lambda one: one IS NOT NULL)
FROM misread LEFT JOIN path USING (run)
WHERE run NOT IN (SELECT run FROM first)
