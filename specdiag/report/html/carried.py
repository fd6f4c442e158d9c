"""The diagnosis as a page carries it: the text of `--output json`, its results as columns.

Of many runs the results are nearly all of the text, and nearly all of that comes again and again.
`page.js` puts the text together, character by character the same:

    before, after  the text around the results
    rules, said    rules, and what is said of a run, each as JSON
    orders         lists of runs, each as JSON
    results        [[rule, order, said]]: of a rule what is said of each run of an order
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import Any

from specdiag.diagnosis import Diagnosis
from specdiag.report import json


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
