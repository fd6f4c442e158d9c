"""The rows as parsed, readable by DuckDB, until every run is known."""

from __future__ import annotations

import duckdb
import polars as pl

from specdiag.parser import TABLES
from specdiag.shapes import Handover
from specdiag.steptable import Steps

DATA = TABLES
WAITING = tuple(table for table in TABLES if table != "step")
LARGEST = 2**53  # beyond it a counter is garbage, and sums of it would overflow
WAITING_ROWS = 2_000_000  # rows of a table that wait as frames before they are copied


class Staging:
    """Schema raw: the rows as parsed, numbered, with all columns of their table, life and arm.

    Frames wait as they are and are scanned in place; only very large inputs are copied on the way.
    Those of steps are put where they stay.
    """

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        self.db = db
        self.columns: dict[str, dict[str, str]] = {}
        self.steps = Steps(db, _cast)
        self.frames: dict[str, list[pl.DataFrame]] = {table: [] for table in WAITING}
        self.rows: dict[str, int] = dict.fromkeys(DATA, 0)
        self.copied: set[str] = set()
        db.execute("CREATE SCHEMA raw")
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
        frame = frame.with_columns(numbers.alias("number"))
        if table == "step":
            self.steps.add(frame)
            return
        known = self.columns[table]
        waiting = self.frames[table]
        # As series: a constant stays one piece, and the pieces of a frame must be alike.
        waiting.append(pl.DataFrame([one for one in frame.get_columns() if one.name in known]))
        if sum(one.height for one in waiting) > WAITING_ROWS:
            self._copy(table)

    def finish(self) -> None:
        """Make raw.TABLE readable for every table."""
        self.steps.finish()
        for table in WAITING:
            if table in self.copied:
                self._copy(table)
            else:
                self.db.execute(f"CREATE VIEW raw.{table} AS {self._select(table)}")

    def _copy(self, table: str) -> None:
        verb = (
            f"INSERT INTO raw.{table}" if table in self.copied else f"CREATE TABLE raw.{table} AS"
        )
        self.db.execute(f"{verb} {self._select(table)}")
        self.copied.add(table)
        self.frames[table] = []

    def _select(self, table: str) -> str:
        frames = self.frames[table]
        frame = pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()
        if frame.height:
            self.db.register(f"frame_{table}", Handover(frame))
        columns = ", ".join(
            f"{_cast(_name(column) if column in frame.columns else 'NULL', type)} "
            f"AS {_name(column)}"
            for column, type in self.columns[table].items()
        )
        return (
            f"SELECT {columns} FROM frame_{table}" if frame.height else f"SELECT {columns} LIMIT 0"
        )


def _cast(value: str, type: str) -> str:
    """What a user's parser calls by another type becomes NULL, and so does a garbled counter."""
    value = f"TRY_CAST({value} AS {type})"
    if type != "BIGINT":
        return value
    return f"CASE WHEN {value} BETWEEN -{LARGEST} AND {LARGEST} THEN {value} END"


def _name(column: str) -> str:
    return f'"{column}"'
