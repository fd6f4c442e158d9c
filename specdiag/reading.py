"""The rows of one file into the staging area, and what became of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl

from specdiag import records
from specdiag.opening import Opened
from specdiag.parser import Parser
from specdiag.source import Source
from specdiag.staging import Staging
from specdiag.years import Years

MOST_ARMS = 100  # runs that one file can name; every run is compared with every other
NAMED = 10  # fields that no parser knows; more are counted
UNREAD = "see them with `specdiag query 'FROM unread' PATH`; more names with --parsers"

Progress = Callable[[int], None]


@dataclass
class Reading:
    """What became of one file."""

    source: Source
    format: str = ""
    lines: int = 0
    understood: int = 0
    unread: Counter[tuple[str, str]] = field(default_factory=Counter)
    strangers: list[tuple[int, str]] = field(default_factory=list)
    arms: set[str] = field(default_factory=set)
    years: Years | None = None  # of its times, for the file that goes on with the same log

    @property
    def parsed(self) -> float:
        return self.understood / self.lines if self.lines else 0.0


def read(
    staging: Staging, number: int, opened: Opened, progress: Progress,
    before: Reading | None = None,
) -> Reading:  # fmt: skip
    """Put all rows of a file into the staging area; `number` is the file's.

    `before` is what became of the part of the same log that was written before it.
    """
    file = opened.file
    reading = Reading(file)
    if opened.form is None:
        progress(file.size())
        return reading
    reading.format = opened.form.parser.name
    starts: list[int] = []
    older = before.years if before and before.format == reading.format else None
    years = reading.years = (
        older.go_on() if older else Years(opened.form.parser, bool(opened.form.when))
    )
    told = rows = 0
    for parsed in opened:
        if parsed.refused:
            why = f"not read: {parsed.refused}"
            file.warn(why, "update specdiag, or write the older version")
            break
        starts += sorted(parsed.starts)
        years.look([frame for frames in parsed.frames.values() for frame in frames])
        for table, frames in parsed.frames.items():
            for frame in frames:
                placed = _placed(_armed(reading, frame), number, starts)
                staging.add(table, years.placed(placed))
                rows += frame.height
        reading.lines += parsed.lines
        reading.understood += parsed.understood
        reading.unread += parsed.unread
        reading.strangers += parsed.strangers[: max(0, records.SHOWN - len(reading.strangers))]
        progress(max(0, file.taken - told))
        told = max(told, file.taken)
    progress(max(0, file.size() - told))
    if reading.understood and not rows and opened.form.parser.format == "json":
        _say_what_is_missing(file, opened.form.parser)
    _report(reading)
    return reading


def _armed(reading: Reading, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with their arms, unless these are so many that they name no runs."""
    if "arm" not in frame.columns:
        return frame
    few = len(reading.arms) <= MOST_ARMS
    reading.arms.update(frame.get_column("arm").drop_nulls().unique())
    if len(reading.arms) <= MOST_ARMS:
        return frame
    if few:
        reading.source.warn(
            f"more than {MOST_ARMS} names of runs in one file: they are read as one run",
            "write one file a run, or leave the key out that differs",
        )
    return frame.drop("arm")


def _placed(frame: pl.DataFrame, number: int, starts: list[int]) -> pl.DataFrame:
    """The rows with the file they come from, and after how many starts in it."""
    if starts:
        life = pl.Series(starts).search_sorted(frame.get_column("line"), side="right")
        frame = frame.with_columns(life.cast(pl.Int32).alias("life"))
    else:
        frame = frame.with_columns(pl.lit(0, pl.Int32).alias("life"))
    return frame.with_columns(pl.lit(number, pl.Int32).alias("source"))


def _report(reading: Reading) -> None:
    file = reading.source
    if reading.strangers:
        missed = reading.lines - reading.understood
        what = (
            "record is not valid JSON"
            if reading.format and _is_json(reading)
            else "line is not understood"
        )
        if missed > 1:
            what = what.replace("record is", "records are").replace("line is", "lines are")
        number, text = reading.strangers[0]
        file.warn(
            f"{missed} {what}, the first: {text.strip()[:80]!r}", "all others are read", number
        )
    unread = sorted(reading.unread.items())
    for (table, name), count in unread[:NAMED]:
        lines = "1 line" if count == 1 else f"{count} lines"
        file.warn(f"field {name!r} of table {table} not understood in {lines}", UNREAD)
    if len(unread) > NAMED:
        file.warn(f"{len(unread) - NAMED} more fields not understood", UNREAD)


def _say_what_is_missing(file: Source, parser: Parser) -> None:
    """Name what records lack that have nothing to check."""
    wanted = [event.any for event in parser.events if event.any]
    names = dict.fromkeys(column for columns in wanted for column in columns)
    file.warn(
        f"it is read as {parser.name}, and none of its records has a value to check",
        (f"at least one of {', '.join(names)}; " if names else "")
        + f"see what they are called with `specdiag parsers {parser.name}`",
    )


def _is_json(reading: Reading) -> bool:
    return reading.strangers[0][1].lstrip().startswith(("{", '["', "[{"))
