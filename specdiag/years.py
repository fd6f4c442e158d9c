"""Times of logs that print no year: it turns where January comes after December."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import polars as pl

from specdiag.parser import Parser

FIRST_HALF = 6  # months: a line that lags behind its neighbours stays in December


class Years:
    """The year of the lines of one log, in order; a log of more than a year is none of these."""

    def __init__(self, parser: Parser, known: bool = False) -> None:
        """`known` where the times are not those of the lines."""
        self.missing = "%Y" not in parser.time_format and not known
        self.december: int | None = None  # the first line in it
        self.turn: int | None = None  # the first line of the new year

    def go_on(self) -> Years:
        """Those of the next file, where that goes on with the same log."""
        following = copy(self)
        following.turn = None if self.turn is None else 0
        following.december = None if self.december is None else 0
        return following

    def look(self, frames: Iterable[pl.DataFrame]) -> None:
        """Take note of rows that follow on all that were looked at before."""
        if not self.missing or self.turn is not None:
            return
        for month in (12, 1):
            lines = [_first(frame, month, self.december) for frame in frames]
            first = min((line for line in lines if line is not None), default=None)
            if month == 1 and self.december is not None:
                self.turn = first
            elif month == 12 and self.december is None:
                self.december = first

    def placed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows, those of the new year in it."""
        if self.turn is None or "time" not in frame.columns:
            return frame
        time = pl.col("time")
        new = (pl.col("line") >= self.turn) & (time.dt.month() <= FIRST_HALF)
        return frame.with_columns(pl.when(new).then(time.dt.offset_by("1y")).otherwise(time))


def _first(frame: pl.DataFrame, month: int, after: int | None) -> int | None:
    """The first line with a time in that month, behind another line."""
    if "time" not in frame.columns:
        return None
    within = frame.filter(pl.col("time").dt.month() == month, pl.col("line") > (after or 0))
    found: int | None = within.select(pl.col("line").min()).item()
    return found
