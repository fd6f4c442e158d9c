"""A log format: what kinds of lines or records there are, and how a block of them becomes rows.

`definition.py` loads one from its TOML file; `lines.py` and `records.py` read with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from specdiag.source import Own


@dataclass(frozen=True)
class Field:
    """One column, and the names (labels, keys, patterns) that sources use for it."""

    column: str
    type: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """A line or record with the values that must be read from it."""

    text: str
    gives: dict[str, Any]


@dataclass(frozen=True)
class Rest:
    """json: keys that no field names but that match a pattern, kept in one JSON column."""

    column: str
    pattern: str
    inside: tuple[str, ...]  # objects whose keys are looked at, too


@dataclass(frozen=True)
class Event:
    """One kind of line or record."""

    table: str
    title: str
    style: str
    fields: tuple[Field, ...]
    constants: dict[str, Any]
    samples: tuple[Sample, ...]
    has: tuple[str, ...] = ()  # literals, one of which is in every such line
    match: str = ""  # and, if that is not enough, a pattern
    head: str = ""  # labels: what stands before the first label; table: the heading
    last: str = ""  # columns: what ends a block; table: what parts the cells
    needs: tuple[str, ...] = ()  # columns that a complete row has
    any: tuple[str, ...] = ()  # columns one of which must be there, or it is no such line
    starts: bool = False  # a new life of the server starts here
    only: bool = False  # arguments: the pairs that fields name, and no others
    again: bool = False  # the events after it read its lines, too
    common: bool = False  # so frequent that it is looked for first
    where: dict[str, str] = field(default_factory=dict)  # json: key = value that marks the kind
    rest: tuple[Rest, ...] = ()
    inside: str = ""  # json arguments: the object whose keys become rows
    # json: the records are the elements of lists inside: `runs[*].steps[*]`, `steps[*]|rounds[*]`
    # under either name, or the values of an object, `results.*`; with a second path those of lists
    # in these, which have the keys of the record around them, too. An empty path is the record
    # itself; a plain number becomes a record of its `value` and of its place, `nth`
    each: tuple[str, ...] = ()
    # lists around such a number, of which its record takes what is at the same place
    beside: tuple[str, ...] = ()

    @property
    def names(self) -> dict[str, Field]:
        """Field by source name."""
        return {name: one for one in self.fields for name in one.names}


@dataclass(frozen=True)
class Parser:
    """A format. `name` is the stem of its file."""

    name: str
    title: str
    format: str
    recognise: tuple[Any, ...]
    events: tuple[Event, ...]
    help: str = ""
    boundary: str = ""  # lines: how a record starts, literally
    record: str = ""  # lines: a pattern of a record's start, wherever in the line it is
    prefix: str = ""  # lines: what stands before the message (groups time, rank, ...)
    time_format: str = "%Y-%m-%d %H:%M:%S%.f"
    wrappers: tuple[str, ...] = ()  # lines: what collectors put before each line
    known: tuple[str, ...] = ()  # lines: patterns of lines that hold nothing to load
    block: tuple[str, ...] = ()  # lines: patterns whose following lines belong to them
    roots: tuple[str, ...] = ("",)  # json: where in the record the fields may be
    ignore: tuple[str, ...] = ()  # keys and labels that are not worth naming as unknown; or "*"
    version: tuple[Any, ...] = ()  # json: the key of the schema version, and the highest one read
    arm: tuple[str, ...] = ()  # json: keys whose values name a run inside the file
    stages: dict[str, str] = field(default_factory=dict)  # trace: stage -> pattern of range names


@dataclass
class Parsed:
    """What one block gave. Every frame has the column `line`."""

    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    lines: int = 0  # all but the empty ones
    understood: int = 0
    unread: Counter[tuple[str, str]] = field(default_factory=Counter)  # (table, name) -> lines
    strangers: list[tuple[int, str]] = field(default_factory=list)  # the first not understood
    starts: list[int] = field(default_factory=list)
    refused: str = ""  # why nothing of this file can be read

    def add(self, table: str, frame: pl.DataFrame) -> None:
        if frame.height:
            self.frames.setdefault(table, []).append(frame)

    def rows(self, event: Event, frame: pl.DataFrame) -> None:
        """Add the rows of an event that have any of the columns that it asks for."""
        constants = [pl.lit(value).alias(column) for column, value in event.constants.items()]
        frame = frame.with_columns(constants)
        if event.any:
            given = [pl.col(column).is_not_null() for column in event.any if column in frame]
            kept = frame.select(pl.any_horizontal(given)).to_series() if given else None
            if kept is None or not kept.all():  # a filter would copy all columns
                frame = frame.filter(kept) if kept is not None else frame.clear()
        if event.starts:
            self.starts += frame.get_column("line").to_list()
        self.add(event.table, frame)

    def merge(self, other: Parsed) -> None:
        """Take over what another block gave; the first strangers stay."""
        for table, frames in other.frames.items():
            self.frames.setdefault(table, []).extend(frames)
        self.lines += other.lines
        self.understood += other.understood
        self.unread += other.unread
        self.strangers += other.strangers
        self.starts += other.starts
        self.refused = self.refused or other.refused


def read(
    parser: Parser, data: bytes, line: int, wrapper: str = "", inside: str = "",
    own: Own | None = None, when: str = "",
) -> Parsed:  # fmt: skip
    """The rows of a block of whole lines, the first of which has number `line`."""
    if parser.format == "json":
        from specdiag import records

        return records.read(parser, data, line, wrapper)
    if parser.format == "trace":
        from specdiag import timeline

        return timeline.read(parser, [data])
    from specdiag import lines

    return lines.read(parser, data, line, wrapper, inside, own, when)
