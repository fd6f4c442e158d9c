-- title = "Accept length against context"
-- tells = "Each point is a commit length (accepted drafts and the target's own token) at its context. A drafter that loses long contexts falls; below the break-even line a step costs more than it brings."
-- place = 20
-- x = { title = "context, tokens a request", scale = "log" }
-- y = { title = "accept length, tokens a step" }
SELECT run, ctx_len AS x, commit_len AS y, source, line
FROM commit_sample WHERE ctx_len > 0
