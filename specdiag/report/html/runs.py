"""The table of runs: a row each, and how far their figures can be compared at a glance."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from specdiag.diagnosis import Diagnosis
from specdiag.finding import Run
from specdiag.report import table, text

SHOWN = 10  # runs that are shown before the rest is folded


def _decided(diagnosis: Diagnosis) -> dict[str, tuple[int, int]]:
    """Of every run how many rules decided, and how many could not."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in diagnosis.results:
        counts[one.run][one.result] += 1
    return {
        run.name: (counts[run.name]["pass"] + counts[run.name]["finding"],
                   counts[run.name]["undecided"])
        for run in diagnosis.runs
    }  # fmt: skip


def rows(diagnosis: Diagnosis) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the table of runs; of a long one the worst, and the rest to be folded."""
    cells_of = table.runs_table(diagnosis)[1]
    # Of its findings a cause before what follows from it.
    told = [*diagnosis.causes, *diagnosis.findings]
    worst = {finding.run: finding.id for finding in reversed(told)}
    bars = _bars(diagnosis)
    counts = _decided(diagnosis)
    places = anchors("run", [run.name for run in diagnosis.runs])
    made: list[dict[str, Any]] = []
    for run, (name, algorithm, accepted, *cells, said) in zip(
        diagnosis.runs, cells_of, strict=True
    ):
        length, _, origin = accepted.removesuffix(")").partition(" (")
        word = said.partition(", ")[0]
        passes, undecided = counts[run.name]
        made.append({
            "name": name, "id": places[run.name], "algorithm": algorithm,
            "model": run.facts.get("model"), "version": run.facts.get("version"),
            "decided": f"{passes:,} of {passes + undecided:,}" if passes + undecided else "–",
            "accepted": length, "origin": origin, "cells": cells, "bars": bars.get(run.name, {}),
            "said": word, "finding": worst.get(run.name),
        })  # fmt: skip
    if len(made) <= SHOWN:
        return made, []
    made.sort(key=lambda row: table.urgency(row["said"]))
    return made[:SHOWN], made[SHOWN:]


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
