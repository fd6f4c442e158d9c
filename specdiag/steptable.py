"""Table step, filled while traces are read.

The lists of steps are most of what there is to store. They are copied once, from the frame of a
block to their place, and what is known only at the end (the run, which step is the last of its
request) is filled in beside them, by derive/02_steps.sql.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import duckdb
import polars as pl

from specdiag import space
from specdiag.shapes import Handover

ALWAYS = ("run", "source", "line", "nodes", "commit_len", "step_ms", "last")
# What steps are told apart by until their runs are known.
HELPERS = {"number": "BIGINT", "life": "INTEGER", "arm": "VARCHAR"}
ROWS = 122_880  # a group of rows in DuckDB: fewer are copied twice
BYTES = 96 << 20  # of frames that wait; twice as much as usual trees of so many steps take
# Where a trace lists depths of the nodes only but parents of all rows, row 0 is put in front.
FRONT = {"depths": "0", "node_tokens": "root"}
# A list of rows that is filled up to a fixed length with -1, as kernels return it.
FILLED = """accepted[:len(accepted) - coalesce(list_position(
    list_transform(list_reverse(accepted), lambda one: one >= 0), true) - 1, len(accepted))]"""


class Steps:
    """Table step. Columns that no frame has had so far are constants, and cost nothing."""

    def __init__(
        self, db: duckdb.DuckDBPyConnection, cast: Callable[[pl.DataFrame, str, str], str],
        make_room: Callable[[], None],
    ) -> None:  # fmt: skip
        """`cast` makes SQL that reads a frame's column as a type; `make_room` is for many rows."""
        self.db = db
        self.cast = cast
        self.make_room = make_room
        described = db.execute("DESCRIBE step").fetchall()
        self.types: dict[str, str] = {name: type for name, type, *_ in described} | HELPERS
        self.given: dict[str, str] = {}  # the columns that are none of these constants
        self.waiting: list[pl.DataFrame] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add the rows of a frame, now or with later ones."""
        if frame.height:
            self.waiting.append(frame)
        rows = sum(one.height for one in self.waiting)
        if rows >= ROWS or sum(one.estimated_size() for one in self.waiting) >= BYTES:
            self.make_room()
            self._store()

    def finish(self) -> None:
        """Make what was added readable."""
        self._store()
        if not self.given:
            self._admit({})

    def _store(self) -> None:
        frames, self.waiting = self.waiting, []
        if not frames:
            return
        # Several threads would fill pieces of their own and copy them together: twice the work.
        ((threads,),) = self.db.execute("SELECT current_setting('threads')").fetchall()
        self.db.execute("SET threads = 1")
        for alike in _runs(frames):
            self._insert(pl.concat(alike, rechunk=False))
        self.db.execute(f"SET threads = {threads}")

    def _insert(self, frame: pl.DataFrame) -> None:
        wanted = {one.name: type for one in frame.get_columns() if (type := self._fitting(one))}
        self._admit(wanted)
        read = {name: self.cast(frame, name, self.given[name]) for name in wanted}
        for name in ("parents", "root", "nodes", "finish"):
            read.setdefault(name, f"NULL::{self.types[name]}")
        kept = {name: f'"{name}"' for name in wanted} | {
            "nodes": "CASE WHEN parents IS NOT NULL THEN len(parents) - 1 ELSE nodes END",
            "last": "finish IS NOT NULL",
        }
        for name in FRONT:
            if _is_shorter(frame, name):
                kept[name] = f"""CASE WHEN len({name}) = len(parents) - 1
                    THEN list_concat([{FRONT[name]}], {name}) ELSE {name} END"""
        if _is_filled(frame):
            kept["accepted"] = FILLED
        if _begins_below_root(frame):
            path = kept["accepted"]
            kept["accepted"] = f"list_concat([0], {path})"
        self.db.register("frame_step", Handover(frame))
        rows = f"SELECT {_as(kept)} FROM (SELECT {_as(read)} FROM frame_step)"
        space.patiently(self.db, lambda: self.db.execute(f"INSERT INTO step BY NAME {rows}"))
        self.db.unregister("frame_step")

    def _fitting(self, one: pl.Series) -> str:
        """The type of a frame's column here; lists of short integers stay as they are."""
        type = self.types.get(one.name, "")
        return "INTEGER[]" if type == "BIGINT[]" and one.dtype == pl.List(pl.Int32) else type

    def _admit(self, wanted: dict[str, str]) -> None:
        """Give the table the columns and the widths that a frame needs."""
        always = {name: self.types[name] for name in (*ALWAYS, *HELPERS)}
        if not self.given or wanted.keys() - self.given.keys():
            self._create(always | wanted | self.given)
        for name, type in wanted.items():
            if type != self.given[name] and self.given[name] == "INTEGER[]":
                self.db.execute(f'ALTER TABLE step ALTER "{name}" TYPE {type}')
                self.given[name] = type

    def _create(self, given: dict[str, str]) -> None:
        columns = ", ".join(
            f'"{name}" {given[name]}'
            if name in given
            else f'"{name}" {type} GENERATED ALWAYS AS (NULL::{type})'
            for name, type in self.types.items()
        )
        self.db.execute(f"CREATE TABLE wider_step ({columns})")
        if self.given:
            names = ", ".join(f'"{name}"' for name in self.given)
            self.db.execute(f"INSERT INTO wider_step BY NAME SELECT {names} FROM step")
        self.db.execute("DROP TABLE step")
        self.db.execute("ALTER TABLE wider_step RENAME TO step")
        self.given = given


def _runs(frames: list[pl.DataFrame]) -> Iterator[list[pl.DataFrame]]:
    """The frames, those together that have the same columns and follow each other."""
    for _, found in itertools.groupby(frames, key=lambda one: one.schema):
        yield list(found)


def _is_shorter(frame: pl.DataFrame, name: str) -> bool:
    """Whether any list of a column has one entry less than there are parents."""
    given = [one for one in (name, "parents") if isinstance(frame.schema.get(one), pl.List)]
    sizes = frame.select(pl.col(one).list.len().cast(pl.Int64) for one in given)
    return len(given) == 2 and bool((sizes[name] == sizes["parents"] - 1).any())


def _is_filled(frame: pl.DataFrame) -> bool:
    """Whether any list of accepted rows ends with a number of no row."""
    given = isinstance(frame.schema.get("accepted"), pl.List)
    return given and bool((frame.get_column("accepted").list.last() < 0).any())


def _begins_below_root(frame: pl.DataFrame) -> bool:
    """Whether the accepted rows are those of the drafts: the root is a row, and on no path."""
    lists = all(isinstance(frame.schema.get(one), pl.List) for one in ("accepted", "parents"))
    counted = next((one for one in ("commit_len", "accepted_depth") if one in frame.columns), None)
    if not lists or counted is None:
        return False
    path, drafts = pl.col("accepted").list, pl.col(counted) - (counted == "commit_len")
    paths = frame.filter(path.len() > 0, pl.col("parents").list.first() < 0)
    return paths.height > 0 and bool(
        paths.select(~path.contains(0).any() & (path.len() == drafts).mean().gt(0.5)).item()
    )


def _as(columns: Mapping[str, str]) -> str:
    return ", ".join(f'{value} AS "{name}"' for name, value in columns.items())
