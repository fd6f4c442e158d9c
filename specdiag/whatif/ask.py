"""The budgets of every traced run: accepted depth, cost, tokens per second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from specdiag.estimate import Estimate, quotient, ratio
from specdiag.store import Store
from specdiag.whatif.answers import Answers, Best, Budget, Range, Traced
from specdiag.whatif.chain import TABLES as CHAIN
from specdiag.whatif.chain import caps, chains
from specdiag.whatif.costs import ALL, FEWEST, MOST, Costs
from specdiag.whatif.plain import break_even

TABLES = Path(__file__).with_name("whatif.sql")
CLOSE = 0.02  # share of the best throughput that is as good as the best
UNORDERED = 0.05  # share of trees that may be out of order


def ask(filled: Store, every: int = 1, budgets_only: bool = False) -> Answers:
    """Walk all traced steps again and answer for every run. The tables `what_*` stay behind.

    With `every` above 1 only so few of the stretches of steps are walked; with `budgets_only`
    nothing is said of top-k caps, of ranges of contexts, and of a chain without a run of it.
    """
    filled.db.execute(f"SET VARIABLE asked_every = {every:d}")
    filled.db.execute(TABLES.read_text(encoding="utf-8"))
    runs = {row["run"]: _traced(row) for row in filled.rows(_RUNS)}
    costs = Costs(filled)
    kept = _kept(filled, "budget")
    deep = not budgets_only or bool(filled.rows("SELECT 1 FROM chain LIMIT 1"))
    if deep:
        filled.db.execute(CHAIN.read_text(encoding="utf-8"))
    capped = {} if budgets_only else _kept(filled, "top_k")
    scopes = [] if budgets_only else filled.rows(_SCOPES)
    steps = {(row["run"], row["scope"]): row["steps"] for row in scopes}
    for run in runs.values():
        if run.prefixes:
            run.costed = costs.budgets(run.run)
            run.budgets = _budgets(run, kept[run.run, ALL], costs, ALL)
            run.best = _best(run.budgets)
            run.ranges = list(_ranges(run, kept, steps, costs))
        if run.branches and not budgets_only:
            run.caps = caps(run, capped[run.run, ALL], filled)
    _measure(runs, filled)
    if deep:
        chains(runs, filled, costs)
    return Answers(list(runs.values()), break_even(filled))


def _kept(filled: Store, kind: str) -> dict[tuple[str, int], dict[int, Estimate]]:
    """Commit length by run and scope, under every smaller budget or top-k."""
    kept: dict[tuple[str, int], dict[int, Estimate]] = defaultdict(dict)
    for row in filled.rows(_LEVELS, {"kind": kind}):
        if (found := ratio(row)) is not None:
            kept[row["run"], row["scope"]][row["level"]] = found.plus(1)
    return kept


def _measure(runs: dict[str, Traced], filled: Store) -> None:
    """Put the commit lengths of runs at other budgets beside those that were predicted."""
    for row in filled.rows(_ARMS):
        run, other = runs.get(row["run"]), runs.get(row["against"])
        if run is None or other is None or not other.budgets:
            continue
        run.budgets = [
            replace(one, measured=other.budgets[-1].commit_len, measured_run=other.run)
            if one.budget == other.budget and one.budget < run.budget and one.measured is None
            else one
            for one in run.budgets
        ]


_ARMS = """
SELECT p.run, p.against FROM peer p JOIN run a ON a.run = p.run JOIN run b ON b.run = p.against
JOIN what_run x ON x.run = a.run JOIN what_run y ON y.run = b.run
WHERE a.tree = b.tree AND a.shadow = b.shadow AND x.top_k IS NOT DISTINCT FROM y.top_k ORDER BY ALL
"""


def _traced(row: dict[str, Any]) -> Traced:
    order = "scores" if row["scored"] else "assumed"
    if not row["branches"]:
        order = "chain"
    elif row["unordered"] > UNORDERED * row["scored"] and not row["depth_bonus"]:
        order = "unordered"
    elif order == "assumed" and row["by_depth"]:
        order = "by_depth"
    context = (row["ctx_min"], row["ctx_max"]) if row["ctx_min"] is not None else None
    return Traced(
        row["run"], row["steps"], row["requests"], row["budget"], row["branches"], row["batch"],
        context, row["walk"], order, row["deepest"], row["shadow"],
    )  # fmt: skip


_RUNS = """
SELECT w.*, coalesce(c.bonus <> 0, false) AS depth_bonus, r.shadow FROM what_run w JOIN run r USING (run)
LEFT JOIN (SELECT run, max(TRY_CAST(value AS DOUBLE)) AS bonus FROM config WHERE key = 'depth_bonus' GROUP BY run) c USING (run)
WHERE w.steps > 0 AND w.budget > 0 ORDER BY w.run
"""  # noqa: E501

# Sums over requests, each of all its steps and of those in each range of contexts. At most 256
# groups of requests: more would not make an interval better.
_FACT = """
fact AS (
    SELECT w.id, w.run, w.series % 256 AS cluster, unnest([-1, w.range]) AS scope
    FROM what_step w JOIN what_run r USING (run) WHERE w.walk IS NOT NULL AND w.budget >= r.budget
),
member AS (SELECT run, scope, cluster, count(*) AS n FROM fact WHERE scope IS NOT NULL GROUP BY ALL)
"""
_SCOPES = f"""
WITH {_FACT} SELECT run, scope, sum(n)::BIGINT AS steps FROM member GROUP BY ALL
"""
_LEVELS = f"""
WITH {_FACT},
hit AS (
    SELECT run, scope, cluster, level, count(*) AS n FROM fact
    JOIN what_level USING (id) WHERE kind = $kind AND scope IS NOT NULL GROUP BY ALL
),
grid AS (
    SELECT m.*, unnest(range(1, least(CASE $kind WHEN 'budget' THEN r.budget ELSE coalesce(r.top_k, 16) - 1 END, {MOST}) + 1)) AS level
    FROM member m JOIN what_run r USING (run)
),
summed AS (
    SELECT g.*, sum(coalesce(h.n, 0)) OVER (PARTITION BY g.run, g.scope, g.cluster ORDER BY g.level) AS hits
    FROM grid g LEFT JOIN hit h USING (run, scope, cluster, level)
)
SELECT run, scope, level, count(*) AS units, sum(n) AS x, sum(hits) AS y, sum(n * n) AS xx,
    sum(n * hits) AS xy, sum(hits * hits) AS yy
FROM summed GROUP BY run, scope, level ORDER BY run, scope, level
"""  # noqa: E501


# Budgets


def _budgets(run: Traced, kept: dict[int, Estimate], costs: Costs, scope: int) -> list[Budget]:
    found = []
    for budget, commit_len in sorted(kept.items()):
        exact, most = costs.of(run.run, budget, scope)
        ms = exact or most
        speed = quotient(commit_len, ms, 1000) if ms else None
        found.append(
            Budget(
                budget,
                commit_len,
                ms.value * run.batch if ms else None,
                speed,
                exact is None and ms is not None,
                shallow=budget < run.deepest,
            )
        )
    return found


def _best(budgets: list[Budget]) -> Best | None:
    """The best of the budgets whose time is known; one alone is no choice."""
    known = [(one, one.tokens_per_s) for one in budgets if one.tokens_per_s and not one.bound]
    if len(known) < 2:
        return None
    best, speed = max(known, key=lambda pair: pair[1].value)
    close = [one.budget for one, its in known if its.value >= (1 - CLOSE) * speed.value]
    widest = best.budget >= max(one.budget for one, _ in known)
    return Best(best.budget, speed, min(close), max(close), widest)


def _ranges(
    run: Traced, kept: dict[tuple[str, int], dict[int, Estimate]],
    steps: dict[tuple[str, int], int], costs: Costs,
) -> Iterator[Range]:  # fmt: skip
    scopes = sorted(
        scope for name, scope in steps
        if name == run.run and scope != ALL and steps[name, scope] >= FEWEST
    )  # fmt: skip
    for scope in scopes if len(scopes) > 1 else []:
        budgets = _budgets(run, kept[run.run, scope], costs, scope)
        yield Range(
            2**scope, 2 ** (scope + 1) - 1, steps[run.run, scope], budgets[-1].commit_len,
            _best(budgets),
        )  # fmt: skip
