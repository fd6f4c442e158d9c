"""A trace in Parquet: the same columns as its JSON records."""

from __future__ import annotations

from collections import Counter

from specdiag import records
from specdiag.parser import Event, Parsed, Parser
from specdiag.source import Source


def recognise(file: Source, parsers: list[Parser]) -> Parser | None:
    """The parser one of whose key lists the file's columns contain, the longest list first."""
    columns = set(_columns(file))
    best: tuple[int, Parser] | None = None
    for parser in parsers:
        for keys in parser.recognise if parser.format == "json" else ():
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
    event = _main(parser)
    try:
        columns = _columns(file)
        db.execute(
            "CREATE OR REPLACE TEMP TABLE block AS SELECT row_number() OVER () AS line, "
            "to_json(t)::VARCHAR AS text, true AS valid FROM read_parquet($1) t",
            [str(file.path)],
        )
    except Exception as error:
        parsed.refused = str(error).splitlines()[0]
        return parsed
    ((rows,),) = db.execute("SELECT count(*) FROM block").fetchall()
    parsed.lines = parsed.understood = rows
    keys = Counter(dict.fromkeys(columns, rows))
    keys += records.keys_of(db, "block", parser, event)
    records.project(db, parser, event, "block", keys, parsed)
    return parsed


def _main(parser: Parser) -> Event:
    return next(event for event in parser.events if event.table in ("step", "request", "benchmark"))


def _columns(file: Source) -> list[str]:
    db = records.connection()
    try:
        rows = db.execute(
            "SELECT name FROM parquet_schema($1) WHERE name <> 'schema'", [str(file.path)]
        ).fetchall()
    except Exception as error:
        file.warn(f"the Parquet file cannot be read: {str(error).splitlines()[0]}")
        return []
    return [name for (name,) in rows]
