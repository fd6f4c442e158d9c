"""Runs side by side: whether they can be compared, and in which settings they differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
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
    # Of very many runs there are very many pairs; each may be told twice, once a direction.
    beside = store.rows(
        "SELECT run, against FROM pairing ORDER BY declared DESC, run, against LIMIT $most",
        {"most": 2 * (MOST + len(spoken))},
    )
    chosen: dict[frozenset[str], tuple[str, str]] = {}
    for run, against in [*spoken, *((row["run"], row["against"]) for row in beside)]:
        if against and len(chosen) < MOST:
            chosen.setdefault(frozenset((run, against)), (run, against))
    shown = list(chosen.values())
    known = _by_pair(store, "pairing", shown, "declared")
    differences = _by_pair(store, "difference", shown, "kind, key")
    hindrances = _by_pair(store, "hindrance", shown, "what")
    made = []
    for pair in shown:
        rows = sorted(differences[pair], key=lambda row: _place(row["kind"]))
        apart = [row["what"] for row in hindrances[pair]]
        said = count(len(rows), "setting differs", "settings differ")
        if apart:
            said += f"; not comparable: other {', '.join(dict.fromkeys(apart))}"
        elif not known[pair]:
            said = "settings are not known to be comparable"
        made.append({"run": pair[0], "against": pair[1], "rows": rows[:SETTINGS], "said": said})
    return made


def _by_pair(
    store: Store, table: str, wanted: Sequence[tuple[str, str]], order: str
) -> defaultdict[tuple[str, str], list[dict[str, Any]]]:
    found: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows(
        f"""SELECT * FROM {table}
        WHERE (run, against) IN (SELECT (unnest($runs), unnest($others)))
        ORDER BY run, against, {order}""",
        {"runs": [run for run, _ in wanted], "others": [other for _, other in wanted]},
    ):
        found[row["run"], row["against"]].append(row)
    return found


def _place(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)
