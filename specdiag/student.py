"""Student's t: how far a mean of few units may lie from the truth by chance."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist


def tail(t: float, freedom: float) -> float:
    """Probability of a value at least as far from 0 as t, on both sides."""
    if math.isinf(t):
        return 0.0
    return _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@cache
def quantile(freedom: float, alpha: float = 0.05) -> float:
    """The t that chance passes, on both sides, with probability alpha."""
    # From the normal quantile, which is below: there Newton's method only comes nearer.
    t = NormalDist().inv_cdf(1 - alpha / 2)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    for _ in range(200):
        shape = math.log1p(t * t / freedom) * (freedom + 1) / 2
        density = math.exp(scale - shape) / math.sqrt(freedom * math.pi)
        step = (tail(t, freedom) - alpha) / (2 * density)
        t += step
        if abs(step) <= 1e-12 * t:
            break
    return t


def welch(one: float, units: int, other: float, others: int) -> float:
    """Degrees of freedom of a difference of two means, given the variance of each mean."""
    if one + other <= 0:
        return float(units + others - 2)
    return float((one + other) ** 2 / (one**2 / (units - 1) + other**2 / (others - 1)))


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    ) / a  # fmt: skip
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 400):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * value


def _away(value: float) -> float:
    """A divisor that is not 0."""
    return value if abs(value) > 1e-300 else 1e-300
