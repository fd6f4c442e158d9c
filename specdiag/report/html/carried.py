"""The diagnosis as a page carries it: the text of `--output json`, its results as columns.

Of many runs the results are nearly all of the text, and nearly all of that comes again and again.
`page.js` puts the text together, character by character the same:

    before, after  the text around the results
    rules, said    rules, and what is said of a run, each as JSON
    orders         lists of runs, each as JSON
    results        [[rule, order, said]]: of a rule what is said of each run of an order
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any

from specdiag.diagnosis import Diagnosis
from specdiag.report import json, table
from specdiag.report.html import packing

MOST = 400_000  # characters, packed


@dataclass(frozen=True)
class Carried:
    """The diagnosis as it stands in the page, and of how many runs it is, where not of all."""

    packed: str
    runs: int | None = None


def pack(diagnosis: Diagnosis) -> Carried:
    """The diagnosis; of too many runs that of the worst."""
    packed = packing.pack_json(columns(diagnosis))
    if len(packed) <= MOST or len(diagnosis.runs) < 2:
        return Carried(packed)
    kept = table.foremost(diagnosis, max(1, len(diagnosis.runs) * MOST * 9 // 10 // len(packed)))
    names = {run.name for run in kept}
    part = replace(
        diagnosis, runs=[run for run in diagnosis.runs if run.name in names],
        findings=[one for one in diagnosis.findings if one.run in names],
        results=[one for one in diagnosis.results if one.run in names],
    )  # fmt: skip
    return Carried(packing.pack_json(columns(part)), len(kept))


def columns(diagnosis: Diagnosis) -> dict[str, Any]:
    """What travels."""
    literal = cache(json.literal)
    before, after = json.frame(diagnosis)
    rules: dict[str, int] = {}
    orders: dict[tuple[str, ...], int] = {}
    said: dict[tuple[str, str | None], int] = {}
    results = []
    for rule, rows in groupby(diagnosis.results, key=lambda one: one.rule):
        some = list(rows)
        order = tuple(one.run for one in some)
        results.append([
            _place(rules, rule), _place(orders, order),
            [_place(said, (one.result, one.reason)) for one in some],
        ])  # fmt: skip
    return {
        "before": before, "after": after, "rules": [literal(one) for one in rules],
        "orders": [[literal(run) for run in order] for order in orders],
        "said": [f'"result": {literal(one)}, "reason": {literal(reason)}' for one, reason in said],
        "results": results,
    }  # fmt: skip


def _place(known: dict[Any, int], one: Any) -> int:
    return known.setdefault(one, len(known))
