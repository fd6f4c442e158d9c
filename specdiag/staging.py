"""The rows as parsed, readable by DuckDB, until every run is known."""

from __future__ import annotations

import duckdb
import polars as pl

from specdiag import space
from specdiag.definition import TABLES
from specdiag.shapes import Handover
from specdiag.steptable import Steps

DATA = TABLES
WAITING = tuple(table for table in TABLES if table != "step")
LARGEST, SMALLEST = 2**53, 1e-12  # other numbers are garbage, and what is computed of them, too
PLACE = ("source", "line", "time", "rank")  # what tables are joined by, which takes no constants
IN_ORDER = ("decode",)  # tables whose rows are put in the order of their lines
WAITING_ROWS = 130_000  # rows of a table that wait as frames: fewer would be small pieces on disk
WAITING_BYTES = 32 << 20  # the same where rows hold lists


class Staging:
    """Schema raw: the rows as parsed, numbered, with all columns of their table, life and arm.

    Few rows wait as frames and are scanned in place; many are put on disk on the way. Those of
    steps are put where they stay.
    """

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        self.db = db
        self.columns: dict[str, dict[str, str]] = {}
        self.steps = Steps(db, _cast, self._move)
        self.frames: dict[str, list[pl.DataFrame]] = {table: [] for table in WAITING}
        self.rows: dict[str, int] = dict.fromkeys(DATA, 0)
        self.filled: dict[str, set[str]] = {table: set() for table in WAITING}
        self.stored: dict[str, set[str]] = {}  # columns of the tables that are on disk
        self.moved = False
        for table in WAITING:
            described = db.execute(f"DESCRIBE {table}").fetchall()
            columns = {name: type for name, type, *_ in described if name != "run"}
            self.columns[table] = columns | {
                "number": "BIGINT",
                "life": "INTEGER",
                "arm": "VARCHAR",
            }

    def add(self, table: str, frame: pl.DataFrame) -> None:
        first = self.rows[table]
        self.rows[table] += frame.height
        numbers = pl.int_range(first, first + frame.height, eager=True)
        # As series: a constant stays one piece, and the pieces of a frame must be alike.
        frame = pl.DataFrame(frame.with_columns(numbers.alias("number")).get_columns())
        if table == "step":
            self.steps.add(frame)
            return
        known = self.columns[table]
        waiting = self.frames[table]
        kept = [
            one
            for one in frame.get_columns()
            if one.name in known and one.null_count() < frame.height
        ]
        self.filled[table].update(one.name for one in kept)
        if waiting and _many(waiting) and not _beside(waiting, frame):
            self._store(table)
        self.frames[table].append(pl.DataFrame(kept))

    def finish(self) -> None:
        """Make raw.TABLE readable for every table."""
        self.steps.finish()
        for table in WAITING:
            if self.frames[table] and (table in self.stored or _many(self.frames[table])):
                self._store(table)
        self.db.execute("CREATE SCHEMA raw")
        self.db.execute("CREATE VIEW raw.step AS FROM main.step")
        for table in WAITING:
            if table in self.stored:
                columns = ", ".join(
                    f"{_name(name) if name in self.stored[table] else f'NULL::{type}'} "
                    f"AS {_name(name)}"
                    for name, type in self.columns[table].items()
                )
                rows = f"SELECT {columns} FROM waiting.{table}"
            else:
                rows = self._select(table, list(self.columns[table]))
            self.db.execute(f"CREATE VIEW raw.{table} AS {rows}")

    def narrow(self, table: str, *derived: str) -> None:
        """Columns of a table that nothing fills become constants, but for those of its place.

        As columns of their own they take the time and the memory of full ones. The SQL that fills
        the table finds their names, and those of columns that are computed, in a variable.
        """
        kept = {*self.filled[table], *derived, *PLACE, "run"}
        columns, computed = [], []
        for name, type, formula in self.db.execute(
            """SELECT column_name, data_type, column_default FROM duckdb_columns()
               WHERE table_name = ? AND schema_name = 'main' AND database_name = current_database()
               ORDER BY column_index""",
            [table],
        ).fetchall():
            if not formula and self.rows[table] and name not in kept:
                formula = f"NULL::{type}"
            columns.append(f"{_name(name)} {type}" + (f" AS ({formula})" if formula else ""))
            computed += [name] if formula else []
        self.db.execute(f"CREATE OR REPLACE TABLE {table} ({', '.join(columns)})")
        self.db.execute(f"SET VARIABLE computed_{table}_columns = {computed}::VARCHAR[]")

    def release(self, table: str) -> None:
        """Forget the rows of a table: everything that is made from them is there."""
        self.frames[table] = []
        self.db.unregister(f"frame_{table}")
        if self.stored.pop(table, None) is not None:
            self.db.execute(f"DROP TABLE waiting.{table}")

    def _move(self) -> None:
        """Make room on disk, before the first of many rows is put into a table."""
        if not self.moved:
            space.move(self.db)
            self.db.execute("CREATE SCHEMA waiting")
            self.moved = True

    def _store(self, table: str) -> None:
        """Put the frames that wait into a table on disk."""
        self._move()
        names = {name for frame in self.frames[table] for name in frame.columns}
        selected = self._select(table, [name for name in self.columns[table] if name in names])
        if table not in self.stored:
            self._patiently(f"CREATE TABLE waiting.{table} AS {selected}")
            self.stored[table] = names
        else:
            for name in sorted(names - self.stored[table]):
                self.db.execute(
                    f"ALTER TABLE waiting.{table} ADD COLUMN {_name(name)} "
                    f"{self.columns[table][name]}"
                )
            self.stored[table] |= names
            self._patiently(f"INSERT INTO waiting.{table} BY NAME {selected}")
        self.frames[table] = []
        self.db.unregister(f"frame_{table}")

    def _patiently(self, sql: str) -> None:
        space.patiently(self.db, lambda: self.db.execute(sql))

    def _select(self, table: str, names: list[str]) -> str:
        """The columns of the frames that wait, typed."""
        frames = self.frames[table]
        frame = pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()
        if table in IN_ORDER and frame.height:
            frame = _sorted(frame)
        if frame.height:
            self.db.register(f"frame_{table}", Handover(frame))
        columns = ", ".join(
            f"{_cast(frame, name, self.columns[table][name])} AS {_name(name)}" for name in names
        )
        return (
            f"SELECT {columns} FROM frame_{table}" if frame.height else f"SELECT {columns} LIMIT 0"
        )


def _many(waiting: list[pl.DataFrame]) -> bool:
    """Whether frames are worth a place on disk."""
    rows = sum(one.height for one in waiting)
    return rows > WAITING_ROWS or (
        rows > 1000 and sum(one.estimated_size() for one in waiting) > WAITING_BYTES
    )


def _beside(waiting: list[pl.DataFrame], frame: pl.DataFrame) -> bool:
    """Whether a frame has lines of the block that the last one came from."""
    last = waiting[-1]
    if not (last.height and frame.height) or last.item(0, "source") != frame.item(0, "source"):
        return False
    return bool(frame.item(0, "line") < last.item(-1, "line"))


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows by file and line, as most frames have them, numbered in that order."""
    place = frame.get_column("source").cast(pl.Int64) * 2**40 + frame.get_column("line")
    if place.is_sorted():
        return frame
    numbers = frame.get_column("number").sort()
    return frame.sort("source", "line", maintain_order=True).with_columns(numbers)


def _cast(frame: pl.DataFrame, column: str, type: str) -> str:
    """What a user's parser calls by another type becomes NULL, and so does a garbled number."""
    if column not in frame.columns:
        return f"NULL::{type}"
    exact = frame.schema[column] == _EXACT.get(type)
    if exact and type == "INTEGER":
        return _name(column)
    value = f"TRY_CAST({_name(column)} AS {type})"
    if type not in ("BIGINT", "DOUBLE"):
        return value
    if exact:
        sizes = frame.get_column(column).abs()
        if ((sizes == 0) | sizes.is_between(SMALLEST, LARGEST)).all():  # or no value
            return _name(column)
    sound = f"{value} BETWEEN -{LARGEST} AND {LARGEST}"
    if type == "DOUBLE":
        sound += f" AND ({value} = 0 OR abs({value}) >= {SMALLEST})"
    return f"CASE WHEN {sound} THEN {value} END"


_EXACT = {"INTEGER": pl.Int32, "BIGINT": pl.Int64, "DOUBLE": pl.Float64}


def _name(column: str) -> str:
    return f'"{column}"'
