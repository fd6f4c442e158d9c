"""A trace in Parquet: the same columns as its JSON records."""

from __future__ import annotations

import glob

import duckdb
import polars as pl

from specdiag import records, shapes
from specdiag.parser import Event, Parsed, Parser
from specdiag.source import Source

MOST_ROWS = 5_000_000  # what the columns pack does not show in the file's size


def recognise(file: Source, parsers: list[Parser]) -> Parser | None:
    """The parser one of whose key lists the file's columns contain, the longest list first."""
    try:
        columns = set(_columns(file))
    except (duckdb.Error, UnicodeError) as error:
        file.warn(f"this Parquet file cannot be read: {_first(error)}", "write it again")
        return None
    best: tuple[int, Parser] | None = None
    for parser in parsers:
        for keys in parser.recognise if parser.format == "json" else ():
            # What marks a record's kind needs no column: a Parquet file holds one kind.
            wanted = {key.split(".")[0] for key in keys if key not in ("record", "schema")}
            if wanted and wanted <= columns and (best is None or len(wanted) > best[0]):
                best = len(wanted), parser
    if best is None:
        file.warn(
            "no parser knows the columns of this Parquet file", "see `specdiag parsers steps`"
        )
    return best[1] if best else None


def read(file: Source, parser: Parser) -> Parsed:
    """Its rows, through the JSON reader's projection: nested columns are read as in JSON."""
    parsed = Parsed()
    db = records.connection()
    try:
        event = _main(parser, _columns(file))
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
    records.project(db, parser, event, found.frame, parsed)
    return parsed


def _main(parser: Parser, columns: list[str]) -> Event:
    """The kind of record that most of the columns belong to."""
    records_of = [event for event in parser.events if event.style == "record"]
    return max(records_of, key=lambda event: len(set(event.names) & set(columns)))


def _rows() -> str:
    return (
        "SELECT row_number() OVER () AS line, to_json(t)::VARCHAR AS text FROM read_parquet($1) t"
    )


def _columns(file: Source) -> list[str]:
    db = records.connection()
    described = db.execute("DESCRIBE SELECT * FROM read_parquet($1)", [_path(file)]).fetchall()
    return [name for name, *_ in described]


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
