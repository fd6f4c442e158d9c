"""Less than the traced tree: smaller top-k caps, the chain, and what the tree buys over it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from specdiag.estimate import Estimate, difference, ratio
from specdiag.store import Store
from specdiag.whatif.answers import Cap, Chain, Traced
from specdiag.whatif.costs import MOST, Costs

TABLES = Path(__file__).with_name("chain.sql")
SAMPLE = 400  # trees whose nodes under a cap are counted


def caps(run: Traced, kept: dict[int, Estimate], filled: Store) -> list[Cap]:
    """Smaller caps of a run whose nodes have ranks; `kept` is the commit length under each.

    The nodes whose whole path has ranks below the cap are the first ones of the capped tree.
    """
    rows = filled.rows(_CAPS, {"run": run.run, "sample": SAMPLE})
    return [
        Cap(row["top_k"], row["nodes"], kept[row["top_k"]], row["open"])
        for row in rows if row["top_k"] in kept
    ]  # fmt: skip


# Nodes are counted in trees that stand evenly apart, acceptance in all.
_CAPS = f"""
WITH RECURSIVE ranked AS (
    SELECT w.id FROM what_step w JOIN step s ON s.rowid = w.id
    WHERE w.run = $run AND w.branches AND s.ranks IS NOT NULL
),
sampled AS (
    SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS nth, count(*) OVER () AS trees FROM ranked)
    WHERE nth % greatest(trees // $sample, 1) = 0
),
node AS (
    SELECT d.id, unnest(range(1, len(s.parents))) AS "row", unnest(s.parents[2:]) AS parent, unnest(s.ranks[2:]) AS rank
    FROM sampled d JOIN step s ON s.rowid = d.id
),
reached AS (
    SELECT id, "row", rank FROM node WHERE parent = 0
    UNION ALL
    SELECT n.id, n."row", greatest(n.rank, r.rank) FROM reached r JOIN node n ON n.id = r.id AND n.parent = r."row" AND n."row" > r."row"
),
cap AS (SELECT unnest(range(1, max(rank) + 1)) AS top_k FROM reached WHERE rank <= {MOST}),
deepest AS (
    SELECT w.id, coalesce(max(l.level), 0) AS level FROM what_step w
    JOIN what_run r ON r.run = w.run AND w.budget >= r.budget
    LEFT JOIN what_level l ON l.id = w.id AND l.kind = 'top_k'
    WHERE w.run = $run AND w.walk IS NOT NULL GROUP BY w.id
)
SELECT c.top_k,
    (SELECT count(*) FROM reached WHERE rank < c.top_k) / (SELECT count(*) FROM sampled) AS nodes,
    (SELECT avg((level <= c.top_k)::INTEGER) FROM deepest) AS open
FROM cap c ORDER BY c.top_k
"""  # noqa: E501


def chains(runs: dict[str, Traced], filled: Store, costs: Costs) -> None:
    """Set what the drafter's first choices alone would have committed, for every run with trees."""
    against: dict[str, list[str]] = defaultdict(list)
    for row in filled.rows("SELECT run, against FROM chain ORDER BY ALL"):
        against[row["run"]].append(row["against"])
    for row in filled.rows(_CHAIN):
        run = runs.get(row["run"])
        chain, tree, gain = (_of(row, name) for name in ("chain", "depth", "gain"))
        if run is None or chain is None or tree is None or gain is None:
            continue
        others = [
            one for one in against[run.run]
            if one in runs and runs[one].batch == run.batch and costs.ms(one)
        ]  # fmt: skip
        timed = _timed(run, runs[others[0]], tree.plus(1), costs) if others else {}
        run.chain = Chain(
            chain.plus(1), row["exact"], row["open"], row["n"], tree.plus(1), gain,
            row["better"], row["worse"], row["build_ms"], **timed,
        )  # fmt: skip


def _timed(run: Traced, other: Traced, tree: Estimate, costs: Costs) -> dict[str, Any]:
    """The times of a tree beside those of a run of the chain."""
    own, its = costs.ms(run.run), costs.ms(other.run)
    if own is None or its is None or not other.budgets:
        return {}
    tree = run.budgets[-1].commit_len if run.budgets else tree
    chain = other.budgets[-1].commit_len
    return {
        "against": other.run, "measured": chain, "extra_ms": difference(own, its),
        "rate": chain.value / its.value, "tree_rate": tree.value / own.value,
    }  # fmt: skip


def _of(row: dict[str, Any], name: str) -> Estimate | None:
    sums = {key: row[f"{key}_{name}"] for key in ("y", "xy", "yy")}
    return ratio(sums | {key: row[key] for key in ("units", "x", "xx")})


# Where most steps have spine_tokens, those without the whole text behind them are left out: by
# their position in the request, so that those left are no choice of good or bad ones.
_CHAIN = """
WITH told AS (
    SELECT w.run, count(c.told) > 0.5 * count(*) AS exact
    FROM what_step w JOIN what_chain c USING (id) GROUP BY w.run
),
used AS (
    SELECT w.run, w.series % 256 AS cluster, t.exact, c.depth, CASE WHEN t.exact THEN c.told ELSE c.least END AS chain,
        c.open, w.build_ms
    FROM what_step w JOIN what_chain c USING (id) JOIN told t ON t.run = w.run JOIN what_run r ON r.run = w.run
    WHERE r.branches AND (c.told IS NOT NULL OR NOT t.exact)
),
summed AS (
    SELECT run, cluster, any_value(exact) AS exact, count(*) AS n, sum(depth) AS depth, sum(chain) AS chain,
        sum(depth - chain) AS gain, sum(open::INTEGER) AS open, sum((depth > chain)::INTEGER) AS better,
        sum((depth < chain)::INTEGER) AS worse, sum(build_ms) AS build_ms
    FROM used GROUP BY run, cluster
)
SELECT run, any_value(exact) AS exact, sum(n)::BIGINT AS n, count(*) AS units, sum(n) AS x, sum(n * n) AS xx,
    sum(chain) AS y_chain, sum(n * chain) AS xy_chain, sum(chain * chain) AS yy_chain,
    sum(depth) AS y_depth, sum(n * depth) AS xy_depth, sum(depth * depth) AS yy_depth,
    sum(gain) AS y_gain, sum(n * gain) AS xy_gain, sum(gain * gain) AS yy_gain,
    sum(open) / sum(n) AS open, sum(better) / sum(n) AS better, sum(worse) / sum(n) AS worse, sum(build_ms) / sum(n) AS build_ms
FROM summed GROUP BY run ORDER BY run
"""  # noqa: E501
