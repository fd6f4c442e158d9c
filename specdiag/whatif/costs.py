"""What a step costs by the number of rows that it verifies, as measured by runs of one model."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from specdiag.estimate import FEWEST as REQUESTS
from specdiag.estimate import Estimate
from specdiag.store import Store
from specdiag.whatif.cost import Cost, Point

ALL = -1  # the scope of all contexts; the others are powers of two
FEWEST = 30  # steps of a context range that is told
MOST = 4096  # budgets and top-k caps that are asked about: a garbled one asks for billions


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
        return _median(row, "ms", "error") if row else None

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
            rows = [row for row in rows if scope == ALL or row["steps"] >= FEWEST]
            # Where a run does not tell its stages, whole steps are compared.
            split = all(row["head_ms"] is not None for row in rows)
            name, error = ("tail_ms", "tail_error") if split else ("ms", "error")
            points = [
                Point(row["budget"] + 1, _median(row, name, error), row["steps"]) for row in rows
            ]
            own = self.rows.get((run, scope))
            self.known[run, scope] = Cost(points), own["head_ms"] if own and split else 0.0
        return self.known[run, scope]


def _median(row: dict[str, Any], name: str, error: str) -> Estimate:
    enough = row["units"] >= REQUESTS
    return Estimate(row[name], row[error] if enough else None, row["units"])


# Medians: a step that waited for something else says nothing about its width. Their errors come
# from the medians of requests, just as robustly: that of a median, with the spread by deviations.
TIMES = """
WITH fact AS (
    SELECT run, series % 256 AS cluster, unnest([-1, range]) AS scope, ms, head_ms, ms - head_ms AS tail_ms
    FROM what_step WHERE ms > 0 AND ms < 1e12
),
request AS (SELECT run, scope, cluster, median(ms) AS ms, median(tail_ms) AS tail_ms FROM fact WHERE scope IS NOT NULL GROUP BY ALL),
spread AS (
    SELECT run, scope, count(*) AS units, 1.2533 * 1.4826 * mad(ms) / sqrt(count(*)) AS error,
        1.2533 * 1.4826 * mad(tail_ms) / sqrt(count(*)) AS tail_error
    FROM request GROUP BY run, scope
),
whole AS (
    SELECT run, scope, count(*) AS steps, median(ms) AS ms,
        CASE WHEN count(head_ms) = count(*) THEN median(head_ms) END AS head_ms, median(tail_ms) AS tail_ms
    FROM fact WHERE scope IS NOT NULL GROUP BY run, scope
)
SELECT w.*, s.units, s.error, s.tail_error, r.batch, r.budget
FROM whole w JOIN spread s USING (run, scope) JOIN what_run r USING (run)
"""  # noqa: E501

ARMS = """
SELECT p.run, p.against FROM peer p JOIN run a ON a.run = p.run JOIN run b ON b.run = p.against
WHERE a.speculates AND b.speculates AND a.tree = b.tree AND a.shadow = b.shadow ORDER BY ALL
"""
