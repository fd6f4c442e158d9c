"""The bootstrap: units drawn again and again, each time as many as there are.

What is compared is not the change but the change over its error (a studentised bootstrap), which
keeps its promise with fewer units. The draws are the same in every run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

import polars as pl

DRAWS = 2000
SEED = 20260618
MOST = 128  # units; of more, neighbours are put together, which loses nothing that matters

Unit = tuple[float, float]


def studentised(
    a: Sequence[Unit], b: Sequence[Unit], together: bool, log: bool, seen: float
) -> tuple[float, float]:
    """How many errors hold 95 % of the draws, and the share of draws as far away as `seen` errors.

    The first is infinite where more than 5 % of the draws have no spread at all.

    `together`: the n-th units of both arms are drawn as a pair.
    """
    one, other = _few(a), _few(b)
    first = _draws(len(one), SEED)
    second = first if together else _draws(len(other), SEED + 1)
    left, right = _drawn(one, first, log), _drawn(other, second, log)
    if together:
        far = right["far"] - left["far"]
        variance = (right["rest"] - left["rest"]).pow(2).reshape((DRAWS, -1)).arr.sum()
    else:
        far = right["far"] - left["far"]
        variance = left["rest"].pow(2).reshape((DRAWS, -1)).arr.sum()
        variance += right["rest"].pow(2).reshape((DRAWS, -1)).arr.sum()
    frame = pl.DataFrame({"far": far.abs(), "error": variance.sqrt()})
    # A draw without any spread is as far away as can be.
    errors = frame.select(
        pl.when(pl.col("error") > 0).then(pl.col("far") / pl.col("error")).otherwise(float("inf"))
    ).to_series()
    wide = errors.quantile(0.95, "higher")
    beyond = int((errors >= seen).sum())
    return float("inf") if wide is None else wide, (1 + beyond) / (1 + DRAWS)


@lru_cache(8)
def _draws(units: int, seed: int) -> pl.Series:
    return pl.int_range(units, eager=True).sample(
        units * DRAWS, with_replacement=True, seed=seed
    )  # fmt: skip


def _drawn(units: Sequence[Unit], draws: pl.Series, log: bool) -> dict[str, pl.Series]:
    """Of each draw: how far its value is from the arm's; of each drawn unit: its part in the error.

    [DRAWS] and [DRAWS x units]
    """
    size = len(units)
    x = pl.Series("x", [one for one, _ in units], dtype=pl.Float64)
    y = pl.Series("y", [one for _, one in units], dtype=pl.Float64)
    value = float(y.sum()) / float(x.sum())
    xs, ys = x.gather(draws), y.gather(draws)
    below, above = xs.reshape((DRAWS, size)).arr.sum(), ys.reshape((DRAWS, size)).arr.sum()
    ratio = above / below
    which = _which(size)
    rest = (ys - ratio.gather(which) * xs) / (above if log else below).gather(which)
    scale = (size / (size - 1)) ** 0.5
    far = (ratio / value).log() if log else ratio - value
    return {"far": far, "rest": rest * scale}


@lru_cache(8)
def _which(units: int) -> pl.Series:
    """The number of the draw of each drawn unit."""
    return pl.int_range(DRAWS * units, eager=True) // units


def _few(units: Sequence[Unit]) -> list[Unit]:
    if len(units) <= MOST:
        return list(units)
    edges = [len(units) * n // MOST for n in range(MOST + 1)]
    return [
        (sum(x for x, _ in units[low:high]), sum(y for _, y in units[low:high]))
        for low, high in itertools.pairwise(edges)
    ]
