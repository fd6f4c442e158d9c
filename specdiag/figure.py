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
    needs            tables, each maybe with a WHERE: without a row in one of them there is nothing
                     to draw, and the query is not asked
    x                { title, scale }: scale is linear (default), log, time or category
    y                the same; or rows = { part = { title, scale } } for several above each other
    draw, stack      what rows are if they do not say; whether bars stand on each other
    ordered          series and rows stay in the order of the query; else they are sorted

Beside the tables of the store it can read `cited` (finding, rule, title, severity, run, source,
line), the lines that findings cite, `shown` (run), the runs that there is room for, the tables
`what_*` of whatif/tables.py, and those of stops.sql. Of a run that is not among the shown a row or
two are enough: they say that it has something to draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from specdiag import bundled, space, stops
from specdiag.runs import in_order
from specdiag.series import DATA, KINDS, MOST_SERIES, Group, Series, series, table
from specdiag.store import Store
from specdiag.whatif import tables as whatif

__all__ = ["Axis", "Figure", "Series", "Sketch", "draw", "draw_all", "prepare", "sketches"]

RUNS = 24  # runs of a picture, where there are no more
FEW = 8  # where there are: as many as are told apart by their colour
PANELS = 6  # pictures of a kind

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
    kind: str = ""  # name of the sketch
    panel: str = ""  # which one of that kind, where there are several

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
    needs: tuple[str, ...] = ()


def sketches() -> list[Sketch]:
    """Every file of figures/, in the order of the page."""
    found = [_load(path) for path in sorted(bundled.FIGURES.glob("*.sql"))]
    return sorted(found, key=lambda one: (one.place, one.name))


def _load(path: Path) -> Sketch:
    sql = path.read_text(encoding="utf-8")
    data = bundled.header(sql)
    rows = data.pop("rows", None) or {"": data.pop("y")}
    parts = {name: Axis(**axis) for name, axis in rows.items()}
    return Sketch(path.stem, sql, x=Axis(**data.pop("x")), parts=parts,
                  needs=tuple(data.pop("needs", ())), **data)  # fmt: skip


def draw_all(
    store: Store, cited: Sequence[Mapping[str, Any]], order: Sequence[str], share: float = 1.0
) -> list[Figure]:
    """All pictures that have something to show.

    `cited` are rows for table cited, `order` the runs, the most interesting first, and `share` how
    many of the points that a picture may have are wanted.
    """
    prepare(store, cited)
    found: list[Figure] = []
    for sketch in sketches():
        found += space.patiently(store.db, partial(draw, store.db, sketch, order, share))
    return found


def prepare(store: Store, cited: Sequence[Mapping[str, Any]]) -> None:
    """The tables that sketches read beside those of the store."""
    table(store.db, "cited", _CITED, [tuple(row[name] for name in _CITED) for row in cited])
    store.db.execute("CREATE OR REPLACE TEMP TABLE shown AS SELECT run FROM run")
    whatif.fill(store)
    stops.fill(store, most=whatif.STEPS)


def draw(
    db: duckdb.DuckDBPyConnection, sketch: Sketch, order: Sequence[str], share: float = 1.0
) -> list[Figure]:
    """The pictures of a sketch: one a panel, none where there is nothing to show."""
    foremost = list(order[: RUNS if len(order) <= RUNS else FEW])
    db.execute(
        "CREATE OR REPLACE TEMP TABLE shown AS SELECT run FROM run WHERE list_contains(?, run)",
        [foremost],
    )
    if not _collect(db, sketch):
        return []
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
    kept = {*foremost, None}
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
            chosen[name] = groups[:MOST_SERIES]
    made = series(db, list(chosen.values()), share, sketch.ordered)
    return [
        Figure(
            name=f"{sketch.name}-{name}" if name else sketch.name,
            title=f"{sketch.title}: {name}" if name else sketch.title,
            tells=sketch.tells, x=sketch.x,
            parts={part: axis for part, axis in sketch.parts.items()
                   if any(one.part == part and one.draw in DATA for one in groups)},
            stack=sketch.stack, series=[made[one] for one in groups], sql=sketch.sql,
            kind=sketch.name, panel=name,
            left_out=sorted({one.run for one in panels[name] if one not in made and one.run},
                            key=in_order)
            + ([other for other in names if other not in chosen] if nth == 0 else []),
        )
        for nth, (name, groups) in enumerate(chosen.items())
    ]  # fmt: skip


# To twelve digits: the order in which threads add up a mean must not decide which points are drawn.
_ROUNDED = """coalesce(
    round({0}, greatest(11 - TRY_CAST(floor(log10(abs(nullif({0}, 0)))) AS INTEGER), 3)), {0})"""


def _collect(db: duckdb.DuckDBPyConnection, sketch: Sketch) -> bool:
    """Table picture: the rows of the sketch that can be drawn, with all columns; if it has any."""
    known = " OR ".join(f"EXISTS (FROM {rows})" for rows in sketch.needs)
    if known and not db.execute(f"SELECT {known}").fetchall()[0][0]:
        return False
    db.execute(f"CREATE OR REPLACE TEMP TABLE sketch AS {sketch.sql}")
    if not db.execute("FROM sketch LIMIT 1").fetchall():
        return False
    given = {row[0]: row[1] for row in db.execute("DESCRIBE sketch").fetchall()}
    types = _OPTIONAL | {"x": "VARCHAR" if sketch.x.scale == "category" else "DOUBLE"}
    columns = {name: f"{name if name in given else 'NULL'}::{types[name]}" for name in types}
    for name in ("x", "y", "low", "high"):
        if given.get(name, "").startswith("TIMESTAMP"):
            columns[name] = f"(epoch_us({name}) / 1000)::DOUBLE"
        elif types[name] == "DOUBLE" and name in given:
            columns[name] = _ROUNDED.format(columns[name])
    for name in ("panel", "series", "part"):
        columns[name] = f"coalesce({columns[name]}, '')"
    columns["draw"] = f"coalesce(draw, '{sketch.draw}')" if "draw" in given else f"'{sketch.draw}'"
    selected = ", ".join(f"{column} AS {name}" for name, column in columns.items())
    logs = [part for part, axis in sketch.parts.items() if axis.scale == "log"]
    place = {"category": "nth", "log": "CASE WHEN x > 0 THEN ln(x) END"}.get(sketch.x.scale, "x")
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE picture AS
        SELECT *, {place} AS place
        FROM (SELECT run, {selected}, row_number() OVER () AS nth FROM sketch)
        WHERE (draw = 'level' OR coalesce(isfinite({place}), false))
            AND (draw IN ('mark', 'shade') OR coalesce(isfinite(y), false))
            AND (draw <> 'shade' OR coalesce(isfinite(high), false))
            AND (y > 0 OR y IS NULL OR NOT list_contains(?, part))""",
        [logs],
    )
    return True
