"""Where accepted tokens come from: nodes offered and accepted, by depth and rank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from specdiag.report.text import count, share
from specdiag.store import Store

DEEPEST = 32  # this depth and what is below are one row
LAST = 8  # this rank and what is behind are one column
NODES = 40_000  # that are counted, of all runs together
LEVELS = 9  # shades, and 0 for none accepted

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Cell:
    """Nodes of one depth and rank."""

    offered: int
    accepted: int
    level: int  # shade, 0 to 9


@dataclass(frozen=True)
class Map:
    """The heat map of a run, as a table."""

    run: str
    ranked: bool  # else columns are places among siblings: the trace has no ranks
    columns: list[str]
    rows: list[tuple[str, list[Cell | None]]]  # depth, and a cell a column; None: nothing offered
    told: str  # what it says, in a sentence
    every: int  # one step of so many is counted


def maps(store: Store, most: int | None = None) -> tuple[list[Map], list[str]]:
    """A map for every run that has trees, in the order of their names, and runs beyond `most`."""
    runs = store.rows(
        """SELECT run, bool_or(coalesce(len(ranks) = len(parents), false)) AS ranked,
               sum(len(parents))::BIGINT AS nodes
           FROM step WHERE NOT coalesce(warmup, false) AND len(parents) > 1
           GROUP BY run ORDER BY run"""
    )
    if not runs:
        return [], []
    shown, rest = runs[:most], runs[len(runs[:most]) :]
    for row in shown:  # a large run must not crowd out a small one
        row["every"] = math.ceil(row["nodes"] * len(shown) / NODES)
    store.db.execute(
        """CREATE OR REPLACE TEMP TABLE heated AS
           SELECT unnest(?) AS run, unnest(?) AS ranked, unnest(?) AS every""",
        [[row[key] for row in shown] for key in ("run", "ranked", "every")],
    )
    limits = {"deepest": DEEPEST, "last": LAST}
    found = [one | {"ranked": True} for one in store.rows(_sql("heat"), limits)]
    found += store.rows(_sql("heat_thin"), limits)
    store.db.execute("DROP TABLE heated")
    found.sort(key=lambda row: (row["run"], row["depth"], row["rank"]))
    every = {row["run"]: row["every"] for row in shown}
    made = [
        _map(run, list(rows), every[run])
        for run, rows in groupby(found, key=lambda row: str(row["run"]))
    ]
    return made, [row["run"] for row in rest]


def _sql(name: str) -> str:
    return (HERE / f"{name}.sql").read_text(encoding="utf-8")


def _map(run: str, rows: list[dict[str, Any]], every: int) -> Map:
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    for row in rows:  # a run may have steps of both kinds
        offered, accepted = cells.get((row["depth"], row["rank"]), (0, 0))
        cells[row["depth"], row["rank"]] = offered + row["offered"], accepted + row["accepted"]
    most = max(accepted for _, accepted in cells.values())
    columns = range(max(rank for _, rank in cells) + 1)
    ranked = any(row["ranked"] for row in rows)
    return Map(
        run, ranked, [f"{rank}+" if rank == LAST else str(rank) for rank in columns],
        [
            (
                f"{depth}+" if depth == DEEPEST else str(depth),
                [_cell(cells.get((depth, rank)), most) for rank in columns],
            )
            for depth in range(1, max(depth for depth, _ in cells) + 1)
        ],
        _told(cells, ranked), every,
    )  # fmt: skip


def _cell(values: tuple[int, int] | None, most: int) -> Cell | None:
    if values is None:
        return None
    offered, accepted = values
    # By the root, so that the few that come from deep down or far back are seen beside the many.
    level = max(1, round(LEVELS * math.sqrt(accepted / most))) if accepted else 0
    return Cell(offered, accepted, level)


def _told(cells: dict[tuple[int, int], tuple[int, int]], ranked: bool) -> str:
    taken = sum(accepted for _, accepted in cells.values())
    offered = sum(offered for offered, _ in cells.values())
    if not taken:
        return f"None of {count(offered, 'drafted node')} was accepted."
    first = sum(accepted for (_, rank), (_, accepted) in cells.items() if rank == 0)
    kind = "first choices of the drafter" if ranked else "first children of their parent"
    return (
        f"{taken:,} of {count(offered, 'drafted node')} were accepted ({share(taken / offered)}); "
        f"{first:,} of these ({share(first / taken)}) were {kind}."
    )
