"""A cost between the widths at which it was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specdiag.estimate import Estimate


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
