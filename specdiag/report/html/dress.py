"""Which colour, dash and name every series of a figure has: the same in both kinds of picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from specdiag.figure import Figure, Series

SLOTS = 8  # colours that are told apart
NEUTRAL = SLOTS  # of what belongs to no run, such as a law
DASHES = 4


@dataclass(frozen=True)
class Dressed:
    """A series as it is drawn."""

    series: Series
    name: str  # in the legend
    slot: int  # of the palette
    dash: int  # of a line
    hidden: bool  # at first: there are more runs than colours
    breaks: frozenset[int] = frozenset()  # rows that a line does not lead to: idle time is between


def dress(figure: Figure, runs: Sequence[str]) -> list[Dressed]:
    """Every series; `runs` are those of the page in order, so that a run keeps its colour."""
    here = list(dict.fromkeys(one.run for one in figure.series if one.run is not None))
    names = list(dict.fromkeys(one.name for one in figure.series))
    lines = list(dict.fromkeys(one.name for one in figure.series if one.draw == "line"))
    # One run: colours tell what is drawn. Several: whose it is, and what by the dash.
    by_run = len(here) > 1 and not figure.stack
    slots = {run: place % SLOTS for place, run in enumerate(runs)}
    if len({slots.get(run, 0) for run in here}) < min(len(here), SLOTS):
        slots = {run: place % SLOTS for place, run in enumerate(here)}
    shades = [
        (start, end) for one in figure.series if one.draw == "shade"
        for start, end in zip(one.x, one.high, strict=True) if end is not None
    ]  # fmt: skip
    found = []
    for one in figure.series:
        name = one.name or one.run or ""
        if by_run and one.run and one.name:
            name = f"{one.run}: {one.name}"
        found.append(
            Dressed(
                one, name,
                _slot(one, slots, names, by_run),
                lines.index(one.name) % DASHES if one.draw == "line" else 0,
                by_run and one.run in here[SLOTS:], _breaks(one, shades),
            )
        )  # fmt: skip
    return found


def _slot(one: Series, slots: dict[str, int], names: list[str], by_run: bool) -> int:
    if one.run is None and one.draw in ("point", "line"):
        return NEUTRAL
    return slots.get(one.run or "", 0) if by_run else names.index(one.name) % SLOTS


def _breaks(one: Series, shades: Sequence[tuple[float, float]]) -> frozenset[int]:
    """Where a line would cross a shade from end to end, as if something had been measured there."""
    if one.draw != "line" or not shades:
        return frozenset()
    starts = sorted(shades)
    found = set()
    at = 0
    for row, (x, following) in enumerate(pairwise(one.x), 1):
        while at < len(starts) and starts[at][0] < x:
            at += 1
        if at < len(starts) and starts[at][1] <= following:
            found.add(row)
    return frozenset(found)
