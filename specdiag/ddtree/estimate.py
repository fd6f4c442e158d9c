"""Means and growths of few values, with Student's interval. This module does not import torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_NORMAL = {95: 1.959964, 99: 2.575829}
_TWO_SIDED = {
    95: (12.706, 4.303, 3.182, 2.776, 2.571),
    99: (63.657, 9.925, 5.841, 4.604, 4.032),
}  # Student's t, from 1 degree of freedom on


@dataclass(frozen=True)
class Estimate:
    """A mean of texts with its interval."""

    value: float
    low: float
    high: float


def estimate(values: Sequence[float], level: int = 95) -> Estimate:
    """The mean, with Student's interval; without bounds where there is one value only."""
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return Estimate(mean, -math.inf, math.inf)
    half = _student(count - 1, level) * statistics.stdev(values) / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half)


def growth(short: Sequence[float], long: Sequence[float]) -> Estimate:
    """How many times larger the second times are, text by text, with its 99 % interval."""
    pairs = zip(short, long, strict=True)
    logs = estimate([math.log(max(b, 1e-9) / max(a, 1e-9)) for a, b in pairs], 99)
    return Estimate(math.exp(logs.value), _exp(logs.low), _exp(logs.high))


def typical(times: Sequence[float]) -> float:
    """The geometric mean, whose ratios are those of `growth`."""
    return math.exp(statistics.fmean(math.log(max(each, 1e-9)) for each in times))


def _student(freedom: int, level: int) -> float:
    """The quantile of a two-sided interval; from 6 degrees on expanded around the normal one."""
    if freedom <= len(_TWO_SIDED[level]):
        return _TWO_SIDED[level][freedom - 1]
    z = _NORMAL[level]
    near = z + (z**3 + z) / (4 * freedom)
    return near + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0)) if value > -math.inf else 0.0
