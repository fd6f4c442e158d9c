-- title    = "Sampled tokens do not follow the request's law"
-- severity = "critical"
-- family   = "trace"
-- needs    = { step = ["target_probs", "accepted"], request = ["temperature"] }
-- applies  = "speculates AND run IN (SELECT DISTINCT run FROM step) AND run IN (SELECT DISTINCT run FROM request WHERE temperature > 0)"
-- enable   = "record the target's probability of every node and of the bonus (--trace-detail law)"
-- why      = "Every exact rule draws from the target at the request's temperature and top-p: a child is accepted as often as the target would have drawn it, and a token outside the nucleus never. Greedy verification of such a request is another request; accepting drafts with min(1, p / q) writes the drafter's text."
-- fix      = [
--   "Verify with the temperature, top-p and penalties of the row's own request, at every row and for the bonus.",
--   "Fixed candidates are no draws: draw from the target and follow the draw where it is a child.",
-- ]
-- formula  = "sum over accepted nodes of the target's probability against how many were accepted; draws outside the nucleus never"
-- sides    = { "chance of such tokens" = "odds", "drafts accepted" = "accepted_drafts", "drafts due by the law" = "expected_drafts" }
-- unlike   = [
--   "A greedy request in a batch of sampled ones.",
--   "Few steps: chance alone is allowed for.",
-- ]
-- explains = ["differs_from_target"]
-- faults   = ["F32", "F33", "F34"]
-- params   = { odds = 1e-9, deviations = 6.0, steps = 10 }

WITH sampled AS (
    SELECT run, request, max(temperature) AS temperature FROM request WHERE temperature > 0 GROUP BY run, request
),
drawn AS (
    SELECT s.run, s.request, s.step, s.source, s.line, s.target_probs, s.accepted, s.parents,
        list_append(list_transform(s.accepted[2:], lambda row: s.target_probs[row + 1]), s.target_probs[1]) AS chosen, s.draws
    FROM step s JOIN sampled q ON q.run = s.run AND q.request = s.request
    WHERE len(s.target_probs) = len(s.parents) AND len(s.accepted) > 0 AND NOT coalesce(s.warmup, false)
),
impossible AS (
    SELECT run, count(*) AS steps, arg_min(request, line) AS request, arg_min(step, line) AS step, arg_min(cite(source, line), line, 4) AS lines
    FROM drawn WHERE list_min(chosen) = 0 GROUP BY run
),
-- `draws` is the mass of what is more probable than the chosen token: 0 for the most probable one.
-- How likely it is that all of a request's last tokens were the most probable ones.
greedy AS (
    SELECT run, request, step, source, line, chosen, max(step) FILTER (list_max(draws) > 0) OVER (PARTITION BY run, request) AS last_drawn
    FROM drawn WHERE draws IS NOT NULL
),
always AS (
    SELECT run, request, count(*) AS steps, min(step) AS step, exp(sum(list_sum(list_transform(chosen, lambda p: ln(greatest(p, 1e-30)))))) AS odds,
        arg_min(cite(source, line), line, 4) AS lines
    FROM greedy WHERE step > coalesce(last_drawn, -1) GROUP BY run, request
),
-- At every row of the walk: the mass of its children, and whether one of them was accepted.
visited AS (
    SELECT run, request, step, source, line, unnest(accepted) AS node, unnest(range(len(accepted))) AS nth, len(accepted) AS visits, parents, target_probs FROM drawn
),
offered AS (
    SELECT *, least(1, list_sum(list_transform(list_filter(range(1, len(parents)), lambda i: parents[i + 1] = node), lambda i: target_probs[i + 1]))) AS mass, (nth < visits - 1)::INTEGER AS taken
    FROM visited WHERE list_contains(parents, node)
),
summed AS (
    SELECT *, sum(taken - mass) OVER (PARTITION BY run ORDER BY source, line, nth) AS balance FROM offered
),
accepted_more AS (
    SELECT run, count(DISTINCT cite(source, line)) AS steps, sum(taken) AS taken, sum(mass) AS mass, (sum(taken) - sum(mass)) / sqrt(greatest(sum(mass * (1 - mass)), 0.25)) AS deviations,
        arg_min({'request': request, 'step': step}, (balance, line)) AS "before", arg_min(cite(source, line), line, 4) AS lines
    FROM summed GROUP BY run
)
SELECT run, format('{}: a token was chosen that the request''s law gives no probability (top-p)', in_step(request, step, steps)) AS message,
    request, step, NULL AS odds, NULL AS accepted_drafts, NULL AS expected_drafts, 'F34' AS faults, steps, lines
FROM impossible
UNION ALL
(SELECT run, format('{}: only the most probable tokens were chosen from here on; at the request''s temperature that happens once in {:.0e} times', in_step(request, step, 1), 1 / greatest(odds, 1e-300)),
    request, step, odds, NULL, NULL, 'F32', steps, lines
FROM always WHERE odds < $odds AND steps >= $steps AND run NOT IN (SELECT run FROM impossible)
QUALIFY row_number() OVER (PARTITION BY run ORDER BY request) = 1)
UNION ALL
SELECT run, format('{} drafts were accepted, the target''s probabilities make {:.1f} ({:.1f} standard deviations)', taken, mass, deviations),
    "before".request, "before".step, NULL, taken, mass, 'F33', steps, lines
FROM accepted_more WHERE deviations > $deviations AND steps >= $steps AND run NOT IN (SELECT run FROM impossible)
    AND run NOT IN (SELECT run FROM always WHERE odds < $odds AND steps >= $steps)
