"""What `specdiag facts` prints: the facts of runs, or the metrics that there are."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from specdiag.errors import SpecdiagError
from specdiag.fact import Fact, Metric
from specdiag.report import json
from specdiag.report.columns import ruled, separated
from specdiag.report.text import count, figure, share, visible
from specdiag.rule import plain

FORMATS = ("table", "json", "csv")
WIDTH = 100
_RIGHT = ("value", "interval")


def render(facts: Sequence[Fact], format: str = "table") -> str:
    """Facts, a row each.

    Raises SpecdiagError for a format that does not exist.
    """
    if format == "table":
        rows = [
            {
                "run": visible(one.run, 60), "metric": one.metric,
                "value": valued(one.value, one.unit),
                "interval": ranged(one), "of": one.aggregate, "from": one.kind, "n": _number(one),
            }
            for one in facts
        ]  # fmt: skip
        return _aligned(rows)
    return _data([record(one) for one in facts], format)


def catalogue(metrics: Iterable[Metric], format: str = "table") -> str:
    """Every metric with its unit and definition.

    Raises SpecdiagError for a format that does not exist.
    """
    if format != "table":
        return _data([_defined(one) for one in metrics], format)
    parts = []
    for one in metrics:
        parts.append(
            f"{one.name}  [{one.unit}, {one.better} is better]  {one.title}\n"
            + textwrap.fill(one.tells, WIDTH, initial_indent="  ", subsequent_indent="  ")
            + f"\n  aggregates: {', '.join(one.aggregates)}; from: {', '.join(one.kinds)}"
        )
    return "\n\n".join(parts)


def record(fact: Fact) -> dict[str, Any]:
    """A fact as programs read it: `low` and `high` are the ends of its 95 % interval."""
    low, high = fact.interval or (None, None)
    made = {
        "run": fact.run, "metric": fact.metric, "aggregate": fact.aggregate, "value": fact.value,
        "unit": fact.unit, "low": low, "high": high, "from": fact.kind, "units": fact.units,
        "unit_is": fact.by, "samples": fact.rows, "steps": fact.steps,
    }  # fmt: skip
    return {key: plain(value) for key, value in made.items()}


def valued(value: float, unit: str) -> str:
    """A value with its unit."""
    return share(value) if unit == "share" else f"{figure(float(value))} {unit}"


def ranged(fact: Fact) -> str:
    """The ends of the interval, in the unit of the value."""
    if fact.interval is None:
        return "exact" if fact.exact else ""
    low, high = fact.interval
    if fact.unit == "share":
        return f"{share(low)} to {share(high)}"
    return f"{figure(float(low))} to {figure(float(high))}"


def _number(fact: Fact) -> str:
    things = {"request": ("request", ""), "stretch": ("stretch", "stretches"), "row": ("row", "")}
    return count(fact.units, *things[fact.by])


def _defined(metric: Metric) -> dict[str, Any]:
    return {
        "metric": metric.name, "title": metric.title, "definition": metric.tells,
        "unit": metric.unit, "better": metric.better, "aggregate": metric.aggregate,
        "aggregates": list(metric.aggregates), "from": list(metric.kinds),
    }  # fmt: skip


def _data(rows: list[dict[str, Any]], format: str) -> str:
    if format == "json":
        return json.dumps(rows).rstrip("\n")
    if format != "csv":
        raise SpecdiagError(f"{format!r} is no format", "--format", f"one of {', '.join(FORMATS)}")
    cells = [[_cell(value) for value in row.values()] for row in rows]
    return separated([list(rows[0] if rows else []), *cells])


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(value)
    return visible(value, 1000) if isinstance(value, str) else value


def _aligned(rows: list[dict[str, str]]) -> str:
    names = list(rows[0])
    right = [at for at, name in enumerate(names) if name in _RIGHT]
    return ruled(names, [list(row.values()) for row in rows], right)
