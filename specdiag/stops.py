"""Why traced steps stopped where they did, and how far the drafter's probabilities hold.

The first says which knob is worth turning: depth, budget, top-k, or the drafter itself. The second
tells a weak drafter from a fed-wrong one: probabilities that hold on the spine and not on siblings
mean that marginals cannot carry branches; that hold nowhere, that the drafter reads the wrong
context (ddtree, section 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specdiag.store import Store

# Every reason, in the order of `stops.sql`, and what it says to do.
REASONS = {
    "end": "the request ended: nothing to gain",
    "depth": "the whole depth was accepted: a drafter of a larger block would go on",
    "budget": "the target's token was a candidate, below the last node: a larger budget holds it",
    "top_k": "the target's token was no candidate: a larger top-k, or a better drafter",
    "tree": "the target's token was not in the tree (record candidates to know why)",
    "left_out": "a better candidate than the last node was left out: the tree is built wrong",
    "walk": "a child carried the target's token: the walk is wrong",
}


@dataclass(frozen=True)
class Depth:
    """Nodes of one depth whose parent was accepted, by what the drafter gave them."""

    depth: int
    sibling: bool  # of rank above 0; else the drafter's first choice
    nodes: int
    expected: float  # sum of the probabilities that the drafter gave them
    accepted: int


@dataclass(frozen=True)
class Stops:
    """One run: how many steps stopped for which reason, and its drafter by depth."""

    run: str
    steps: int
    reasons: dict[str, int]
    depths: list[Depth]


def fill(store: Store, most: int | None = None) -> None:
    """Tables stop and drafted; of a trace of more than `most` steps, from stretches of it."""
    steps = store.rows("SELECT count(*) AS steps FROM step")[0]["steps"]
    every = max(1, -(-steps // most)) if most else 1
    store.db.execute(f"SET VARIABLE stops_every = {every:d}")
    store.db.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def stops(store: Store) -> list[Stops]:
    """Of every run with trees, accepted rows and target choices."""
    fill(store)
    counted: dict[str, dict[str, int]] = {}
    for row in store.rows("SELECT run, why, count(*) AS steps FROM stop GROUP BY ALL ORDER BY ALL"):
        counted.setdefault(row["run"], {})[row["why"]] = row["steps"]
    depths: dict[str, list[Depth]] = {}
    for row in store.rows("FROM drafted WHERE depth > 0 ORDER BY run, depth, sibling"):
        depths.setdefault(row["run"], []).append(
            Depth(row["depth"], row["sibling"], row["nodes"], row["expected"], row["taken"])
        )
    return [
        Stops(
            run, sum(found.values()),
            {why: found[why] for why in REASONS if why in found}, depths.get(run, []),
        )
        for run, found in counted.items()
    ]  # fmt: skip
