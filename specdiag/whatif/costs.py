"""What a step costs by the number of rows that it verifies, as measured by runs of one model."""

from __future__ import annotations

from collections import defaultdict

from specdiag.store import Store
from specdiag.whatif.estimate import Cost, Estimate, Point, ratio

ALL = -1  # the scope of all contexts; the others are powers of two
FEWEST = 30  # steps of a context range that is told


class Costs:
    """What steps cost, by run and context; of other budgets by runs of the same kind and model."""

    def __init__(self, filled: Store) -> None:
        self.rows = {(row["run"], row["scope"]): row for row in filled.rows(TIMES)}
        self.peers: dict[str, list[str]] = defaultdict(list)
        for row in filled.rows(ARMS):
            self.peers[row["run"]].append(row["against"])
        self.known: dict[tuple[str, int], tuple[Cost, float]] = {}

    def ms(self, run: str, scope: int = ALL) -> Estimate | None:
        """A step's time over the size of its batch."""
        row = self.rows.get((run, scope))
        return ratio(row) if row else None

    def batch(self, run: str) -> int:
        row = self.rows.get((run, ALL))
        return int(row["batch"]) if row else 1

    def budgets(self, run: str) -> list[int]:
        """The budgets at which time was measured."""
        arms = [self.rows[one, ALL] for one in self._arms(run) if (one, ALL) in self.rows]
        return sorted({row["budget"] for row in arms})

    def of(self, run: str, budget: int, scope: int) -> tuple[Estimate | None, Estimate | None]:
        """The cost of a budget, and a bound of it from above."""
        cost, head = self._cost(run, scope)
        exact, most = cost.at(budget + 1), cost.most(budget + 1)
        return exact and exact.plus(head), most and most.plus(head)

    def _arms(self, run: str) -> list[str]:
        batch = self.batch(run)
        return [run, *(one for one in self.peers[run] if self.batch(one) == batch)]

    def _cost(self, run: str, scope: int) -> tuple[Cost, float]:
        """The cost by width without what a step takes before there is a tree, and that."""
        if (run, scope) not in self.known:
            rows = [self.rows[one, scope] for one in self._arms(run) if (one, scope) in self.rows]
            rows = [row for row in rows if scope == ALL or row["x"] >= FEWEST]
            # Where a run does not tell its stages, whole steps are compared.
            split = all(row["head_ms"] is not None for row in rows)
            points = [
                Point(row["budget"] + 1, found.plus(-row["head_ms"] if split else 0.0), row["x"])
                for row in rows if (found := ratio(row)) is not None
            ]  # fmt: skip
            own = self.rows.get((run, scope))
            self.known[run, scope] = Cost(points), own["head_ms"] if own and split else 0.0
        return self.known[run, scope]


TIMES = """
WITH fact AS (
    SELECT run, series % 256 AS cluster, unnest([-1, range]) AS scope, ms, head_ms
    FROM what_step WHERE ms > 0 AND ms < 1e12
),
summed AS (
    SELECT run, scope, cluster, count(*) AS n, sum(ms) AS ms,
        CASE WHEN count(head_ms) = count(*) THEN sum(head_ms) END AS head_ms
    FROM fact WHERE scope IS NOT NULL GROUP BY ALL
)
SELECT s.run, s.scope, any_value(r.batch) AS batch, any_value(r.budget) AS budget, count(*) AS units, sum(n)::BIGINT AS x, sum(ms) AS y,
    sum(n * n) AS xx, sum(n * ms) AS xy, sum(ms * ms) AS yy,
    CASE WHEN count(head_ms) = count(*) THEN sum(head_ms) / sum(n) END AS head_ms
FROM summed s JOIN what_run r USING (run) GROUP BY s.run, s.scope
"""  # noqa: E501

ARMS = """
SELECT p.run, p.against FROM peer p JOIN run a ON a.run = p.run JOIN run b ON b.run = p.against
WHERE a.speculates AND b.speculates AND a.tree = b.tree AND a.shadow = b.shadow ORDER BY ALL
"""
