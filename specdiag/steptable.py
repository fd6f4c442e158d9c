"""Table step, filled while traces are read.

The lists of steps are most of what there is to store. They are copied once, from the frame of a
block to their place, and what is known only at the end (the run, which step is the last of its
request) is filled in beside them, by derive/02_steps.sql.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import duckdb
import polars as pl

from specdiag.shapes import Handover

ALWAYS = ("run", "source", "line", "nodes", "last")
# What steps are told apart by until their runs are known.
HELPERS = {"number": "BIGINT", "life": "INTEGER", "arm": "VARCHAR"}
# Where a trace lists depths of the nodes only but parents of all rows, row 0 is put in front.
FRONT = {"depths": "0", "node_tokens": "root"}


class Steps:
    """Table step. Columns that no frame has had so far are constants, and cost nothing."""

    def __init__(self, db: duckdb.DuckDBPyConnection, cast: Callable[[str, str], str]) -> None:
        """`cast` makes SQL that reads an expression as a type."""
        self.db = db
        self.cast = cast
        described = db.execute("DESCRIBE step").fetchall()
        self.types: dict[str, str] = {name: type for name, type, *_ in described} | HELPERS
        self.given: dict[str, str] = {}  # the columns that are none of these constants

    def add(self, frame: pl.DataFrame) -> None:
        """Add the rows of a frame."""
        found = {one.name: self._fitting(one) for one in frame.get_columns()}
        if not self.given:
            self._begin()
        wanted = {name: type for name, type in found.items() if type}
        self._admit(wanted)
        self.db.register("frame_step", Handover(frame))
        read = {name: self.cast(f'"{name}"', self.given[name]) for name in wanted}
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
        self.db.execute(
            f"INSERT INTO step BY NAME SELECT {_as(kept)} FROM (SELECT {_as(read)} FROM frame_step)"
        )
        self.db.unregister("frame_step")

    def finish(self) -> None:
        """Make what was added readable, also as raw.step."""
        if self.given:
            self.db.execute("COMMIT")
            self.db.execute("RESET threads")
        else:
            self._admit({})
        self.db.execute("CREATE VIEW raw.step AS FROM main.step")

    def _begin(self) -> None:
        # Several threads, and transactions of a block each, would fill pieces of their own and
        # copy them together: twice the work.
        self.db.execute("SET threads = 1")
        self.db.execute("BEGIN")

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


def _is_shorter(frame: pl.DataFrame, name: str) -> bool:
    """Whether any list of a column has one entry less than there are parents."""
    given = [one for one in (name, "parents") if isinstance(frame.schema.get(one), pl.List)]
    sizes = frame.select(pl.col(one).list.len().cast(pl.Int64) for one in given)
    return len(given) == 2 and bool((sizes[name] == sizes["parents"] - 1).any())


def _as(columns: Mapping[str, str]) -> str:
    return ", ".join(f'{value} AS "{name}"' for name, value in columns.items())
