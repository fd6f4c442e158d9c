"""What a block of records holds, before anything is read from it: kinds, keys, broken records.

A record is parsed once for its keys and, in formats of several kinds, once for its marks. Records
of one program have few sets of keys, so these are told apart by a number, and one record of each
set is asked for its names.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import duckdb
import polars as pl

from specdiag.parser import Event, Parser


class Handover:
    """A frame that DuckDB scans in place: only this method, or it would ask for pyarrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        # As a structure it goes out piece by piece; polars would copy a frame's pieces together.
        self.rows = frame.to_struct("")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)  # DuckDB asks more than once


@dataclass(frozen=True)
class Records:
    """Valid records: `line`, `text`, `keys` (equal where the key sets are), and their marks."""

    frame: pl.DataFrame
    broken: pl.DataFrame  # the others: line, text

    def kind(self, event: Event) -> pl.DataFrame:
        """The records that an event is about."""
        marks = [pl.col(_mark(key)) == str(value) for key, value in event.where.items()]
        return self.frame.filter(*marks) if marks else self.frame


def look(db: duckdb.DuckDBPyConnection, parser: Parser, frame: pl.DataFrame) -> Records:
    """The records of a frame of lines (line, text)."""
    paths = sorted({path for event in parser.events for path in inner(parser, event)})
    marks = sorted({key for event in parser.events for key in event.where} | _version(parser))
    columns = [f"TRY(hash(json_keys(text, {_list(['', *paths])}))) AS keys"]
    if marks:
        columns.append(f"TRY(json_extract_string(text, {_list(marks)})) AS marks")
    db.register("lines", Handover(frame))
    seen = pl.DataFrame(db.sql(f"SELECT {', '.join(columns)} FROM lines"))
    seen = frame.with_columns(
        seen.get_column("keys"),
        *(seen.get_column("marks").list.get(at).alias(_mark(k)) for at, k in enumerate(marks)),
    )
    valid = pl.col("keys").is_not_null() & pl.col("text").str.contains("{", literal=True)
    found = seen.filter(valid)
    if found.height == seen.height:
        return Records(seen, frame.clear())
    return Records(found, seen.filter(~valid).select("line", "text"))


def within(
    db: duckdb.DuckDBPyConnection, parser: Parser, event: Event, frame: pl.DataFrame
) -> pl.DataFrame:
    """The records that stand in lists inside of others, each on the line of the outer one."""
    if not event.each or not frame.height:
        return frame
    paths = _list(["", *sorted(inner(parser, event))])
    beside = "".join(
        f", '{one}', json_extract(whole, '$.{one}[' || nth || ']')" for one in event.beside
    )
    for level, each in enumerate(event.each):
        names = each.split("|")
        found = ", ".join(
            f"json_extract(text, '$.{path}')" if path else "[text::JSON]" for path in names
        )
        without = json.dumps(
            {path.partition("[")[0]: None for path in names if path and "." not in path}
        )
        whole = f"json_merge_patch(text, '{without}')" if level else "NULL"
        one = "json_merge_patch(whole, one)" if level else "one"
        db.register("outer_records", Handover(frame.select("line", "text")))
        rows = db.sql(
            f"""SELECT line, text::VARCHAR AS text, hash(json_keys(text, {paths})) AS keys
                FROM (SELECT line, {one} AS text FROM (
                    SELECT line, whole, CASE json_type(one) WHEN 'OBJECT' THEN one
                        ELSE json_object('nth', nth, 'value', one{beside}) END AS one
                    FROM (SELECT line, {whole} AS whole, unnest(found) AS one,
                            unnest(range(len(found))) AS nth
                        FROM (SELECT line, text, flatten([{found}]) AS found FROM outer_records))
                    WHERE json_type(one) IN ('OBJECT', 'UBIGINT', 'BIGINT', 'DOUBLE')))"""
        )
        frame = pl.DataFrame(rows)
    return frame


def too_new(parser: Parser, records: Records) -> str:
    """Why the records cannot be read, if a later specdiag wrote them."""
    if not parser.version:
        return ""
    key, supported = parser.version
    versions = records.frame.get_column(_mark(key)).unique()
    found = versions.cast(pl.Float64, strict=False).max()
    if not isinstance(found, float) or found < supported + 1:
        return ""
    return f"{key} version {found:g} is newer than {supported}, the one read here"


def keys(
    db: duckdb.DuckDBPyConnection, parser: Parser, event: Event, frame: pl.DataFrame
) -> Counter[str]:
    """Every key path of the records down to where fields may be, and on how many lines it is."""
    sets = frame.group_by("keys").agg(pl.len().alias("lines"), pl.col("text").first())
    db.register("sets", Handover(sets))
    paths = ["", *sorted(inner(parser, event))]
    rows = db.execute(
        f"""SELECT path, key, sum(lines)::BIGINT FROM (
            SELECT lines, path, unnest(names) AS key FROM (
            SELECT lines, unnest(range({len(paths)})) AS path,
                unnest(json_keys(text, {_list(paths)})) AS names FROM sets)) GROUP BY path, key"""
    ).fetchall()
    found: Counter[str] = Counter()
    for at, key, count in rows:
        found[f"{paths[at]}.{key}" if paths[at] else key] += count
    return found


def inner(parser: Parser, event: Event) -> set[str]:
    """The objects inside a record that may hold fields of an event."""
    roots = [root for root in parser.roots if root]
    paths = {*roots}
    paths |= {name.rpartition(".")[0] for one in event.fields for name in one.names if "." in name}
    paths |= {f"{root}.{path}" for root in roots for path in paths if path != root}
    return paths | {path for kept in event.rest for path in kept.inside}


def _version(parser: Parser) -> set[str]:
    return {parser.version[0]} if parser.version else set()


def _mark(key: str) -> str:
    return f"mark {key}"


def _list(paths: list[str]) -> str:
    return f"[{', '.join(map(_path, paths))}]"


def _path(path: str) -> str:
    return f"'$.{path}'" if path else "'$'"
