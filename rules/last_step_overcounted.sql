-- title    = "The last step counts drafts that were cut off"
-- severity = "info"
-- family   = "metrics"
-- needs    = { request = ["verify_steps", "correct_drafts", "completion_tokens"] }
-- enough   = 4
-- why      = "A request that ends inside an accepted path, at its length limit or a stop token, emits less than its last step accepted. The counters keep what was accepted, so they lie above tokens per step, most of all for short answers."
-- fix      = ["Nothing to repair: use tokens over steps for speed, and the counters for the drafter.", "Do not hold the last step of a request against the server."]
-- formula  = "completion_tokens = steps + accepted drafts (+ 1 from prefill) for most requests; the others lack at most the width of one step"
-- sides    = { "tokens a step, by counters" = "counter_commit_len", "tokens a step, by tokens" = "token_commit_len" }
-- unlike   = [
--   "A difference of more than one step, or tokens that no counter has (sources_disagree).",
--   "A difference that all requests share: it is the token that prefill makes.",
-- ]
-- reports  = ["vllm-project/vllm#56101"]
-- params   = { share = 0.4 }

WITH counted AS (
    SELECT run, source, line, request, finish, verify_steps, correct_drafts, completion_tokens, completion_tokens - verify_steps - correct_drafts AS rest,
        coalesce(proposed_drafts / verify_steps, len(histogram) - 1) AS width
    FROM request WHERE verify_steps > 0 AND correct_drafts IS NOT NULL AND completion_tokens > 0
),
-- What a whole request leaves over: nothing, or the token that prefill made.
whole AS (
    SELECT run, mode(rest) AS rest, count(*) AS requests FROM counted WHERE rest IN (0, 1) GROUP BY run
),
cut AS (
    SELECT c.run, count(*) AS requests, max(w.rest - c.rest) AS most, sum(w.rest - c.rest) AS drafts, mode(c.finish) AS finish,
        arg_max(c.request, w.rest - c.rest) AS request, arg_min(cite(c.source, c.line), c.line, 4) AS lines
    FROM counted c JOIN whole w USING (run)
    WHERE c.rest < w.rest AND w.rest - c.rest <= c.width AND coalesce(c.finish, 'length') IN ('stop', 'length', 'tool_calls') AND NOT (c.rest = 0
        AND w.rest = 1)
    GROUP BY c.run
),
total AS (
    SELECT run, count(*) AS requests, sum(verify_steps + correct_drafts) / sum(verify_steps) AS counters,
        sum(c.completion_tokens - w.rest) / sum(verify_steps) AS tokens
    FROM counted c JOIN whole w USING (run) GROUP BY run
)
SELECT
    run,
    format('{} of {} requests accepted up to {} drafts more than they emitted, in their last step{}: {:.2f} tokens a step by the counters, {:.2f} by the tokens', c.requests, t.requests, c.most,
        CASE WHEN c.requests = 1 THEN format(' ({}, ends by {})', coalesce(c.request, '?'), coalesce(c.finish, '?')) ELSE '' END, t.counters,
            t.tokens) AS message,
    c.requests AS cut_requests, t.requests, c.drafts AS cut_drafts, t.counters AS counter_commit_len, t.tokens AS token_commit_len, c.lines
FROM cut c JOIN total t USING (run) JOIN whole w USING (run)
WHERE w.requests >= $share * t.requests AND w.requests >= 3
