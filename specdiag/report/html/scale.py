"""The axes of a still picture: values onto pixels, and round numbers to name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from specdiag.clock import NO_DAY
from specdiag.figure import Axis
from specdiag.report.text import visible

_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
_DAY = 86_400


@dataclass(frozen=True)
class Scale:
    """Values of an axis onto pixels from `start` to `end`, and where its ticks are."""

    place: Callable[[Any], float]
    ticks: list[tuple[float, str]]  # pixel, words
    low: float
    high: float


def scale(
    axis: Axis, values: list[float], start: float, end: float,
    categories: list[str] | None = None, padded: bool = False,
) -> Scale:  # fmt: skip
    """The scale of an axis over these values; an axis of one value gets some room around it."""
    if categories is not None:
        step = (end - start) / max(1, len(categories))
        at = {name: start + (n + 0.5) * step for n, name in enumerate(categories)}
        return Scale(at.__getitem__, [(at[c], visible(c, 18)) for c in categories], 0, step)
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if axis.scale == "log":
        low, high = math.log10(low), math.log10(high)
    whole = axis.scale == "linear" and all(float(value).is_integer() for value in values)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = abs(low) / 2 or 1.0
        low, high = (low - 0.3, high + 0.3) if axis.scale == "log" else (low - room, high + room)
    if padded:
        low, high = low - 0.5, high + 0.5
    if axis.scale == "log":
        low, high = low - (high - low) / 40, high + (high - low) / 40
    if axis.scale == "linear" and not padded:
        low, high = _rounded(low, high)

    def place(value: float) -> float:
        exact = math.log10(value) if axis.scale == "log" else value
        return start + (exact - low) / (high - low) * (end - start)

    return Scale(place, [(place(v), w) for v, w in _ticks(axis, low, high, whole)], low, high)


def _rounded(low: float, high: float) -> tuple[float, float]:
    step = _step((high - low) / 5)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def _step(about: float) -> float:
    """The next of 1, 2, 5, 10, ... at or above."""
    size = 10.0 ** math.floor(math.log10(about))
    return next(size * one for one in (1, 2, 5, 10) if size * one >= about * 0.999)


def _ticks(axis: Axis, low: float, high: float, whole: bool) -> list[tuple[float, str]]:
    if axis.scale == "time":
        return _clock(low, high)
    if axis.scale == "log" and high - low > 0.8:
        ones = (1, 2, 5) if high - low < 1.8 else (1, 3) if high - low < 3.2 else (1,)
        powers = range(math.floor(low), math.ceil(high) + 1)
        values = [one * 10.0**power for power in powers for one in ones]
        inside = [value for value in values if low <= math.log10(value) <= high]
        return [(value, _short(value)) for value in inside[:: math.ceil(len(inside) / 9)]]
    if axis.scale == "log":
        low, high = 10**low, 10**high
    step = _step((high - low) / 6)
    if whole:
        step = max(1.0, step)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [(n * step, _short(n * step)) for n in range(first, last + 1)]


def _clock(low: float, high: float) -> list[tuple[float, str]]:
    span = (high - low) / 1000
    step = next((one for one in _SECONDS if span / one <= 7), _DAY * math.ceil(span / _DAY / 7))
    words = "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY else "%Y-%m-%d"
    first = math.ceil(low / 1000 / step)
    return [
        (n * step * 1000.0, clock(n * step * 1000.0, words))
        for n in range(first, math.floor(high / 1000 / step) + 1)
    ]


def clock(ms: float, words: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Milliseconds since 1970 as the log's own clock reads, without a date that is not known."""
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).strftime(words)
    return text.removeprefix(f"{NO_DAY} ")


def _short(value: float) -> str:
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{sign}"
    return f"{value:.6g}"
