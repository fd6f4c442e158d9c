-- title    = "The drafter fails to decode, and requests go on without it"
-- severity = "high"
-- family   = "runtime"
-- needs    = { event = ["kind"], request = [], prefill = [], acceptance = [] }
-- applies  = "run IN (SELECT run FROM event WHERE kind = 'draft_failed' UNION SELECT run FROM acceptance WHERE requests = 1 AND accepted_tokens IS NOT NULL)"
-- why      = "A server that survives an error of its drafter serves on with plain steps, or with drafts made from a cache that lacks what the error left out: it is slower than it was set up to be, and no figure of acceptance says why."
-- fix      = [
--   "Read the lines before the quoted one: they say why the batch was refused.",
--   "Where positions do not continue: compare with prompts without images and with the prompt cache off; both skip positions that the drafter's cache then lacks.",
--   "Where there is no room: give the drafter's context the size of the target's, and as many sequences.",
--   "Search the message in the issues of the server, with its build.",
-- ]
-- formula  = "the server says that a batch of its drafter failed"
-- unlike   = [
--   "A batch of the target that finds no free slot and is tried again, smaller.",
--   "A drafter that does not load (draft_does_not_match).",
--   "A server that dies of it (speculative_assertion, server_died).",
-- ]
-- causes   = [
--   { name = "positions", cause = "the drafter's cache lacks tokens that the target has: an image, a cached prefix, a shifted context", test = "the same text without image and prompt cache: no error" },
--   { name = "room", cause = "the drafter's context is shorter than the conversation, or has fewer sequences", test = "a shorter prompt, one request at a time: no error" },
-- ]
-- reports  = ["ggml-org/llama.cpp#18039", "ggml-org/llama.cpp#10628"]
-- explains = ["draft_never_accepted", "acceptance_low_from_start", "speculation_never_engages", "slower_than_baseline"]

-- One failure is told by two lines, of the drafter and of the server.
WITH failed AS (
    SELECT run, arg_min(detail, (source, line)) AS detail, arg_min(cite(source, line), (source, line), 3) AS lines FROM event
    WHERE kind = 'draft_failed' GROUP BY run
),
counted AS (
    SELECT run, max(times) AS failures FROM (
        SELECT run, name, count(*) AS times FROM event WHERE kind = 'draft_failed' GROUP BY run, name
    ) GROUP BY run
),
refused AS (  -- shortly before a failure
    SELECT e.run, arg_min(e.detail, (e.source, e.line)) AS reason, arg_min(cite(e.source, e.line), (e.source, e.line)) AS place
    FROM event e SEMI JOIN (FROM event WHERE kind = 'draft_failed') f ON f.source = e.source AND f.line BETWEEN e.line AND e.line + 12
    WHERE e.kind = 'batch_refused' GROUP BY e.run
),
served AS (
    SELECT run, max(requests)::BIGINT AS requests FROM (
        SELECT run, count(*) AS requests FROM request GROUP BY run UNION ALL SELECT run, sum(new_requests) FROM prefill GROUP BY run
    ) GROUP BY run
)
SELECT
    f.run,
    format('{} ({} time{}{}){}', f.detail, c.failures, CASE WHEN c.failures > 1 THEN 's' ELSE '' END,
        CASE WHEN s.requests > 0 THEN format(' beside {} request{}', s.requests, CASE WHEN s.requests > 1 THEN 's' ELSE '' END) ELSE '' END,
        CASE WHEN r.reason IS NOT NULL THEN ': ' || r.reason ELSE '' END) AS message,
    CASE WHEN r.reason IS NOT NULL THEN ['positions'] WHEN regexp_matches(f.detail, '(?i)rc ?= ?1\b|slot|space|room') THEN ['room'] ELSE []::VARCHAR[] END AS causes,
    c.failures, s.requests, r.reason,
    list_filter(list_prepend(r.place, f.lines), lambda one: one IS NOT NULL) AS lines
FROM failed f JOIN counted c USING (run) LEFT JOIN refused r USING (run) LEFT JOIN served s USING (run)
