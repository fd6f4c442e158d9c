"""Numbers of a trace as a script can hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

EXACT = 2**53  # whole numbers below are exact in a script


def exact(value: Any) -> int | str | None:
    """A whole number, as text where a script would round it."""
    if value is None:
        return None
    return int(value) if abs(value) < EXACT else str(value)


def rounded(value: Any) -> float | None:
    """A number to four decimals, None if it is none."""
    return round(float(value), 4) if value is not None and math.isfinite(value) else None


def listed(values: Sequence[Any]) -> list[Any]:
    """Whole numbers and others, each as above."""
    return [
        one if type(one) is int and -EXACT < one < EXACT  # almost all are
        else rounded(one) if isinstance(one, float) else exact(one)
        for one in values
    ]  # fmt: skip


def column(values: Sequence[Any]) -> list[Any] | None:
    """The same; None where nothing is known."""
    found = listed(values)
    return found if any(one is not None for one in found) else None
