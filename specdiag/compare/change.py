"""How much a ratio of sums differs between two arms, and how sure that is.

A unit is (x, y): of a request its steps and its tokens, say. The value of an arm is the sum of y
over the sum of x. The error is that of the jackknife, which leaves out one unit at a time: with few
units it is rather too large than too small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from specdiag import student
from specdiag.compare import resample

Unit = tuple[float, float]
FEWEST = 4  # units below which nothing is said of chance
BLOCKS = 10  # of neighbouring rows, at most
ENOUGH_TO_RESAMPLE = 12
WIDEST = math.log(1000)  # half an interval that tells something


@dataclass(frozen=True)
class Change:
    """B against A: the logarithm of their ratio, of shares their difference."""

    value: float
    error: float | None = None  # standard error; None: too few units, or too few that differ
    freedom: float = 0.0
    critical: float = 0.0  # errors that make the half width of the 95 % interval
    p: float | None = None  # probability of such a change by chance
    units: int = 0  # of the arm that has fewer
    log: bool = True

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval, on the scale of the value."""
        if self.error is None:
            return None
        reach = self.critical * self.error
        return self.value - reach, self.value + reach

    def shown(self, value: float) -> float:
        """A value as a share: 0.1 is 10 % more."""
        return math.expm1(value) if self.log else value


def ratio(units: Sequence[Unit]) -> float | None:
    """Sum of y over sum of x."""
    below = math.fsum(x for x, _ in units)
    return math.fsum(y for _, y in units) / below if below > 0 else None


def interval(units: Sequence[Unit], inflation: float = 1.0) -> tuple[float, float] | None:
    """The 95 % interval of an arm's own value."""
    if len(units) < FEWEST:
        return None
    value = ratio(units)
    variance = _jackknife(units, False)
    if value is None or variance is None:
        return None
    reach = student.quantile(len(units) - 1) * math.sqrt(variance * inflation)
    return value - reach, value + reach


def paired(a: Sequence[Unit], b: Sequence[Unit], log: bool = True) -> Change | None:
    """The n-th unit of B against the n-th of A."""
    value = _difference(a, b, log)
    if value is None:
        return None
    one, other = _left_out(a, log), _left_out(b, log)
    if len(a) < FEWEST or one is None or other is None:
        return Change(value, units=len(a), log=log)
    variance = _spread([v - u for u, v in zip(one, other, strict=True)])
    return _judged(value, variance, len(a) - 1, len(a), log, (a, b), True)


def independent(
    a: Sequence[Unit], b: Sequence[Unit], log: bool = True, fewest: int = FEWEST,
    resampled: bool = True,
) -> Change | None:  # fmt: skip
    """B against A, where no unit of one has to do with one of the other."""
    value = _difference(a, b, log)
    if value is None:
        return None
    units = min(len(a), len(b))
    one, other = _jackknife(a, log), _jackknife(b, log)
    if units < fewest or one is None or other is None:
        return Change(value, units=units, log=log)
    freedom = student.welch(one, len(a), other, len(b))
    drawn = (a, b) if resampled else None
    return _judged(value, one + other, freedom, units, log, drawn, False)


def rows(a: Sequence[Unit], b: Sequence[Unit], log: bool = True) -> Change | None:
    """B against A, of rows in their order: text changes slowly, so neighbours are alike."""
    value = _difference(a, b, log)
    if value is None:
        return None
    (one, loss_one), (other, loss_other) = blocks(a), blocks(b)
    units = min(len(one), len(other))
    first, second = _jackknife(one, log), _jackknife(other, log)
    if units < FEWEST or first is None or second is None:
        return Change(value, units=units, log=log)
    first, second = first * loss_one, second * loss_other
    freedom = student.welch(first, len(one), second, len(other))
    return _judged(value, first + second, freedom, units, log, None, False)


def blocks(units: Sequence[Unit]) -> tuple[list[Unit], float]:
    """Blocks of neighbours, and by how much their spread falls short of the mean's variance.

    Blocks are not long enough to be independent where rows stay alike for long: what is left is
    that of a first-order process with the correlation of neighbouring rows.
    """
    number = min(BLOCKS, len(units) // 2)
    if number < FEWEST:
        return list(units), 1.0
    edges = [len(units) * n // number for n in range(number + 1)]
    found = [
        (math.fsum(x for x, _ in units[low:high]), math.fsum(y for _, y in units[low:high]))
        for low, high in itertools.pairwise(edges)
    ]
    alike, length = _alike(units), len(units) / number
    inside = 1 + 2 * sum((1 - k / length) * alike**k for k in range(1, math.ceil(length)))
    return found, max((1 + alike) / (1 - alike) / inside, 1.0)


def _alike(units: Sequence[Unit]) -> float:
    """Correlation of neighbouring rows, without what few rows hide of it; 0 at least."""
    value = ratio(units) or 0.0
    rest = [y - value * x for x, y in units]
    total = math.fsum(one * one for one in rest)
    if total <= 0:
        return 0.0
    near = math.fsum(one * other for one, other in itertools.pairwise(rest)) / total
    return min(max((len(units) * near + 1) / (len(units) - 4), 0.0), 0.95)


def _judged(
    value: float, variance: float, freedom: float, units: int, log: bool,
    drawn: tuple[Sequence[Unit], Sequence[Unit]] | None, together: bool,
) -> Change:  # fmt: skip
    """The wider of what Student's t and the bootstrap say."""
    error = math.sqrt(variance)
    critical = student.quantile(freedom)
    if error <= 1e-12 * max(abs(value), 1.0):
        return Change(value, 0.0, freedom, critical, float(abs(value) < 1e-12), units, log)
    p = student.tail(value / error, freedom)
    if drawn is not None and units >= ENOUGH_TO_RESAMPLE:
        wide, chance = resample.studentised(*drawn, together, log, abs(value) / error)
        critical, p = max(critical, wide), max(p, chance)
    if critical * error > WIDEST:  # as where nearly all units are alike, and the draws with them
        return Change(value, units=units, log=log)
    return Change(value, error, freedom, critical, p, units, log)


def _difference(a: Sequence[Unit], b: Sequence[Unit], log: bool) -> float | None:
    one, other = ratio(a), ratio(b)
    if one is None or other is None or (log and (one <= 0 or other <= 0)):
        return None
    return math.log(other / one) if log else other - one


def _jackknife(units: Sequence[Unit], log: bool) -> float | None:
    left_out = _left_out(units, log)
    return None if left_out is None else _spread(left_out)


def _left_out(units: Sequence[Unit], log: bool) -> list[float] | None:
    """The value without each unit; None where nothing would be left without one of them."""
    xs, ys = math.fsum(x for x, _ in units), math.fsum(y for _, y in units)
    found = []
    for x, y in units:
        below, above = xs - x, ys - y
        if below <= 0 or (log and above <= 0):
            return None
        found.append(math.log(above / below) if log else above / below)
    return found


def _spread(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    total = math.fsum((one - mean) ** 2 for one in values)
    return (len(values) - 1) / len(values) * total
