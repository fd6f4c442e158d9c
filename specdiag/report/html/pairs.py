"""Runs side by side: whether they can be compared, and in which settings they differ."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from specdiag.diagnosis import Diagnosis
from specdiag.report.text import count
from specdiag.store import Store

MOST = 12  # pairs
SETTINGS = 60  # of a pair
KINDS = ("version", "model", "draft", "quantisation", "layout", "sampling", "kernel", "capacity")


def pairs(diagnosis: Diagnosis, store: Store) -> list[dict[str, Any]]:
    """Pairs of runs that findings speak of, or that the user named; then the others."""
    spoken = [(one.run, one.against) for one in diagnosis.findings if one.against]
    beside = store.rows("SELECT run, against, declared FROM pairing ORDER BY run, against")
    declared = [(row["run"], row["against"]) for row in beside if row["declared"]]
    rest = [(row["run"], row["against"]) for row in beside]
    chosen: list[tuple[str, str]] = []
    for run, against in [*spoken, *declared, *rest]:
        if against and (run, against) not in chosen and (against, run) not in chosen:
            chosen.append((run, against))
    differences = _by_pair(store, "difference", "kind, key")
    hindrances = _by_pair(store, "hindrance", "what")
    made = []
    for pair in chosen[:MOST]:
        rows = sorted(differences[pair], key=lambda row: _place(row["kind"]))
        apart = [row["what"] for row in hindrances[pair]]
        said = count(len(rows), "setting differs", "settings differ")
        if apart:
            said += f"; not comparable: other {', '.join(dict.fromkeys(apart))}"
        elif pair not in rest:
            said = "settings are not known to be comparable"
        made.append({"run": pair[0], "against": pair[1], "rows": rows[:SETTINGS], "said": said})
    return made


def _by_pair(
    store: Store, table: str, order: str
) -> defaultdict[tuple[str, str], list[dict[str, Any]]]:
    found: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows(f"SELECT * FROM {table} ORDER BY run, against, {order}"):
        found[row["run"], row["against"]].append(row)
    return found


def _place(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)
