-- title    = "A tree was asked for, a chain is verified"
-- severity = "high"
-- family   = "tree"
-- needs    = { run = ["tree"], event = [], step = [], decode = [] }
-- applies  = "tree AND served"
-- why      = "A tree of B nodes is verified in B + 1 rows, and with several candidates per depth some nodes share a depth. A verify width of one block, or nodes in a row whatever the budget, is linear verification under another name."
-- fix      = [
--   "Find the start-up line that announces the fall-back and remove the option that conflicts (page size, cache type, sampling, attention backend).",
--   "Check top-k and budget as the server resolved them, not as they were given.",
-- ]
-- formula  = "verify width = block, or all depths distinct in every step, while budget and top-k ask for a tree"
-- sides    = { "nodes of the chain" = "nodes", "rows captured" = "width", "nodes asked for" = "budget" }
-- unlike   = [
--   "A budget that equals the depth: a chain is then the right tree.",
--   "A drafter so sure of itself that the best tree is a chain in most steps.",
-- ]
-- causes   = [
--   { name = "fallback", cause = "a pager, cache type, sampling mode or long context switched the tree off", test = "the same start without that one option" },
--   { name = "resolved", cause = "top-k or budget were clipped when the arguments were resolved", test = "the arguments as the server prints them" },
-- ]
-- reports  = ["sgl-project/sglang#34285"]
-- params   = { steps = 20, lines = 5 }

WITH said AS (
    SELECT e.run, format('the server says so: {}', shortened(e.detail, 160)) AS message, NULL::BIGINT AS nodes, NULL::BIGINT AS width, NULL::BIGINT AS budget,
        [cite(e.source, e.line)] AS lines
    FROM event e JOIN run r ON r.run = e.run AND r.tree AND NOT r.shadow
    WHERE e.kind = 'fallback' AND e.detail ILIKE '%linear%'
),
captured AS (
    SELECT e.run, format('target verification was captured for {:.0f} tokens a request, as for a chain of block {}; a tree of {} nodes needs {}',
            e."after", e."after"::INTEGER, r.budget, r.budget + 1) AS message,
        NULL, e."after"::BIGINT, r.budget, [cite(e.source, e.line)]
    FROM event e JOIN run r ON r.run = e.run AND r.tree AND NOT r.shadow
    WHERE e.kind = 'capture_begin' AND e.name = 'target verify' AND r.budget IS NOT NULL
        AND e."after" = r.block AND r.budget + 1 <> r.block
),
-- What the accept rate divides by is what was verified.
divided AS (
    SELECT r.run, format('accept rates divide by {} rows a request, as for a chain of block {}; a tree of {} nodes has {}', rows, block, budget, budget + 1) AS message,
        NULL::BIGINT, rows::BIGINT, budget::BIGINT, d.lines
    FROM (SELECT *, rate_width + (rate_formula = 'drafts_per_proposed')::INTEGER AS rows FROM run WHERE tree AND NOT shadow) r
    JOIN (SELECT run, arg_min(cite(source, line), (source, line), 3) AS lines FROM decode WHERE usable AND accept_rate > 0 GROUP BY run HAVING count(*) >= $lines) d ON d.run = r.run
    WHERE rows = block AND rows < budget AND NOT coalesce(draft_tokens = block, false)
),
shape AS (
    SELECT s.run, count(*) AS steps, max(s.nodes) AS nodes, max(coalesce(s.budget, r.budget)) AS budget,
        bool_and(s.parents = list_transform(range(len(s.parents)), lambda i: i - 1)) AS chains,
        arg_min(cite(s.source, s.line), s.line, 4) AS lines
    FROM step s JOIN run r ON r.run = s.run AND r.tree AND NOT r.shadow
    WHERE s.parents IS NOT NULL AND NOT coalesce(s.warmup, false) AND coalesce(s.top_k, r.top_k, 2) > 1
        AND NOT coalesce(s.mode, '') ILIKE 'shadow%'
    GROUP BY s.run
),
drawn AS (
    SELECT run, format('all {} steps verify a chain of {} nodes although the budget is {}', steps, nodes, budget) AS message, nodes, NULL::BIGINT AS width, budget, lines
    FROM shape WHERE chains AND steps >= $steps AND nodes < budget AND nodes >= 2
)
SELECT * FROM (SELECT * FROM said UNION ALL SELECT * FROM captured UNION ALL SELECT * FROM divided UNION ALL SELECT * FROM drawn)
QUALIFY row_number() OVER (PARTITION BY run) = 1
