"""A trace in Parquet: the same columns as its JSON records."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable

import duckdb
import polars as pl

from specdiag import records, shapes
from specdiag.parser import Event, Parsed, Parser
from specdiag.source import Source

MOST_ROWS = 5_000_000  # what the columns pack does not show in the file's size


def recognise(file: Source, parsers: list[Parser]) -> Parser | None:
    """The parser one of whose key lists the file's columns contain, the longest list first."""
    try:
        columns = _columns(file)
    except (duckdb.Error, UnicodeError) as error:
        file.warn(f"this Parquet file cannot be read: {_first(error)}", "write it again")
        return None
    best: tuple[int, Parser] | None = None
    for parser in parsers:
        for keys in parser.recognise if parser.format == "json" else ():
            # What marks a record's kind needs no column: a Parquet file holds one kind.
            wanted = {key for key in keys if key not in ("record", "schema")}
            if wanted and all(_has(columns, key) for key in wanted):
                special = len(wanted) + 2 * sum("[*]" in key for key in wanted)
                if best is None or special > best[0]:
                    best = special, parser
    if best is None:
        file.warn(
            "no parser knows the columns of this Parquet file", "see `specdiag parsers steps`"
        )
    return best[1] if best else None


def _has(columns: dict[str, str], key: str) -> bool:
    """Whether there is a column for a key, or of lists, of numbers or of records with the key."""
    outer, lists, inner = key.partition("[*]")
    if not lists:
        return key.split(".")[0] in columns
    types = [type for name in outer.split("|") if (type := columns.get(name, "")).endswith("[]")]
    if not inner:
        return any("(" not in type for type in types)
    named = rf'\bSTRUCT\(.*\b"?(?:{inner.removeprefix(".")})"? '
    return any(re.search(named, type) for type in types)


def read(file: Source, parser: Parser) -> Parsed:
    """Its rows, through the JSON reader's projection: nested columns are read as in JSON."""
    parsed = Parsed()
    db = records.connection()
    try:
        events = [one for one in parser.events if one.each] or [_main(parser, _columns(file))]
        frame = pl.DataFrame(db.sql(f"{_rows()} LIMIT {MOST_ROWS + 1}", params=[_path(file)]))
    except (duckdb.Error, UnicodeError) as error:
        file.warn(f"this Parquet file cannot be read: {_first(error)}", "write it again")
        return parsed
    if frame.height > MOST_ROWS:
        frame = frame.head(MOST_ROWS)
        file.warn(f"only the first {MOST_ROWS:,} rows are read", "write it in several files")
    parsed.lines = frame.height
    if not frame.height:
        file.warn("this Parquet file has no rows", "record some steps")
        return parsed
    found = shapes.look(db, parser, frame)
    parsed.refused = shapes.too_new(parser, found)
    if parsed.refused:
        return parsed
    parsed.understood = frame.height
    file.quoted = lambda lines: _quote(file, lines)
    for event in events:
        kind = shapes.within(db, parser, event, found.frame)
        if kind.height:
            records.project(db, parser, event, kind, parsed)
    return parsed


def _main(parser: Parser, columns: Iterable[str]) -> Event:
    """The kind of record that most of the columns belong to."""
    records_of = [event for event in parser.events if event.style == "record"]
    return max(records_of, key=lambda event: len(set(event.names) & set(columns)))


def _rows() -> str:
    return (
        "SELECT row_number() OVER () AS line, to_json(t)::VARCHAR AS text FROM read_parquet($1) t"
    )


def _columns(file: Source) -> dict[str, str]:
    """Their names and types."""
    db = records.connection()
    described = db.execute("DESCRIBE SELECT * FROM read_parquet($1)", [_path(file)]).fetchall()
    return {name: type for name, type, *_ in described}


def _quote(file: Source, lines: set[int]) -> dict[int, str]:
    """Rows as JSON."""
    numbers = ", ".join(str(line) for line in lines)
    try:
        found = (
            records.connection()
            .execute(f"SELECT line, text FROM ({_rows()}) WHERE line IN ({numbers})", [_path(file)])
            .fetchall()
        )
    except (duckdb.Error, UnicodeError):  # gone since it was read
        return {}
    return dict(found)


def _path(file: Source) -> str:
    path = str(file.path)
    path.encode()  # raises UnicodeError for what DuckDB could not open
    return glob.escape(path)  # it takes every path for a pattern


def _first(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "its name is not UTF-8"
    return str(error).strip().splitlines()[0]
