"""Assertions: numbers that the user holds runs to, each judged with the interval of the fact.

    [[assert]]
    metric = "accept_len"     # see `specdiag facts`
    run = "ddtree-*"          # * is anything; without it every run that has the metric
    at_least = 3.4            # or at_most, above, below, or equals with a tolerance
    aggregate = "pooled"      # instead of the metric's usual one
    min_steps = 500           # undecided where fewer stand behind the value
    interval = false          # judge the value as it stands
    required = true           # `check` fails where it stays undecided

A value whose interval straddles the bound is undecided: neither red nor green.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from specdiag import fact
from specdiag.errors import SpecdiagError, nearest
from specdiag.estimate import FEWEST
from specdiag.fact import Fact
from specdiag.store import Store

BOUNDS = {"at_least": "at least", "at_most": "at most", "above": "above", "below": "below"}
FOREVER = 1e12  # more steps than anybody will wait for
_LOWER, _STRICT = ("at_least", "above"), ("above", "below")
_NUMBERS = (*BOUNDS, "equals", "tolerance")
_TYPES: dict[str, type] = {
    "metric": str, "run": str, "aggregate": str, **dict.fromkeys(_NUMBERS, float),
    "min_steps": int, "interval": bool, "required": bool,
}  # fmt: skip


@dataclass(frozen=True)
class Assertion:
    """One [[assert]]. `bounds` are of BOUNDS, equals and its tolerance among them as two."""

    metric: str
    aggregate: str
    bounds: Mapping[str, float]
    told: str  # the bounds in words
    run: str | None = None  # a pattern
    min_steps: int | None = None
    interval: bool = True
    required: bool = False
    where: str = ""  # it was written


@dataclass(frozen=True)
class Verdict:
    """How a run stands to an assertion, or to what a preset requires."""

    name: str  # what is held: accept_len at least 3.4
    run: str | None
    result: str  # ok, failed, undecided, or unmatched: there is nothing to judge
    message: str
    required: bool = False
    metric: str | None = None
    aggregate: str | None = None
    value: float | None = None
    unit: str | None = None
    interval: tuple[float, float] | None = None
    more: int | None = None  # how many more steps (or requests, rows) would decide it, about
    where: str = field(default="", compare=False)


def parse(written: Sequence[Any], where: str) -> list[Assertion]:
    """The assertions of a configuration file.

    Raises SpecdiagError for a key, a type, a metric or a combination that does not exist.
    """
    return [
        _parse(one, f"{where}, [[assert]] number {number}")
        for number, one in enumerate(written, start=1)
    ]


def _parse(written: Any, where: str) -> Assertion:
    if not isinstance(written, dict):
        raise SpecdiagError("an assertion is a table", where, "write [[assert]] and keys below it")
    for key, value in written.items():
        if key not in _TYPES:
            raise SpecdiagError(f"unknown key {key!r}", where, nearest(key, _TYPES, most=1))
        _typed(key, value, where)
    if "metric" not in written:
        raise SpecdiagError("the assertion names no metric", where, "see `specdiag facts`")
    known = fact.metrics()
    if written["metric"] not in known:
        raise SpecdiagError(
            f"no metric is called {written['metric']}",
            where,
            nearest(written["metric"], known, most=1),
        )
    metric = known[written["metric"]]
    aggregate = written.get("aggregate", metric.aggregate)
    if aggregate not in metric.aggregates:
        raise SpecdiagError(
            f"{metric.name} has no aggregate {aggregate!r}", where,
            f"it has: {', '.join(metric.aggregates)}",
        )  # fmt: skip
    judged = written.get("interval", True) and aggregate not in fact.EXACT
    bounds, told = _bounds(written, judged, where)
    return Assertion(
        metric.name, aggregate, bounds, told, written.get("run"), written.get("min_steps"),
        written.get("interval", True), written.get("required", False), where,
    )  # fmt: skip


def _typed(key: str, value: Any, where: str) -> None:
    wanted = _TYPES[key]
    if wanted is float:
        fits = type(value) in (int, float) and math.isfinite(value)
        fits = fits and (key != "tolerance" or value >= 0)
        said = "a number" if key != "tolerance" else "a number, 0 or more"
    elif wanted is int:
        fits, said = type(value) is int and value > 0, "a whole number above 0"
    else:
        fits = type(value) is wanted and value != ""
        said = "true or false" if wanted is bool else "a text"
    if not fits:
        raise SpecdiagError(f"key {key!r} must be {said}, not {value!r}", where)


def _bounds(written: dict[str, Any], judged: bool, where: str) -> tuple[dict[str, float], str]:
    bounds = {key: float(written[key]) for key in BOUNDS if key in written}
    if "equals" not in written:
        if "tolerance" in written:
            raise SpecdiagError("a tolerance belongs to equals", where)
        if not bounds:
            raise SpecdiagError(
                "the assertion has no bound", where, f"one of {', '.join((*BOUNDS, 'equals'))}"
            )
        lower = max((bounds[key] for key in _LOWER if key in bounds), default=-math.inf)
        upper = min((bounds[key] for key in BOUNDS if key in bounds and key not in _LOWER),
                    default=math.inf)  # fmt: skip
        if lower > upper or (lower == upper and set(bounds) & set(_STRICT)):
            raise SpecdiagError("no value can be within these bounds", where)
        return bounds, " and ".join(f"{BOUNDS[key]} {bound:g}" for key, bound in bounds.items())
    if bounds:
        raise SpecdiagError(f"equals stands alone, without {', '.join(bounds)}", where)
    if judged and not written.get("tolerance"):
        raise SpecdiagError(
            "equals needs a tolerance: no interval is a single value", where, "tolerance = 0.05"
        )
    centre, around = float(written["equals"]), float(written.get("tolerance", 0))
    told = f"equal to {centre:g}" + (f" within {around:g}" if around else "")
    return {"at_least": centre - around, "at_most": centre + around}, told


def judge(assertions: Sequence[Assertion], store: Store) -> list[Verdict]:
    """How every run that an assertion is about stands to it, in the order of the assertions."""
    runs = [row["run"] for row in store.rows("SELECT run FROM run ORDER BY run")]
    measured: dict[tuple[str, str], dict[str, Fact]] = {}
    found = []
    for one in assertions:
        key = one.metric, one.aggregate
        if key not in measured:
            facts = fact.measure(store, fact.metrics()[one.metric], one.aggregate)
            measured[key] = {each.run: each for each in facts}
        found += _of_runs(one, measured[key], runs)
    return found


def _of_runs(one: Assertion, facts: Mapping[str, Fact], runs: Sequence[str]) -> list[Verdict]:
    name = f"{one.metric} {one.told}"
    wanted = [run for run in runs if one.run is None or fnmatchcase(run, one.run)]
    having = [run for run in wanted if run in facts]
    if not having:
        of = "of the runs" if one.run is None else f"of the {len(wanted)} runs that {one.run} names"
        what = f"none {of} has {one.metric}" + _as(one)
        if not wanted:
            what = f"no run is called {one.run}; there are: {', '.join(runs[:10])}"
        return [Verdict(name, None, "unmatched", what, one.required, one.metric, where=one.where)]
    found = []
    for run in wanted if one.run is not None else having:
        if run in facts:
            found.append(_against(name, one, facts[run]))
        else:
            what = f"the run has no {one.metric}" + _as(one)
            found.append(
                Verdict(name, run, "undecided", what, one.required, one.metric, where=one.where)
            )
    return found


def _as(one: Assertion) -> str:
    usual = fact.metrics()[one.metric].aggregate
    return "" if one.aggregate == usual else f" as {one.aggregate}"


def _against(name: str, one: Assertion, found: Fact) -> Verdict:
    exact = found.exact or not one.interval
    interval = None if exact else found.interval
    why, more = _too_few(one, found)
    result = "undecided"
    if not why:
        if interval is None and not exact:
            why = _no_interval(found)
        else:
            result, wanting = _placed(one, found, interval or (found.value, found.value))
            if result == "undecided":
                more = _whole(wanting)
                why = "the interval holds the bound; " + (
                    f"about {more:,} more {_thing(found)} would decide it"
                    if more
                    else "the value lies so near to it that no number of steps would decide it"
                )
    message = f"{one.metric} is {_said(found, interval)}, wanted {one.told}"
    return Verdict(
        name, found.run, result, f"{message}: {why}" if why else message, one.required,
        one.metric, one.aggregate, found.value, found.unit, interval, more, one.where,
    )  # fmt: skip


def _too_few(one: Assertion, found: Fact) -> tuple[str, int | None]:
    if one.min_steps is None:
        return "", None
    if found.steps is None:
        return f"the source does not say of how many steps, {one.min_steps:,} are asked for", None
    if found.steps >= one.min_steps:
        return "", None
    more = math.ceil(one.min_steps - found.steps)
    return f"{found.steps:,.0f} of {one.min_steps:,} steps, {more:,} more are asked for", more


def _no_interval(found: Fact) -> str:
    if found.by == "row":
        return "the source gives the figure alone; interval = false judges it as it stands"
    thing = "requests" if found.by == "request" else "stretches of rows"
    if found.units < FEWEST:
        return f"{found.units} {thing} are too few for an interval, {FEWEST} are the least"
    return f"{found.units} {thing} are too few for an interval of {found.aggregate}"


def _placed(one: Assertion, found: Fact, interval: tuple[float, float]) -> tuple[str, float]:
    """The result, and how many more samples would decide it.

    The error falls with the root of their number, so it must become as small as the distance of
    the value from the bound.
    """
    low, high = interval
    result, wanting = "ok", 0.0
    number = _number(found)
    for key, bound in one.bounds.items():
        # Seen from below: a lower bound is met where the worse end is on its good side.
        worse, better = (low, high) if key in _LOWER else (-high, -low)
        edge = bound if key in _LOWER else -bound
        strict = key in _STRICT
        if worse > edge or (worse == edge and not strict):
            continue
        if better < edge or (better == edge and strict):
            return "failed", 0.0
        result = "undecided"
        distance = abs(found.value - bound)
        reach = found.value - low if found.value > bound else high - found.value
        wanting = math.inf if not distance else max(wanting, (reach / distance) ** 2 - 1)
    return result, number * wanting


def _number(found: Fact) -> float:
    if found.steps:
        return found.steps
    return found.units if found.by == "request" else found.rows


def _thing(found: Fact) -> str:
    return "steps" if found.steps else "requests" if found.by == "request" else "rows"


def _whole(wanting: float) -> int | None:
    """Two digits are all that it is known to; None where it would take for ever."""
    if wanting >= FOREVER:
        return None
    wanting = max(wanting, 1.0)
    step = 10 ** max(math.floor(math.log10(wanting)) - 1, 0)
    return int(math.ceil(wanting / step) * step)


def _said(found: Fact, interval: tuple[float, float] | None) -> str:
    said = _figure(found.value)
    if found.unit not in ("share", found.metric):
        said += f" {found.unit}"
    if interval is not None:
        said += f" ({_figure(interval[0])} to {_figure(interval[1])})"
    return said


def _figure(value: float) -> str:
    return f"{float(f'{value:.4g}'):,.10g}"
