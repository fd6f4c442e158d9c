"""Means and growths of few values, with Student's interval. This module does not import torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from specdiag.student import quantile


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
    half = quantile(count - 1, 1 - level / 100) * statistics.stdev(values) / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half)


def growth(short: Sequence[float], long: Sequence[float]) -> Estimate:
    """How many times larger the second times are, text by text, with its 99 % interval."""
    pairs = zip(short, long, strict=True)
    logs = estimate([math.log(max(b, 1e-9) / max(a, 1e-9)) for a, b in pairs], 99)
    return Estimate(math.exp(logs.value), _exp(logs.low), _exp(logs.high))


def typical(times: Sequence[float]) -> float:
    """The geometric mean, whose ratios are those of `growth`."""
    return math.exp(statistics.fmean(math.log(max(each, 1e-9)) for each in times))


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0)) if value > -math.inf else 0.0
