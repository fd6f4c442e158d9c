"""The rows of table picture as series, thinned out where a picture cannot show them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb

MOST = 2000  # points of a series: two for every pixel of a picture, and more to look closer
FEWEST = 30  # points that a series has room for however many there are
PICTURE = 6000  # points of a picture, all series together
MOST_SERIES = PICTURE // FEWEST

KINDS = ("point", "line", "bar", "mark", "level", "shade")
DATA = KINDS[:3]  # without one of these there is nothing to show
THIN = Path(__file__).with_suffix(".sql")
WHOLE = Path(__file__).with_name("series_whole.sql")  # the same where there is nothing to thin out


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
class Group:
    """Rows of table picture that become a series."""

    panel: str
    run: str | None
    series: str
    part: str
    draw: str
    rows: int
    low: float | None  # extent along x
    high: float | None
    first: int  # place of the first row in the query


def series(
    db: duckdb.DuckDBPyConnection, pictures: Sequence[list[Group]], share: float, ordered: bool
) -> dict[Group, Series]:
    """The rows of these groups, thinned out where there are too many, in one query.

    Each of `pictures` has room for a `share` of PICTURE points; `ordered` rows stay as they are.
    """
    groups = [one for members in pictures for one in members]
    wanted: list[tuple[Any, ...]] = []
    for members in pictures:
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
    table(db, "wanted", names, wanted)
    sort = "nth" if ordered else "x, y, label, low, high, source, line"
    query = WHOLE if all(row[names.index("most")] is None for row in wanted) else THIN
    rows = db.execute(f"{query.read_text(encoding='utf-8')} ORDER BY group_nth, {sort}").fetchall()
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


def table(
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


def _short(value: Any) -> Any:
    """A figure with as many digits as can be seen in a picture; times to the millisecond."""
    if not isinstance(value, float):
        return value
    return round(value) if abs(value) >= 100_000 else float(f"{value:.5g}")
