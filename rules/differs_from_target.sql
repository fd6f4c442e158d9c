-- title    = "The text is not the target's"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["emitted", "oracle_tokens"], replay = [], request = [] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step)"
-- enable   = "record what a plain pass over the text chooses (--trace-detail oracle)"
-- why      = "Speculation with an exact rule writes what the target alone would write. Where its two best tokens are closer than the arithmetic's noise either may win; here they are not."
-- fix      = [
--   "Something outside the record differs: mask, positions, cache rows, state. Record them as well (--trace-detail mask,inputs,checksums).",
--   "Run the same prompt as a chain (top-k 1), as a star of depth 1, and as a chain that branches late: the first that differs names the stage.",
-- ]
-- formula  = "emitted token = what a plain pass over the same text chooses, or the two are closer than the noise of the type"
-- sides    = { "token emitted" = "observed", "token the target chooses" = "expected" }
-- unlike   = [
--   "Near ties: the first and second choice are closer than the arithmetic's noise.",
--   "Another sampling seed: compare with the noise of seed and position, or greedily.",
-- ]
-- faults   = ["F1", "F2", "F4", "F5", "F6", "F7", "F10", "F11", "F32", "F33", "F34", "F36", "F37", "F38", "F39", "F44", "F52", "F62", "F66"]

-- What a request had besides a plain pass comes first: what another one left, and a grammar.
WITH own AS (
    SELECT run, request, nullif(max(cached_tokens), 0) AS cached_tokens, max(grammar) AS grammar FROM request GROUP BY run, request
)
SELECT b.run, format('{}: token {} was emitted, the target alone chooses {}{}', in_step(request, step, steps), observed, expected,
        coalesce(format('; {} tokens of its prompt came from a prefix cache', cached_tokens), '')) AS message,
    request, step, field, expected, observed,
    concat(CASE WHEN grammar IS NOT NULL THEN 'F44, ' END, CASE WHEN cached_tokens IS NOT NULL THEN 'F62, F66, ' END, 'F4, F7, F11, F34, F52') AS faults, steps, lines
FROM broken(['oracle'], []) b LEFT JOIN own USING (run, request)
