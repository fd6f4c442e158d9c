-- title    = "Grammar and speculation contradict each other"
-- severity = "high"
-- family   = "output"
-- needs    = { run = ["served"], event = [], problem = [], request = [], baseline = [] }
-- applies  = "speculates AND served"
-- why      = "With a schema every committed token must be legal, so the mask has to hold at every drafted position and the grammar may advance by accepted tokens only. Where one of the two is off by a token, the grammar refuses what was committed: the request is aborted with an error 500, or never finds its end."
-- fix      = [
--   "Send the same constrained request to a server without speculation: if it passes, only the combination is broken.",
--   "Write down the versions of server and grammar library (xgrammar, llguidance, outlines) and update both; the pair was repaired several times.",
--   "Until then route constrained requests, tool calls included, to a server without speculation.",
-- ]
-- formula  = "requests whose committed tokens the grammar refused, none of them without speculation; or constrained requests that end by abort or length in half of the cases where others do in a tenth"
-- sides    = { "requests that failed" = "refused_requests", "requests with a grammar" = "constrained_requests" }
-- unlike   = [
--   "A draft that the grammar does not allow: the mask refuses it and the request goes on (vLLM: Failed to advance FSM without a terminated request).",
--   "The same messages without speculation: schema, tokenizer or library are at fault.",
--   "Long constrained answers that reach a small limit, when the others do, too.",
-- ]
-- causes   = [
--   { name = "double_accept", cause = "a token is handed to the grammar twice, or after its end (overlap scheduling, prefill/decode separation)", test = "--disable-overlap-schedule (vLLM --no-async-scheduling): the same request passes" },
--   { name = "mask", cause = "drafted positions are verified without the grammar's mask", test = "one draft token a step: rejections become rare or stop" },
--   { name = "reasoning", cause = "the end of the reasoning part falls into a draft, and its tokens reach the grammar", test = "the same request with thinking switched off: it passes" },
--   { name = "unsupported", cause = "this algorithm has no grammar support in this release", test = "another algorithm, one flag: the request is accepted" },
--   { name = "grammar", cause = "schema, tokenizer and library do not fit each other", test = "the same request without speculation: it fails there, too" },
-- ]
-- reports  = ["sgl-project/sglang#29110", "sgl-project/sglang#13019", "sgl-project/sglang#15050", "vllm-project/vllm#44006", "vllm-project/vllm#34241"]
-- explains = ["speculative_assertion", "combination_unsupported", "server_died"]
-- params   = { requests = 5, share = 0.5, others = 0.1, nearly_all = 0.9, once = 2 }

-- Refusals that end a request or a server. What only a draft met is left out.
WITH told AS (
    SELECT run, source, line, CASE WHEN regexp_matches(detail, '^[A-Za-z0-9._-]+$') THEN detail ELSE line::VARCHAR END AS request, false AS fatal,
        CASE WHEN name = 'not support' THEN 'unsupported' ELSE 'rejected' END AS what
    FROM event WHERE kind = 'grammar' AND name IN ('rejected', 'Terminating', 'accept_token', 'not support')
    UNION ALL
    SELECT run, source, line, message, fatal,
        CASE WHEN regexp_matches(message, '(?i)not support grammar') THEN 'unsupported' WHEN regexp_matches(message, 'terminated_') THEN 'ended'
            ELSE 'rejected' END
    FROM problem
    WHERE regexp_matches(message, 'Tokens not accepted|grammar_matcher\.cc|GrammarMatcher has terminated|[Uu]nexpected empty grammar stack|(?i)does not support grammar-constrained|grammar rejected token')
),
-- Every rank prints the same; a traceback comes after the message of its request.
refused AS (
    SELECT run, count(DISTINCT request) AS requests, bool_or(fatal) AS fatal, mode(what) AS what, list_sort(list_distinct(list(what))) AS kinds,
        arg_min(cite(source, line), line, 4) AS lines
    FROM told GROUP BY run
),
plain AS (
    SELECT p.run, sum(r.requests) AS requests FROM baseline p JOIN refused r ON r.run = p.against GROUP BY p.run
),
constrained AS (
    SELECT run, count(*) FILTER (bound) AS bound, count(*) FILTER (bound AND failed) AS bound_failed, count(*) FILTER (NOT bound) AS free,
        count(*) FILTER (NOT bound AND failed) AS free_failed,
        count(*) FILTER (bound AND finish = 'abort') AS aborted, arg_min(cite(source, line), line, 4) FILTER (bound AND failed) AS lines
    FROM (SELECT *, grammar IS NOT NULL AND grammar NOT IN ('text', '') AS bound, coalesce(finish IN ('abort', 'length', 'error'), false) AS failed
        FROM request) GROUP BY run
),
plain_constrained AS (
    SELECT p.run, max(c.bound_failed / c.bound) AS share FROM baseline p JOIN constrained c ON c.run = p.against WHERE c.bound >= 3 GROUP BY p.run
),
found AS (
    SELECT r.run,
        format('the grammar {} in {} request{}{}', CASE r.what WHEN 'unsupported' THEN 'is not supported with this algorithm'
            WHEN 'ended' THEN 'was asked for more after its end' ELSE 'refused tokens that were committed' END,
            r.requests, CASE WHEN r.requests = 1 THEN '' ELSE 's' END, CASE WHEN r.fatal THEN ', and the server died of it' ELSE '' END) AS message,
        CASE WHEN r.fatal THEN 'critical' WHEN r.what = 'unsupported' THEN 'medium' WHEN r.requests < $once THEN 'medium' ELSE 'high' END AS severity,
        r.requests AS refused_requests, NULL::BIGINT AS constrained_requests,
        CASE r.what WHEN 'unsupported' THEN ['unsupported'] WHEN 'ended' THEN ['double_accept'] ELSE [] END AS causes, r.lines, 0 AS nth
    FROM refused r LEFT JOIN plain p USING (run) WHERE p.requests IS NULL
    UNION ALL BY NAME
    SELECT c.run,
        format('{} of {} constrained requests end by {}, of {} others {}', c.bound_failed, c.bound, CASE
            WHEN c.aborted >= 0.5 * c.bound_failed THEN 'abort' ELSE 'their length limit' END, c.free, c.free_failed) AS message,
        -- a schema that invites white space ends by length now and then, without speculation, too
        CASE WHEN c.aborted >= 0.5 * c.bound_failed OR (c.bound_failed >= $nearly_all * c.bound AND c.free_failed = 0) THEN 'high' ELSE 'medium' END AS severity,
        c.bound_failed AS refused_requests, c.bound AS constrained_requests, [] AS causes, c.lines, 1 AS nth
    FROM constrained c LEFT JOIN plain_constrained p USING (run)
    WHERE c.bound >= $requests AND c.free >= $requests AND c.bound_failed >= $share * c.bound AND c.free_failed <= $others * c.free
        AND NOT coalesce(p.share >= 0.5 * c.bound_failed / c.bound, false)
)
SELECT run, message, severity, refused_requests, constrained_requests, causes, lines
FROM found QUALIFY row_number() OVER (PARTITION BY run ORDER BY nth) = 1
