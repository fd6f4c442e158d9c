"""What may be said of a change: better, worse, no difference larger than so much, or undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specdiag import student
from specdiag.compare.change import FEWEST, Change

# Intervals are those of 95 %. A verdict asks for a little more, since neither the error nor the law
# of a few units is known exactly: so it is wrong in less than one of twenty cases.
ALPHA = 0.04
POWER = 0.8  # with which a difference is seen that is said to be detectable
MARGIN = 0.05  # a difference below this one does not matter, where the user says nothing else


@dataclass(frozen=True)
class Verdict:
    """`kind`: better, worse, same, undecided, or none where the arms cannot be compared."""

    kind: str
    p: float | None = None  # corrected
    bound: float | None = None  # share: no difference larger than this one
    detectable: float | None = None  # share: what would have been seen four times in five
    more_units: int | None = None  # that would decide it, about
    more_steps: int | None = None


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Corrected for how many there are (Holm 1979): the chance that any of them is wrong."""
    known = sorted((p, n) for n, p in enumerate(ps) if p is not None)
    found: list[float | None] = [None] * len(ps)
    least = 0.0
    for place, (p, n) in enumerate(known):
        least = max(least, min(1.0, (len(known) - place) * p))
        found[n] = least
    return found


def detectable(change: Change, family: int = 1) -> float | None:
    """The smallest true change, as its logarithm, that is seen four times in five."""
    if change.error is None:
        return None
    return (_critical(change, family) + _power(change)) * change.error


def judge(
    change: Change | None, p: float | None, rises: bool, margin: float, family: int,
    steps: float = 0.0,
) -> Verdict:  # fmt: skip
    """The verdict on a change; `rises`: more is better. `steps` stand behind the smaller arm."""
    if change is None or change.error is None or p is None or change.interval is None:
        units = change.units if change else 0
        return Verdict("undecided", more_units=max(FEWEST - units, 1))
    low, high = change.interval
    bound = max(abs(change.shown(low)), abs(change.shown(high)))
    seen = change.shown(detectable(change, family) or 0.0)
    if p < ALPHA:
        better = (change.value > 0) == rises
        return Verdict("better" if better else "worse", p, bound, seen)
    if bound <= margin:
        return Verdict("same", p, bound, seen)
    units = needed(change, margin, family) - change.units
    units = max(units, math.ceil(change.units / 10))
    return Verdict(
        "undecided", p, bound, seen, _round(units),
        _round(units * steps / change.units) if steps and change.units else None,
    )  # fmt: skip


def needed(change: Change, margin: float, family: int = 1) -> int:
    """Units that decide four times in five: that it is as large as seen, or within the margin."""
    assert change.error is not None
    size, limit = abs(change.value), math.log1p(margin) if change.log else margin
    reach = _critical(change, family) + _power(change)
    error = max(size / reach, (limit - size) / reach)
    times: float = change.error / error
    return math.ceil(change.units * times * times)


def _power(change: Change) -> float:
    """Beyond the critical value: the t that is passed four times in five."""
    return student.quantile(change.freedom, 2 * (1 - POWER))


def _critical(change: Change, family: int) -> float:
    return max(
        change.critical,
        student.quantile(change.freedom, ALPHA / max(family, 1)),
    )


def _round(number: float) -> int:
    """To two digits, upwards: it is an estimate."""
    whole = max(math.ceil(number), 1)
    step: int = 10 ** max(len(str(whole)) - 2, 0)
    return math.ceil(whole / step) * step
