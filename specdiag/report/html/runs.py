"""The table of runs: a row each, and how far their figures can be compared at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdiag.diagnosis import Diagnosis
from specdiag.finding import Run
from specdiag.report import table, text

SHOWN = 10  # runs that are shown before the rest is folded
ROWS = 100  # runs that have a row
NAMED = 1500  # runs without one that are named


@dataclass(frozen=True)
class Alike:
    """Runs without a row of which the rules say the same."""

    said: str
    names: list[str]
    room: int  # how many of the names are shown


def split(diagnosis: Diagnosis) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Alike]]:
    """Rows of the table of runs; of a long one the worst, more to be folded, and names."""
    said = table.run_verdicts(diagnosis)
    ordered = diagnosis.runs
    if len(ordered) > SHOWN:
        ordered = sorted(ordered, key=lambda run: table.urgency(said[run.name]))
    made = _rows(diagnosis, ordered[:ROWS], said)
    return made[:SHOWN], made[SHOWN:], _alike([run.name for run in ordered[ROWS:]], said)


def _alike(names: Sequence[str], said: Mapping[str, str]) -> list[Alike]:
    room = NAMED
    found = []
    for word in dict.fromkeys(_word(said[name]) for name in names):
        mine = [name for name in names if _word(said[name]) == word]
        found.append(Alike(word, mine, min(room, len(mine))))
        room -= found[-1].room
    return found


def _word(said: str) -> str:
    return said.partition(", ")[0]


def _rows(diagnosis: Diagnosis, shown: list[Run], said: Mapping[str, str]) -> list[dict[str, Any]]:
    cells_of = table.runs_table(diagnosis, shown, said)[1]
    # Of its findings a cause before what follows from it.
    told = [*diagnosis.causes, *diagnosis.findings]
    worst = {finding.run: finding.id for finding in reversed(told)}
    bars = _bars(diagnosis)
    counts = Counter((one.run, one.result) for one in diagnosis.results)
    places = anchors("run", [run.name for run in shown])
    made: list[dict[str, Any]] = []
    for run, (name, algorithm, accepted, *cells, verdict) in zip(shown, cells_of, strict=True):
        length, _, origin = accepted.removesuffix(")").partition(" (")
        passes = counts[run.name, "pass"] + counts[run.name, "finding"]
        undecided = counts[run.name, "undecided"]
        made.append({
            "name": name, "id": places[run.name], "algorithm": algorithm,
            "model": run.facts.get("model"), "version": run.facts.get("version"),
            "decided": f"{passes:,} of {passes + undecided:,}" if passes + undecided else "–",
            "accepted": length, "origin": origin, "cells": cells, "bars": bars.get(run.name, {}),
            "said": _word(verdict), "finding": worst.get(run.name),
        })  # fmt: skip
    return made


def _bars(diagnosis: Diagnosis) -> dict[str, dict[str, int]]:
    """Percent of the longest bar, where all runs may be compared: several, of one model."""
    if len(diagnosis.runs) < 2 or len({run.facts.get("model") for run in diagnosis.runs}) > 1:
        return {}
    values = {
        run.name: (max(0.0, _number(run, "accept_len") - 1), _number(run, "tokens_per_s"))
        for run in diagnosis.runs
    }
    most = [max(column) for column in zip(*values.values(), strict=True)]
    return {
        name: {"accepted": _share(accepted, most[0]), "speed": _share(speed, most[1])}
        for name, (accepted, speed) in values.items()
    }


def _number(run: Run, key: str) -> float:
    value = run.facts.get(key)
    return float(value) if isinstance(value, (int, float)) and value == value else 0.0


def _share(part: float, whole: float) -> int:
    return round(100 * part / whole) if 0 < part <= whole < float("inf") else 0


def anchors(kind: str, names: list[str]) -> dict[str, str]:
    """HTML ids: names that differ in odd characters only get numbers."""
    taken: set[str] = set()
    found = {}
    for name in names:
        base = anchor = text.anchor(name, kind)
        number = 2
        while anchor in taken:
            anchor, number = f"{base}-{number}", number + 1
        taken.add(anchor)
        found[name] = anchor
    return found
