"""A picture: a SQL file whose leading comment is TOML, applied to the store, without a drawing.

Every row that comes back is something to draw. Its columns:

    run              whose it is; of a mark or a shade it may be NULL
    x, y             place; times are TIMESTAMPs, categories are text
    draw             point, line, bar, mark (a vertical line at x), level (a horizontal one at y) or
                     shade (from x to high); default: that of the header
    series           name of what belongs together beside the run; a run without has one series
    low, high        an interval around y
    label            what a mark, a level or a point is
    part             which of the header's `rows` it belongs to
    panel            pictures of one kind, side by side
    source, line     its place in a file: a row that a finding cites is flagged and never left out

The header:

    title, tells     what it shows, and how to read it
    place            order on the page
    x                { title, scale }: scale is linear (default), log, time or category
    y                the same; or rows = { part = { title, scale } } for several above each other
    draw, stack      what rows are if they do not say; whether bars stand on each other

Beside the tables of the store it can read `cited` (finding, rule, title, severity, run, source,
line): the lines that findings cite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from specdiag import bundled
from specdiag.store import Store

MOST = 4000  # points of a series
PICTURE = 12_000  # points of a picture, all series together
RUNS = 24  # runs of a picture
PANELS = 6  # pictures of a kind

KINDS = ("point", "line", "bar", "mark", "level", "shade")
_OWN = {
    "panel": "''", "series": "NULL", "part": "''", "low": "NULL", "high": "NULL", "label": "NULL",
    "source": "NULL", "line": "NULL", "y": "NULL",
}  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """A direction of a picture."""

    title: str
    scale: str = (
        "linear"  # linear, log, time (milliseconds since 1970, the log's own clock), category
    )


@dataclass(frozen=True)
class Series:
    """What is drawn in one way: columns of equal length."""

    run: str | None
    name: str
    part: str
    draw: str
    x: list[Any]
    y: list[float]
    low: list[float | None]
    high: list[float | None]
    label: list[str | None]
    flags: dict[int, list[str]]  # place in the columns -> findings that cite it
    rows: int  # before it was thinned out


@dataclass(frozen=True)
class Figure:
    """A picture with its data."""

    name: str
    title: str
    tells: str
    x: Axis
    parts: dict[str, Axis]  # vertical axes, the upper one first
    stack: bool
    series: list[Series]
    sql: str
    left_out: list[str] = field(default_factory=list)  # runs and panels that are not drawn

    @property
    def thinned(self) -> bool:
        return any(one.rows > len(one.x) for one in self.series)

    @property
    def findings(self) -> list[str]:
        return list(
            dict.fromkeys(
                name for one in self.series for names in one.flags.values() for name in names
            )
        )


@dataclass(frozen=True)
class Sketch:
    """A figure before it has data: a file of figures/."""

    name: str
    sql: str
    title: str
    tells: str
    place: int
    x: Axis
    parts: dict[str, Axis]
    draw: str = "point"
    stack: bool = False


def sketches() -> list[Sketch]:
    """Every file of figures/, in the order of the page."""
    found = [_load(path) for path in sorted(bundled.FIGURES.glob("*.sql"))]
    return sorted(found, key=lambda one: (one.place, one.name))


def _load(path: Path) -> Sketch:
    sql = path.read_text(encoding="utf-8")
    data = bundled.header(sql)
    rows = data.pop("rows", None) or {"": data.pop("y")}
    parts = {name: Axis(**axis) for name, axis in rows.items()}
    return Sketch(path.stem, sql, x=Axis(**data.pop("x")), parts=parts, **data)


def draw_all(
    store: Store, cited: Sequence[Mapping[str, Any]], order: Sequence[str], share: float = 1.0
) -> list[Figure]:
    """All pictures that have something to show.

    `cited` are rows for table cited, `order` the runs, the most interesting first, and `share` how
    many of the points that a picture may have are wanted.
    """
    columns = ("finding", "rule", "title", "severity", "run", "source", "line")
    unnested = ", ".join(
        f"unnest(?::{'BIGINT' if name in ('source', 'line') else 'VARCHAR'}[]) AS {name}"
        for name in columns
    )
    store.db.execute(
        f"CREATE OR REPLACE TEMP TABLE cited AS SELECT {unnested}",
        [[row[name] for row in cited] for name in columns],
    )
    return [
        figure for sketch in sketches() for figure in draw(store.db, sketch, order, share)
    ]  # fmt: skip


def draw(
    db: duckdb.DuckDBPyConnection, sketch: Sketch, order: Sequence[str], share: float = 1.0
) -> list[Figure]:
    """The pictures of a sketch: one a panel, none where there is nothing to show."""
    _collect(db, sketch)
    panels: dict[str, list[tuple[Any, ...]]] = {}
    place = {run: n for n, run in enumerate(order)}
    kept = set(order[:RUNS]) | {None}
    series = db.execute(
        """SELECT panel, run, series, part, draw, count(*) FROM picture GROUP BY ALL
        HAVING draw IN ('mark', 'level', 'shade') OR count(y) > 0"""
    ).fetchall()
    for row in series:
        panels.setdefault(row[0], []).append(row)
    # A panel is as interesting as the best run in it; marks alone are no picture.
    names = sorted(
        (name for name, rows in panels.items() if any(row[4] in KINDS[:3] for row in rows)),
        key=lambda name: (min(place.get(row[1], len(place)) for row in panels[name]), name),
    )
    figures = []
    for name in names[:PANELS]:
        rows = sorted(
            (row for row in panels[name] if row[1] in kept),
            key=lambda row: (place.get(row[1], len(place)), KINDS.index(row[4]), row[2] or "", row[3]),
        )  # fmt: skip
        most = max(60, min(MOST, int(share * PICTURE) // max(1, len(rows))))
        found = [_series(db, row, most) for row in rows]
        shown = {row[1] for row in rows}
        left = [row[1] for row in panels[name] if row[1] not in shown and row[1] is not None]
        figures.append(
            Figure(
                name=f"{sketch.name}-{name}" if name else sketch.name,
                title=f"{sketch.title}: {name}" if name else sketch.title,
                tells=sketch.tells, x=sketch.x,
                parts={part: axis for part, axis in sketch.parts.items()
                       if any(one.part == part and one.draw in KINDS[:3] for one in found)},
                stack=sketch.stack, series=found, sql=sketch.sql,
                left_out=sorted(set(left)) + (names[PANELS:] if name == names[0] else []),
            )
        )  # fmt: skip
    return figures


def _collect(db: duckdb.DuckDBPyConnection, sketch: Sketch) -> None:
    """Table picture: the rows of the sketch with all columns, and what cites them."""
    described = db.execute(f"DESCRIBE {sketch.sql}").fetchall()
    given = {row[0] for row in described}
    timed = {row[0] for row in described if row[1].startswith("TIMESTAMP")}
    columns = {name: name if name in given else default for name, default in _OWN.items()}
    columns |= {name: f"epoch_ms({name})" for name in ("x", "high") if name in timed}
    drawn = f"coalesce(draw, '{sketch.draw}')" if "draw" in given else f"'{sketch.draw}'"
    kind = "VARCHAR" if sketch.x.scale == "category" else "DOUBLE"
    top = columns["high"]
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE picture AS
        SELECT coalesce({columns["panel"]}, '') AS panel, run, coalesce({columns["series"]}, '') AS series,
            coalesce({columns["part"]}, '') AS part, {drawn} AS draw,
            {columns.get("x", "x")}::{kind} AS x, {columns["y"]}::DOUBLE AS y,
            {columns["low"]}::DOUBLE AS low, {top}::DOUBLE AS high, {columns["label"]}::VARCHAR AS label,
            {columns["source"]}::BIGINT AS source, {columns["line"]}::BIGINT AS line
        FROM ({sketch.sql})"""
    )
    usable = "true" if kind == "VARCHAR" else "isfinite(x)"
    if sketch.x.scale == "log":
        usable += " AND x > 0"
    logs = [part for part, axis in sketch.parts.items() if axis.scale == "log"]
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE picture AS FROM picture
        WHERE CASE draw WHEN 'level' THEN isfinite(y) WHEN 'mark' THEN x IS NOT NULL AND {usable}
              WHEN 'shade' THEN {usable} AND isfinite(high)
              ELSE x IS NOT NULL AND {usable} AND isfinite(y) AND (y > 0 OR NOT list_contains($logs, part)) END""",
        {"logs": logs},
    )


def _series(db: duckdb.DuckDBPyConnection, key: tuple[Any, ...], most: int) -> Series:
    """The rows of a series, thinned out where they are too many."""
    panel, run, name, part, draw, rows = key
    mine = """panel = $panel AND run IS NOT DISTINCT FROM $run AND series = $series
        AND part = $part AND draw = $draw"""
    named = {"panel": panel, "run": run, "series": name, "part": part, "draw": draw}
    flagged = """SELECT p.*, c.findings FROM picture p
        LEFT JOIN (SELECT source, line, run, list_sort(list(DISTINCT finding)) AS findings FROM cited GROUP BY ALL) c
        ON c.source = p.source AND c.line = p.line"""
    kept = f"SELECT x, y, low, high, label, findings FROM ({flagged}) WHERE {mine}"
    if rows > most:
        # The lowest and the highest of every stretch, so that no peak is lost.
        named["buckets"] = max(1, most // 2 - 1)
        kept = f"""WITH mine AS ({kept}),
        cut AS (SELECT *, row_number() OVER (ORDER BY x, y) * $buckets // (count(*) OVER () + 1) AS bucket FROM mine)
        SELECT x, y, low, high, label, findings FROM cut
        WHERE findings IS NOT NULL OR x = (SELECT max(x) FROM cut)
        UNION ALL
        SELECT unnest(ends, recursive := true) FROM (
            SELECT [arg_min(struct_pack(x, y, low, high, label, findings), y), arg_max(struct_pack(x, y, low, high, label, findings), y)] AS ends
            FROM cut WHERE findings IS NULL GROUP BY bucket)"""
        kept = f"SELECT DISTINCT x, y, low, high, label, findings FROM ({kept})"
    order = "" if draw == "bar" else "ORDER BY x, y, label"
    found = db.execute(f"{kept} {order}", named).fetchall()
    return Series(
        run, name, part, draw,
        [_short(row[0]) for row in found], [_short(row[1]) for row in found],
        [_short(row[2]) for row in found], [_short(row[3]) for row in found],
        [row[4] for row in found],
        {n: row[5] for n, row in enumerate(found) if row[5]},
        rows,
    )  # fmt: skip


def _short(value: Any) -> Any:
    """A figure with as many digits as can be seen in a picture; times to the millisecond."""
    if not isinstance(value, float):
        return value
    return round(value) if abs(value) >= 100_000 else float(f"{value:.5g}")
