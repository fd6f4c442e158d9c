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
[[event]]
include = "shared/host.toml"           # the events of another file, in this place
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from specdiag import bundled
from specdiag.errors import SpecdiagError
from specdiag.parser import Event, Field, Parser, Rest, Sample

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
        entries = _entries(path.parent, data["event"])
        events = tuple(_event(entry, data["format"]) for entry in entries)
        texts = {k: v for k, v in data.items() if k in Parser.__annotations__ and k != "events"}
        lists = {k: tuple(v) for k, v in texts.items() if isinstance(v, list)}
        parser = Parser(name=path.stem, events=events, **{**texts, **lists})
        if path.parent != bundled.PARSERS:
            check(parser)
    except (AttributeError, KeyError, TypeError, ValueError, OSError, re.error) as error:
        what = f"no key {error}" if isinstance(error, KeyError) else str(error)
        raise SpecdiagError(
            f"parser definition is wrong: {what}", str(path),
            "compare with a bundled one: `specdiag parsers NAME`",
        ) from None  # fmt: skip
    return parser


def _entries(folder: Path, entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Events as they are written, those of included files in their place.

    What does not lie beside the definition is the bundled one: a copy of a format works anywhere.
    """
    for entry in entries:
        if "include" not in entry:
            yield entry
            continue
        path = folder / entry["include"]
        if not path.is_file():
            path = bundled.PARSERS / entry["include"]
        yield from tomllib.loads(path.read_text(encoding="utf-8"))["event"]


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
        again=entry.get("again", False),
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
        *parser.stages.values(), parser.record, parser.prefix, *parser.wrappers, *parser.known,
        *parser.block,
    ]  # fmt: skip
    if parser.format == "lines":
        found += list(parser.recognise)
        for event in parser.events:
            found += [event.match, event.head, event.last]
            if event.style == "fields":
                found += [name for one in event.fields for name in one.names]
    return found
