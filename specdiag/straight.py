"""Blocks whose records all look alike, parsed once.

To look at the keys of a record takes as long as to read it. So the keys of a block's first records
are taken for those of all of them, the block is read, and then it is counted whether that was true:
every key is one `":` in the text, and every known key that a record has is one value. Where the
sums differ, for whatever reason, nothing was read.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import polars as pl

from specdiag import layout, shapes
from specdiag.layout import Layout
from specdiag.parser import Parsed, Parser
from specdiag.shapes import Handover

HEAD = 50  # records whose keys are looked at
MOST_KEYS = 200
BITS = 60  # keys that one number tells of
MOST_NULLS = 6  # keys that are looked for in the text, because their values may be null


@dataclass(frozen=True)
class Known:
    """How the records of a block were read."""

    parser: Parser
    layout: Layout
    leaves: dict[str, str]  # path -> type, of all keys
    places: tuple[str, ...]  # these and the objects that they are in
    sql: str


@dataclass
class _Latest:
    """What worked last, of all threads: their blocks are mostly of one file."""

    known: Known | None = None


_latest = _Latest()


def read(
    db: duckdb.DuckDBPyConnection, parser: Parser, frame: pl.DataFrame, parsed: Parsed
) -> bool:
    """Whether all records of a frame (line, text) could be read into `parsed`."""
    if len(parser.events) > 1 or parser.version or not frame.height:
        return False
    known = _latest.known
    if known and known.parser is parser:
        if _read(db, known, frame, parsed):
            return True
        tried = known.sql
    else:
        tried = ""
    known = _learned(db, parser, frame.head(HEAD))
    if known and not _read(db, known, frame.head(HEAD), Parsed()):
        known = None
    _latest.known = known
    return known is not None and known.sql != tried and _read(db, known, frame, parsed)


def _learned(db: duckdb.DuckDBPyConnection, parser: Parser, head: pl.DataFrame) -> Known | None:
    (event,) = parser.events
    if event.style != "record" or event.where or event.each:
        return None
    records = shapes.look(db, parser, head)
    keys = shapes.keys(db, parser, event, records.frame)
    found = layout.of(parser, event, keys) if len(keys) <= MOST_KEYS else None
    if found is None or found.mixed or records.broken.height:
        return None
    places = {place for leaf in found.leaves for place in (leaf, *layout.parents(leaf))}
    others = [key for key in keys if key not in places]
    spelled = {place.lower() for place in (*places, *others)}
    inside = {parent for key in others for parent in layout.parents(key)}
    if len(spelled) < len(places) + len(others) or inside or not all(map(_plain, spelled)):
        return None
    leaves = found.leaves | dict.fromkeys(others, "json")
    names = tuple(sorted({*places, *others}))
    columns = [*found.columns, *_given(names), _nested(leaves)]
    sql = layout.query(columns, layout.structure(leaves, short=True))
    return Known(parser, found, leaves, names, sql)


def _plain(path: str) -> bool:
    return all(path.split(".")) and '"' not in path and "\\" not in path


def _given(places: tuple[str, ...]) -> list[str]:
    """Columns: numbers whose bits tell which values a record has."""
    columns = []
    for first in range(0, len(places), BITS):
        bits = " + ".join(
            f"(({layout.access(place)} IS NOT NULL)::BIGINT << {bit})"
            for bit, place in enumerate(places[first : first + BITS])
        )
        columns.append(f'{bits} AS "given {first}"')
    return columns


def _nested(leaves: dict[str, str]) -> str:
    """A column: how many keys are inside of values that are kept as they are."""
    kept = [
        f"coalesce({layout.access(one)}::VARCHAR, '')"
        for one, type in leaves.items()
        if type == "json"
    ]
    counts = [f"(strlen({one}) - strlen(replace({one}, '\":', ''))) // 2" for one in kept]
    return f'{" + ".join(counts) or "0"} AS "nested"'


def _read(db: duckdb.DuckDBPyConnection, known: Known, frame: pl.DataFrame, parsed: Parsed) -> bool:
    db.register("records", Handover(frame))
    try:
        rows = pl.DataFrame(db.sql(known.sql))
    except (duckdb.Error, pl.exceptions.ComputeError):  # a broken record, now or further on
        return False
    given = [column for column in rows.columns if column.startswith("given ")]
    sets = rows.group_by(given).agg(lines=pl.len())
    if sets.filter(pl.all_horizontal(pl.col(one) == 0 for one in given)).height:
        return False
    counts = _counts(known.places, sets)
    text = frame.get_column("text")
    keys = _occurs(text, '":') - rows.get_column("nested").sum()
    if keys != sum(counts.values()):
        counts = _with_nulls(counts, text)
        if not counts or keys != sum(counts.values()):
            return False
    rows = rows.drop(*given, "nested")
    if not all(counts[path] for path in known.layout.packed) or _gaps(rows):
        return False
    event = known.layout.event
    for key in known.layout.unread:
        parsed.unread[event.table, key] += counts[key]
    parsed.lines = parsed.understood = frame.height
    parsed.rows(event, rows)
    return True


def _counts(places: tuple[str, ...], sets: pl.DataFrame) -> dict[str, int]:
    """How many records have a value at each place."""
    bits = {
        place: pl.col(f"given {at - at % BITS}") // 2 ** (at % BITS) % 2
        for at, place in enumerate(places)
    }
    counts = sets.select((pl.col("lines") * bit).sum().alias(place) for place, bit in bits.items())
    return dict(counts.row(0, named=True))


def _with_nulls(counts: dict[str, int], text: pl.Series) -> dict[str, int]:
    """The counts with those of keys whose value is null, or none where that cannot be told."""
    names = [layout.last(place) for place in counts]
    less = [place for place, count in counts.items() if count < text.len()]
    if len(less) > MOST_NULLS or any(names.count(layout.last(place)) > 1 for place in less):
        return {}
    return counts | {place: _occurs(text, f'"{layout.last(place)}":') for place in less}


def _occurs(text: pl.Series, literal: str) -> int:
    return int(text.str.count_matches(literal, literal=True).sum())


def _gaps(rows: pl.DataFrame) -> bool:
    """Whether lists of integers have entries that are none, or too large for the short ones."""
    for one in rows.get_columns():
        entries = one
        while entries.dtype == pl.List:
            entries = entries.explode(empty_as_null=False, keep_nulls=False)
        if entries.dtype == pl.Int32 and entries is not one and entries.null_count():
            return True
    return False
