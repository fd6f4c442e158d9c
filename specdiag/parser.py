"""A log format: a TOML file that says how lines or records become rows of tables.

title     = "SGLang server log"
format    = "lines"                    # or "json": one object a line, an array, or one object, and
                                       # what `document.py`, `streams.py`, `sheets.py` and
                                       # `nested.py` make records of;
                                       # or "trace": a profiler's, see timeline.py
recognise = ["regex", ...]             # lines: one that matches is a claim on the file
recognise = [["key", "other.key"]]     # json, trace: a record that has all of these is a claim;
                                       # `steps[*].key` is in a list of records, `lengths[*]` is one
                                       # of numbers, `steps|rounds` has either name
[[event]]                              # one kind of line or record; the first that fits wins
table = "decode"                       # the table of schema.sql that it fills
...                                    # `lines.py` and `records.py` say what else there is
[[event.sample]]                       # what it reads, and proof that it does
line  = "..."
gives = { column = value }
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from specdiag import bundled
from specdiag.errors import SpecdiagError
from specdiag.source import Own

TABLES = (
    "config", "event", "decode", "prefill", "acceptance", "request", "benchmark", "step",
    "problem", "metric", "server_state", "profile", "profile_stage", "profile_gap",
)  # fmt: skip
LINE_TYPES = (
    "int", "float", "percent", "bool", "text", "time", "list", "texts", "mean", "count",
    "clock",
)  # fmt: skip
RECORD_TYPES = (
    "int", "float", "ms", "bool", "text", "ints", "floats", "bools", "texts", "int_lists",
    "float_lists", "json",
)  # fmt: skip
LINE_STYLES = ("fields", "labels", "pairs", "arguments", "columns", "table")
RECORD_STYLES = ("record", "arguments")


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
    shared: bool = False  # the events after it read its lines, too
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


def load(path: Path) -> Parser:
    """The parser that a TOML file defines.

    Raises SpecdiagError with file, place and reason when the definition is broken. The bundled
    ones are right: to compile all their patterns, which a test does, takes as long as a small log.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecdiagError(
            f"parser definition cannot be read: {error}", str(path), "see `specdiag parsers`"
        ) from None
    try:
        events = tuple(_event(entry, data["format"]) for entry in data["event"])
        texts = {k: v for k, v in data.items() if k in Parser.__annotations__ and k != "events"}
        lists = {k: tuple(v) for k, v in texts.items() if isinstance(v, list)}
        parser = Parser(name=path.stem, events=events, **{**texts, **lists})
        if path.parent != bundled.PARSERS:
            check(parser)
    except (AttributeError, KeyError, TypeError, ValueError, re.error) as error:
        what = f"no key {error}" if isinstance(error, KeyError) else str(error)
        raise SpecdiagError(
            f"parser definition is wrong: {what}", str(path),
            "compare with a bundled one: `specdiag parsers NAME`",
        ) from None  # fmt: skip
    return parser


def check(parser: Parser) -> None:
    """Raises ValueError or re.error for what would only show once a file is read."""
    if parser.format not in ("lines", "json", "trace"):
        raise ValueError(f"format {parser.format!r} is neither lines nor json nor trace")
    if not isinstance(parser.recognise, tuple):
        raise ValueError("recognise must be a list")
    for event in parser.events:
        if event.table not in TABLES:
            raise ValueError(f"no table {event.table!r}, only {', '.join(TABLES)}")
    for pattern in _patterns(parser):
        re.compile(pattern)
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.ComputeError:  # Rust has its own regexes, too
            raise ValueError(f"pattern {pattern!r} has look-around or a reference") from None


def _event(entry: dict[str, Any], format: str) -> Event:
    fields = []
    types = RECORD_TYPES if format == "json" else LINE_TYPES
    for column, (type, *names) in entry.get("fields", {}).items():
        if type not in types:
            raise ValueError(f"type {type!r} of field {column!r} is none of {', '.join(types)}")
        fields.append(Field(column, type, tuple(names or [column])))
    styles = RECORD_STYLES if format == "json" else LINE_STYLES
    style = entry.get("style", styles[0])
    if style not in styles:
        raise ValueError(f"style {style!r} is none of {', '.join(styles)}")
    has, each = entry.get("has", []), entry.get("each", [])
    return Event(
        table=entry["table"],
        title=entry["title"],
        style=style,
        fields=tuple(fields),
        constants=entry.get("set", {}),
        samples=tuple(Sample(s["line"], s["gives"]) for s in entry.get("sample", [])),
        has=(has,) if isinstance(has, str) else tuple(has),
        match=entry.get("match", ""),
        head=entry.get("head", ""),
        last=entry.get("last", ""),
        needs=tuple(entry.get("needs", [])),
        any=tuple(entry.get("any", [])),
        starts=entry.get("starts", False),
        only=entry.get("only", False),
        shared=entry.get("shared", False),
        common=entry.get("common", False),
        where=entry.get("where", {}),
        inside=entry.get("inside", ""),
        each=(each,) if isinstance(each, str) else tuple(each),
        beside=tuple(entry.get("beside", [])),
        rest=tuple(
            Rest(column, pattern, tuple(inside))
            for column, (pattern, *inside) in entry.get("rest", {}).items()
        ),
    )


def _patterns(parser: Parser) -> list[str]:
    found = [
        *parser.stages.values(),
        parser.record,
        parser.prefix,
        *parser.wrappers,
        *parser.known,
        *parser.block,
    ]
    if parser.format == "lines":
        found += list(parser.recognise)
        for event in parser.events:
            found += [event.match, event.head, event.last]
            if event.style == "fields":
                found += [name for one in event.fields for name in one.names]
    return found


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
