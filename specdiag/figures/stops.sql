-- title = "Why steps stop"
-- tells = "What kept each traced step from accepting one more draft. Depth: a larger block would go on; budget: a larger tree holds the target's token; top-k: it was no candidate; tree: it was not in the tree, and no candidates are recorded to say why. Of a long trace stretches are taken."
-- place = 56
-- draw = "bar"
-- ordered = true
-- needs = ["stop"]
-- x = { title = "what ended the path", scale = "category" }
-- y = { title = "share of steps, %" }
WITH reason AS (
    SELECT unnest(['depth', 'budget', 'top_k', 'tree', 'left_out', 'walk', 'end']) AS why,
        unnest(['depth', 'budget', 'top-k', 'tree', 'left out of the tree', 'walk', 'end of the request']) AS x, unnest(range(7)) AS place
),
counted AS (SELECT run, why, count(*) AS steps, sum(count(*)) OVER (PARTITION BY run) AS whole FROM stop GROUP BY run, why)
SELECT run, x, 100 * steps / whole AS y FROM counted JOIN reason USING (why) WHERE whole >= 5
ORDER BY place, run
