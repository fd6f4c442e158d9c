"""Means with their intervals.

Requests are the unit: steps of one request resemble each other, so an interval comes from how
requests differ. A mean over steps is a ratio of two sums over requests, and its variance that of
the linearised ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specdiag.student import quantile

FEWEST = 5  # requests below which an interval would say too much
MISSED = 0.025  # chance that a 95 % interval ends below, and that it begins above


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error, NULL where too few units stand behind it."""

    value: float
    error: float | None = None
    units: int = 0  # requests, or stretches of rows, that it was taken from

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


def places(p: float, share: Estimate, rows: int) -> tuple[float, float] | None:
    """Between which quantiles the p-quantile of what was sampled lies, with 95 % confidence.

    `share` is the share of the sample at or below its own p-quantile, over units: its error says
    how many independent rows the sample is worth (Woodruff's interval, with Wilson's ends). None
    where they are too few to have a row on either side of it.
    """
    if share.error is None:
        return None
    spread = share.value * (1 - share.value)
    worth = min(spread / share.error**2, rows) if share.error > 0 and spread > 0 else rows
    if max(p, 1 - p) ** worth > MISSED:
        return None
    reach = quantile(share.units - 1)
    middle = (p + reach**2 / (2 * worth)) / (1 + reach**2 / worth)
    half = reach * math.sqrt(p * (1 - p) / worth + reach**2 / (4 * worth**2))
    half /= 1 + reach**2 / worth
    return max(middle - half, 0.0), min(middle + half, 1.0)
