"""The same facts over many saved results: where they changed for good."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specdiag import fact, saved, student
from specdiag.compare import change
from specdiag.errors import NOTHING_READ, Notice, SpecdiagError
from specdiag.report.json import jsonable
from specdiag.store import Store

CORE = {"tokens_per_s": True, "accept_len": True, "step_ms": False}  # and whether more is better
# Load is no result, and accepted drafts are the accept length less one.
LEFT_OUT = ("running", "accepted_drafts")
SHORTEST = 3  # results on each side of a change
ALPHA = 0.02  # for all the places together where the facts of a line may turn
PENALTY = 3.0  # noise variances that a change must explain, times the logarithm of their number
STARS = (".duckdb", ".json")


@dataclass(frozen=True)
class Point:
    """A run in a saved result."""

    file: str
    run: str
    started: str | None
    facts: dict[str, float]


@dataclass(frozen=True)
class Turn:
    """A change for good: from this point on the fact has another level."""

    place: int
    before: float  # mean of the stretch before it
    after: float
    p: float
    better: bool


@dataclass
class Line:
    """A series of points, and where its facts turn."""

    name: str
    points: list[Point]
    turns: dict[str, list[Turn]] = field(default_factory=dict)


def facts() -> dict[str, bool]:
    """Every fact that is looked at, those of table run first, and whether more of it is better."""
    more = {
        one.name: one.better == "higher" for one in fact.metrics().values()
        if one.aggregate not in fact.EXACT and one.name not in LEFT_OUT
    }  # fmt: skip
    return CORE | {name: rises for name, rises in more.items() if name not in CORE}


def detector() -> Any:
    """The library that finds change points.

    Raises SpecdiagError where it is not installed.
    """
    try:
        import ruptures
    except ImportError:
        raise SpecdiagError(
            "ruptures is not installed, which finds change points", "specdiag trend",
            "pip install 'specdiag-llm[trend]'",
        ) from None  # fmt: skip
    return ruptures


def read(folder: Path) -> tuple[list[Point], list[Notice]]:
    """The runs of every saved result in a folder.

    Raises SpecdiagError where there is no folder, or no saved result in it.
    """
    if not folder.is_dir():
        raise SpecdiagError(
            "no such folder", str(folder),
            "name one with results of `--output duckdb=FILE` or `--output json=FILE`",
        )  # fmt: skip
    points: list[Point] = []
    notices: list[Notice] = []
    files = [one for one in folder.iterdir() if one.suffix in STARS and one.is_file()]
    for path in sorted(files, key=_natural):
        try:
            found = saved.load(path)
        except SpecdiagError as error:
            notices.append(Notice(error.what, error.where, error.help))
            continue
        more = {} if found.store is None else _measured(found.store)
        for run in found.diagnosis.runs:
            mine = {name: run.facts[name] for name in CORE if _is_number(run.facts.get(name))}
            mine |= more.get(run.name, {})
            started = run.facts.get("started")
            when = None if started is None else str(jsonable(started)).replace(" ", "T")
            if mine:
                points.append(Point(path.name, run.name, when, mine))
        if found.store is not None:
            found.store.db.close()
    if not points:
        first = notices[0] if notices else None
        raise SpecdiagError(
            first.what if first else "there is no saved result with figures",
            first.where if first else str(folder),
            "write some with `specdiag analyze … --output duckdb=FILE`, or json=FILE",
            NOTHING_READ,
        )  # fmt: skip
    return points, notices


def _measured(store: Store) -> dict[str, dict[str, float]]:
    """By run what only the tables of a saved result can tell."""
    wanted = facts()
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for one in fact.facts(store):
        if one.metric in wanted and one.metric not in CORE:
            found[one.run][one.metric] = one.value
    return found


def lines(points: Sequence[Point]) -> list[Line]:
    """Runs of one name in a line; where every result has one run, all of them in one.

    In order of their start, where all say it, else of the names of their files.
    """
    per_file = defaultdict(list)
    for one in points:
        per_file[one.file].append(one)
    names = {one.run for one in points}
    alone = all(len(each) == 1 for each in per_file.values())
    by_name: dict[str, list[Point]] = defaultdict(list)
    for one in points:
        by_name["all runs" if alone and len(names) == len(points) > 1 else one.run].append(one)
    found = []
    for title, members in sorted(by_name.items()):
        if all(one.started for one in members):
            members.sort(key=lambda one: one.started or "")
        line = Line(title, members)
        there = [name for name in facts() if any(name in one.facts for one in members)]
        for name in there:
            values = [one.facts.get(name) for one in members]
            line.turns[name] = turns(values, facts()[name], len(there))
        found.append(line)
    return found


def turns(values: Sequence[float | None], rises: bool, family: int = 1) -> list[Turn]:
    """Where a series gets another level; `family` is how many facts of a line are looked at.

    PELT finds the places on the logarithms (Killick 2012); Welch's test of the stretches on both
    sides keeps those that chance hardly makes.
    """
    known = [(place, one) for place, one in enumerate(values) if one is not None and one > 0]
    if len(known) < 2 * SHORTEST:
        detector()  # to say the same whether there is enough to look at or not
        return []
    logs = [math.log(one) for _, one in known]
    scale = _noise(logs)
    if scale <= 0:
        return _steps(known, rises, family)
    signal = [[one / scale] for one in logs]
    edges = _edges(signal, PENALTY * math.log(len(signal)))
    return _sure(known, [0, *edges], rises, scale, family)


def _edges(signal: list[list[float]], penalty: float) -> list[int]:
    import numpy

    search = detector().Pelt(model="l2", min_size=SHORTEST, jump=1)
    return [int(one) for one in search.fit(numpy.array(signal)).predict(pen=penalty)]


def _noise(values: Sequence[float]) -> float:
    """Standard deviation from one value to the next, whatever the level does."""
    steps = sorted(abs(b - a) for a, b in itertools.pairwise(values))
    return statistics.median(steps) / 0.6745 / math.sqrt(2)


def _steps(known: Sequence[tuple[int, float]], rises: bool, family: int) -> list[Turn]:
    """Turns of a series that is mostly constant: there is no noise to compare with."""
    jumps = [
        n for n in range(1, len(known))
        if not math.isclose(known[n][1], known[n - 1][1], rel_tol=1e-6)
    ]  # fmt: skip
    return _sure(known, [0, *jumps, len(known)], rises, 0.0, family)


def _sure(
    known: Sequence[tuple[int, float]], edges: list[int], rises: bool, scale: float, family: int
) -> list[Turn]:
    """The edges between stretches that differ by more than chance makes."""
    found = []
    kept = [0]
    for edge, end in itertools.pairwise(edges[1:]):
        before = [(1.0, one) for _, one in known[kept[-1] : edge]]
        after = [(1.0, one) for _, one in known[edge:end]]
        said = _compared(before, after)
        places = max(len(known) - 2 * SHORTEST + 1, 1)
        if said is None or said.p is None:
            continue
        # Stretches that were chosen for being apart are more alike inside than chance has it.
        error = scale * math.sqrt(1 / len(before) + 1 / len(after))
        p = max(said.p, student.tail(said.value / error, len(known) - 2) if error else 0.0)
        if p * places * family >= ALPHA:
            continue
        kept.append(edge)
        found.append(
            Turn(
                known[edge][0], statistics.fmean(one for _, one in before),
                statistics.fmean(one for _, one in after), p, (said.value > 0) == rises,
            )
        )  # fmt: skip
    return found


def _compared(before: list[change.Unit], after: list[change.Unit]) -> change.Change | None:
    if min(len(before), len(after)) < 2:
        return None
    return change.independent(before, after, fewest=2, resampled=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Names in the order of the numbers in them: run-9 before run-10."""
    parts = re.split(r"([0-9]+)", path.name)
    return [(int(one), "") if one.isdecimal() else (-1, one) for one in parts]
