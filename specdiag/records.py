"""JSON records to columns: one object a line, an array of objects, or one object in a file.

Where all records of a block look alike they are parsed once, straight into typed columns (see
straight.py). Elsewhere DuckDB looks at their keys first. An event with `each` reads the elements of
lists inside the record.
"""

from __future__ import annotations

import threading

import duckdb
import polars as pl

from specdiag import document, layout, nested, raw, shapes, straight
from specdiag.parser import Event, Parsed, Parser
from specdiag.shapes import Handover

SHOWN = 5

_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    """A private in-memory database of this thread, for its JSON reader."""
    if not hasattr(_local, "connection"):
        _local.connection = duckdb.connect(
            config={"python_enable_replacements": False, "threads": 1}
        )
    found: duckdb.DuckDBPyConnection = _local.connection
    return found


def read(parser: Parser, data: bytes, line: int, wrapper: str = "") -> Parsed:
    """All rows of a block of records; see `parser.Parsed`.

    The first group of the wrapper, a pattern, is the record in its line.
    """
    parsed = Parsed()
    db = connection()
    frame = raw.text_of(data, line)
    if wrapper:
        frame = frame.with_columns(pl.col("text").str.replace(wrapper, "$1"))
    if straight.read(db, parser, frame, parsed):
        if not parsed.frames:
            _look_inside(db, parser, frame, parsed)
        return parsed
    frame = frame.filter(pl.col("text").str.strip_chars() != "")
    if not frame.height:
        return parsed
    found = shapes.look(db, parser, frame)
    if found.broken.height:
        found = shapes.look(db, parser, _mended(frame, found.broken))
    parsed.strangers = found.broken.head(SHOWN).rows()
    parsed.understood = found.frame.height
    parsed.lines = parsed.understood + found.broken.height
    parsed.refused = shapes.too_new(parser, found)
    if parsed.refused:
        return parsed
    _events(db, parser, found, parsed)
    if not parsed.frames:
        _look_inside(db, parser, found.frame, parsed)
    return parsed


def _events(
    db: duckdb.DuckDBPyConnection, parser: Parser, found: shapes.Records, parsed: Parsed
) -> None:
    for event in parser.events:
        kind = shapes.within(db, parser, event, found.kind(event))
        if not kind.height:
            continue
        if event.style == "arguments":
            _arguments(db, parser, event, kind, parsed)
        else:
            project(db, parser, event, kind, parsed)


def _look_inside(
    db: duckdb.DuckDBPyConnection, parser: Parser, frame: pl.DataFrame, parsed: Parsed
) -> None:
    """Read the records that stand inside of others, where these gave nothing."""
    for _ in range(nested.DEEPEST):
        frame = nested.inside(parser, frame)
        if not frame.height:
            return
        inner = Parsed()
        _events(db, parser, shapes.look(db, parser, frame), inner)
        if inner.frames:
            parsed.frames, parsed.starts, parsed.unread = inner.frames, inner.starts, inner.unread
            return


def _mended(frame: pl.DataFrame, broken: pl.DataFrame) -> pl.DataFrame:
    """The lines, those that are no record cut where one ends: two writers may share a file."""
    apart = broken.with_columns(
        pl.Series("text", [document.apart(one) for one in broken.get_column("text")])
    ).explode("text")
    whole = frame.join(broken, on="line", how="anti")
    return pl.concat([whole, apart]).sort("line", maintain_order=True)


def _arguments(
    db: duckdb.DuckDBPyConnection, parser: Parser, event: Event, kind: pl.DataFrame, parsed: Parsed
) -> None:
    """Every key of the record, or of the object inside it, as a row (key, value)."""
    path = f", '$.{event.inside}'" if event.inside else ""
    inner = f"json_extract(text, '$.{event.inside}')" if event.inside else "text"
    arms = ", ".join(f"json_extract_string(text, '$.{key}')" for key in parser.arm)
    db.register("records", Handover(kind))
    rows = db.sql(
        f"""SELECT line, key, json_extract_string({inner}, '$."' || key || '"') AS value,
            {f"concat_ws(' ', {arms})" if arms else "NULL::VARCHAR"} AS arm
            FROM (SELECT line, text, unnest(json_keys(text{path})) AS key FROM records)
            WHERE key NOT LIKE '%"%'"""
    )
    frame = pl.DataFrame(rows)
    if event.starts:
        parsed.starts += frame.get_column("line").unique().to_list()
    parsed.add(event.table, frame.drop_nulls("value"))


def project(
    db: duckdb.DuckDBPyConnection, parser: Parser, event: Event, kind: pl.DataFrame, parsed: Parsed
) -> None:
    """Read the event's fields from its records into `parsed`."""
    keys = shapes.keys(db, parser, event, kind)
    found = layout.of(parser, event, keys)
    if not found:
        return
    for key in found.unread:
        parsed.unread[event.table, key] += keys[key]
    db.register("records", Handover(kind))
    structure = layout.structure(found.leaves, found.mixed)
    frame = pl.DataFrame(db.sql(layout.query(found.columns, structure)))
    parsed.rows(event, _shortened(frame))


def _shortened(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists of integers take half the memory where all of them are short."""
    for one in frame.get_columns():
        if one.dtype == pl.List(pl.Int64):
            try:
                frame = frame.with_columns(one.cast(pl.List(pl.Int32)))
            except pl.exceptions.InvalidOperationError:
                continue
    return frame
