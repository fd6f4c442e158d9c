"""Means with their intervals, and a cost between the widths at which it was measured.

Requests are the unit: steps of one request resemble each other, so an interval comes from how
requests differ. A mean over steps is a ratio of two sums over requests, and its variance that of
the linearised ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FEWEST = 5  # requests below which an interval would say too much
NORMAL = 1.959964  # quantile of the 95 % interval


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error, NULL where too few requests stand behind it."""

    value: float
    error: float | None = None
    units: int = 0  # requests that it was taken from

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval."""
        if self.error is None:
            return None
        reach = quantile(self.units - 1) * self.error
        return self.value - reach, self.value + reach

    def plus(self, amount: float) -> Estimate:
        """The estimate of a quantity that is larger by a constant."""
        return Estimate(self.value + amount, self.error, self.units)


def quantile(freedom: int) -> float:
    """Student's t for a 95 % interval, by its expansion around the normal quantile."""
    z = NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def ratio(sums: Mapping[str, Any]) -> Estimate | None:
    """Sum of y over sum of x. `sums` over requests: x, y, xx, xy, yy, and `units`, their number."""
    x, y, units = float(sums["x"] or 0), float(sums["y"] or 0), int(sums["units"])
    if x <= 0:
        return None
    value = y / x
    if units < FEWEST:
        return Estimate(value, None, units)
    spread = float(sums["yy"]) - 2 * value * float(sums["xy"]) + value**2 * float(sums["xx"])
    error = math.sqrt(max(spread, 0.0) * units / (units - 1)) / x
    return Estimate(value, error, units)


def quotient(over: Estimate, under: Estimate, factor: float = 1.0) -> Estimate:
    """factor * over / under, of two estimates that vary independently."""
    value = factor * over.value / under.value
    if over.error is None or under.error is None or over.value <= 0:
        return Estimate(value, None, min(over.units, under.units))
    share = math.hypot(over.error / over.value, under.error / under.value)
    return Estimate(value, value * share, min(over.units, under.units))


def difference(one: Estimate, other: Estimate) -> Estimate:
    """one - other, of two estimates that vary independently."""
    units = min(one.units, other.units)
    if one.error is None or other.error is None:
        return Estimate(one.value - other.value, None, units)
    return Estimate(one.value - other.value, math.hypot(one.error, other.error), units)


@dataclass(frozen=True)
class Point:
    """What a step of one width costs."""

    width: float  # verify rows
    ms: Estimate
    steps: int


class Cost:
    """Milliseconds by verify width: linear between the measured widths, nothing beyond them.

    A wider verification does all the work of a narrower one, so a cost that falls with the width
    is noise: such neighbours take their common mean.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = _rising(_merged(points))

    def at(self, width: float) -> Estimate | None:
        """The cost of a width, None outside the measured ones."""
        found = None
        for left, right in zip(self.points, self.points[1:], strict=False):
            if left.width <= width <= right.width:
                part = (width - left.width) / (right.width - left.width)
                found = _between(left.ms, right.ms, part)
                break
        if found is None:
            found = next((one.ms for one in self.points if one.width == width), None)
        return found

    def most(self, width: float) -> Estimate | None:
        """The cost of the narrowest measured width that is not below `width`: a bound."""
        return next((one.ms for one in self.points if one.width >= width), None)


def _merged(points: Sequence[Point]) -> list[Point]:
    """One point a width, in order."""
    by_width: dict[float, list[Point]] = {}
    for one in points:
        by_width.setdefault(one.width, []).append(one)
    return [
        Point(width, _mean(by_width[width]), sum(one.steps for one in by_width[width]))
        for width in sorted(by_width)
    ]


def _rising(points: list[Point]) -> list[Point]:
    """The nearest costs that never fall: neighbours that do are pooled (isotonic regression)."""
    pools: list[list[Point]] = []
    for one in points:
        pools.append([one])
        while len(pools) > 1 and _mean(pools[-2]).value > _mean(pools[-1]).value:
            last = pools.pop()
            pools[-1] += last
    return [Point(one.width, _mean(pool), one.steps) for pool in pools for one in pool]


def _mean(points: list[Point]) -> Estimate:
    if len(points) == 1:
        return points[0].ms
    total = sum(one.steps for one in points)
    value = sum(one.steps * one.ms.value for one in points) / total
    errors = [one.ms.error for one in points]
    units = min(one.ms.units for one in points)
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return Estimate(value, None, units)
    parts = (one.steps * error for one, error in zip(points, known, strict=True))
    return Estimate(value, math.sqrt(sum(part**2 for part in parts)) / total, units)


def _between(left: Estimate, right: Estimate, part: float) -> Estimate:
    value = (1 - part) * left.value + part * right.value
    units = min(left.units, right.units)
    if left.error is None or right.error is None:
        return Estimate(value, None, units)
    return Estimate(value, math.hypot((1 - part) * left.error, part * right.error), units)
