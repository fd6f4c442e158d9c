"""A picture: a SQL file whose leading comment is TOML, applied to the store, without a drawing.

Every row that comes back is something to draw. Its columns:

    run              whose it is; NULL: nobody's alone, like a bound or a shade
    x, y             place; times are TIMESTAMPs, categories are text
    draw             point, line, bar, mark (a vertical line at x), level (a horizontal one at y) or
                     shade (from x to high); default: that of the header
    series           name of what belongs together beside the run; a run without has one series
    low, high        an interval around y; of a shade high is the other end, times in ms
    label            what a mark, a level or a point is
    part             which of the header's `rows` it belongs to; NULL of a mark or a shade: to all
    panel            pictures of one kind, side by side
    source, line     its place in a file: a row that a finding cites is flagged and never left out

The header:

    title, tells     what it shows, and how to read it
    place            order on the page
    x                { title, scale }: scale is linear (default), log, time or category
    y                the same; or rows = { part = { title, scale } } for several above each other
    draw, stack      what rows are if they do not say; whether bars stand on each other
    ordered          series and rows stay in the order of the query; else they are sorted

Beside the tables of the store it can read `cited` (finding, rule, title, severity, run, source,
line), the lines that findings cite, the tables
`what_*` of whatif/tables.py, and those of stops.sql.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb

from specdiag import bundled, stops
from specdiag.store import Store
from specdiag.whatif import tables as whatif

MOST = 4000  # points of a series
FEWEST = 60  # points that a series has room for however many there are
PICTURE = 12_000  # points of a picture, all series together
RUNS = 24  # runs of a picture
PANELS = 6  # pictures of a kind

KINDS = ("point", "line", "bar", "mark", "level", "shade")
DATA = KINDS[:3]  # without one of these there is nothing to show
THIN = Path(__file__).with_suffix(".sql")

_CITED = ("finding", "rule", "title", "severity", "run", "source", "line")
_OPTIONAL = {
    "panel": "VARCHAR", "series": "VARCHAR", "part": "VARCHAR", "x": "", "y": "DOUBLE",
    "low": "DOUBLE", "high": "DOUBLE", "label": "VARCHAR", "source": "BIGINT", "line": "BIGINT",
}  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """A direction of a picture; times are milliseconds since 1970 in the log's own clock."""

    title: str
    scale: str = "linear"  # linear, log, time, category


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
        flags = (names for one in self.series for names in one.flags.values())
        return list(dict.fromkeys(name for names in flags for name in names))


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
    ordered: bool = False


@dataclass(frozen=True)
class Group:
    """Rows that become a series."""

    panel: str
    run: str | None
    series: str
    part: str
    draw: str
    rows: int
    low: float | None  # extent along x
    high: float | None
    first: int  # place of the first row in the query


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
    prepare(store, cited)
    return [one for sketch in sketches() for one in draw(store.db, sketch, order, share)]


def prepare(store: Store, cited: Sequence[Mapping[str, Any]]) -> None:
    """The tables that sketches read beside those of the store."""
    _table(store.db, "cited", _CITED, [tuple(row[name] for name in _CITED) for row in cited])
    whatif.fill(store)
    stops.fill(store, most=whatif.STEPS)


def _table(
    db: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str], rows: list[tuple[Any, ...]]
) -> None:
    """A temporary table of these rows; columns are text but for numbers known by their name."""
    numbers = {
        "source": "BIGINT", "line": "BIGINT", "nth": "BIGINT", "most": "BIGINT",
        "first": "DOUBLE", "reach": "DOUBLE",
    }  # fmt: skip
    lists = list(zip(*rows, strict=True)) or [()] * len(columns)
    wanted = ", ".join(f"unnest(?::{numbers.get(c, 'VARCHAR')}[]) AS {c}" for c in columns)
    db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {wanted}", [list(c) for c in lists])


def draw(
    db: duckdb.DuckDBPyConnection, sketch: Sketch, order: Sequence[str], share: float = 1.0
) -> list[Figure]:
    """The pictures of a sketch: one a panel, none where there is nothing to show."""
    _collect(db, sketch)
    found = db.execute(
        """SELECT panel, run, series, part, draw, count(*), min(place), max(place), min(nth)
        FROM picture GROUP BY ALL"""
    ).fetchall()
    place = {run: n for n, run in enumerate(order)}

    def interest(one: Group) -> int:
        return place.get(one.run or "", len(place))

    panels: dict[str, list[Group]] = {}
    for one in (Group(*row) for row in found):
        panels.setdefault(one.panel, []).append(one)
    # A panel is as interesting as the best run in it; marks alone are no picture.
    names = sorted(
        (name for name, groups in panels.items() if any(one.draw in DATA for one in groups)),
        key=lambda name: (min(map(interest, panels[name])), name),
    )
    kept = {*order[:RUNS], None}
    chosen: dict[str, list[Group]] = {}
    for name in names[:PANELS]:
        groups = sorted(
            (one for one in panels[name] if one.run in kept),
            key=lambda one: (
                interest(one), one.run or "", KINDS.index(one.draw),
                one.first if sketch.ordered else 0, one.series, one.part,
            ),
        )  # fmt: skip
        if any(one.draw in DATA for one in groups):
            chosen[name] = groups[: PICTURE // FEWEST]
    series = _series(db, chosen, share, sketch.ordered)
    return [
        Figure(
            name=f"{sketch.name}-{name}" if name else sketch.name,
            title=f"{sketch.title}: {name}" if name else sketch.title,
            tells=sketch.tells, x=sketch.x,
            parts={part: axis for part, axis in sketch.parts.items()
                   if any(one.part == part and one.draw in DATA for one in groups)},
            stack=sketch.stack, series=[series[one] for one in groups], sql=sketch.sql,
            left_out=sorted({one.run for one in panels[name] if one not in series and one.run})
            + ([other for other in names if other not in chosen] if nth == 0 else []),
        )
        for nth, (name, groups) in enumerate(chosen.items())
    ]  # fmt: skip


def _collect(db: duckdb.DuckDBPyConnection, sketch: Sketch) -> None:
    """Table picture: the rows of the sketch that can be drawn, with all columns."""
    given = {row[0]: row[1] for row in db.execute(f"DESCRIBE {sketch.sql}").fetchall()}
    types = _OPTIONAL | {"x": "VARCHAR" if sketch.x.scale == "category" else "DOUBLE"}
    columns = {name: f"{name if name in given else 'NULL'}::{types[name]}" for name in types}
    for name in ("x", "high"):
        if given.get(name, "").startswith("TIMESTAMP"):
            columns[name] = f"(epoch_us({name}) / 1000)::DOUBLE"
    for name in ("panel", "series", "part"):
        columns[name] = f"coalesce({columns[name]}, '')"
    columns["draw"] = f"coalesce(draw, '{sketch.draw}')" if "draw" in given else f"'{sketch.draw}'"
    selected = ", ".join(f"{column} AS {name}" for name, column in columns.items())
    logs = [part for part, axis in sketch.parts.items() if axis.scale == "log"]
    place = {"category": "nth", "log": "CASE WHEN x > 0 THEN ln(x) END"}.get(sketch.x.scale, "x")
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE picture AS
        SELECT *, {place} AS place
        FROM (SELECT run, {selected}, row_number() OVER () AS nth FROM ({sketch.sql}))
        WHERE (draw = 'level' OR coalesce(isfinite({place}), false))
            AND (draw IN ('mark', 'shade') OR coalesce(isfinite(y), false))
            AND (draw <> 'shade' OR coalesce(isfinite(high), false))
            AND (y > 0 OR y IS NULL OR NOT list_contains(?, part))""",
        [logs],
    )


def _series(
    db: duckdb.DuckDBPyConnection, chosen: Mapping[str, list[Group]], share: float, ordered: bool
) -> dict[Group, Series]:
    """The rows of these groups, thinned out where there are too many, in one query."""
    groups = [one for members in chosen.values() for one in members]
    wanted: list[tuple[Any, ...]] = []
    for members in chosen.values():
        most = max(FEWEST, min(MOST, int(share * PICTURE) // len(members)))
        for one in members:
            reach = (one.high or 0) - (one.low or 0)
            wanted.append(
                (len(wanted), one.panel, one.run, one.series, one.part, one.draw,
                 most if one.rows > most else None, one.low or 0, reach or 1)
            )  # fmt: skip
    if not wanted:
        return {}
    names = ("nth", "panel", "run", "series", "part", "draw", "most", "first", "reach")
    _table(db, "wanted", names, wanted)
    sort = "nth" if ordered else "x, y, label, low, high, source, line"
    rows = db.execute(f"{THIN.read_text(encoding='utf-8')} ORDER BY group_nth, {sort}").fetchall()
    found = {}
    for nth, mine in groupby(rows, key=lambda row: int(row[0])):
        one = groups[nth]
        _, x, y, low, high, label, findings = (
            list(column) for column in zip(*(row[:7] for row in mine), strict=True)
        )
        found[one] = Series(
            one.run, one.series, one.part, one.draw, [_short(value) for value in x],
            [_short(value) for value in y], [_short(value) for value in low],
            [_short(value) for value in high], label,
            {place: names for place, names in enumerate(findings) if names}, one.rows,
        )  # fmt: skip
    return found


def _short(value: Any) -> Any:
    """A figure with as many digits as can be seen in a picture; times to the millisecond."""
    if not isinstance(value, float):
        return value
    return round(value) if abs(value) >= 100_000 else float(f"{value:.5g}")
