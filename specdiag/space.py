"""Room for what does not fit into memory: a database of this process on disk, gone when it ends."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from specdiag import bundled, interrupt, spill
from specdiag.errors import SpecdiagError

READING = "96MB"  # of DuckDB while files are read: Polars and the blocks take more then
MEMORY = "256MB"  # of DuckDB once they are
DISK = "16GB"  # for what does not fit; a query that wants more has more memory, or an end
WIDER = ("1GB", "")  # what a query may have that cannot do with it; in the end, what DuckDB takes
NAME = "specdiag"

Done = TypeVar("Done")

_ends: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_wider: weakref.WeakKeyDictionary[Any, list[str]] = weakref.WeakKeyDictionary()


def connect(memory: str = "", threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An empty in-memory database that takes at most so much memory, and the disk beyond it.

    Its folder is made when it is needed, and is removed with the connection, or with the process.
    Raises SpecdiagError for a size that is none.
    """
    folder = spill.place()
    try:
        db = duckdb.connect(
            config={
                "python_enable_replacements": False,
                "temp_directory": folder,
                "memory_limit": memory or READING,
                "max_temp_directory_size": DISK,
                **({"threads": threads} if threads else {}),
            }
        )
    except duckdb.Error:
        raise SpecdiagError(
            f"{memory!r} is no size", "--memory", "write it as in 500MB or 2GB"
        ) from None
    interrupt.reaches(db)
    _ends[db] = weakref.finalize(db, shutil.rmtree, folder, ignore_errors=True)
    _wider[db] = [] if memory else [MEMORY, *WIDER]
    return db


def have_read(db: duckdb.DuckDBPyConnection) -> None:
    """The files are read: the database may have the memory that this took."""
    if MEMORY in _wider[db]:
        _widen(db)


def patiently(db: duckdb.DuckDBPyConnection, work: Callable[[], Done]) -> Done:
    """What the work gives, which begins again with more memory where there is too little.

    Not beyond what the user allows: then DuckDB's error stays.
    """
    while True:
        try:
            return work()
        except duckdb.OutOfMemoryException:
            if not _wider.get(db):
                raise
            _widen(db)


def beside(db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """One more connection to a database, under the same limits and with the same variables."""
    other = db.cursor()
    # It begins in the database that was there first, where no table is once they are on disk.
    (place,) = db.execute("SELECT current_database()").fetchall()[0]
    other.execute(f"USE {place}")
    for name, type, value in db.execute(
        "SELECT name, type, value FROM duckdb_variables()"
    ).fetchall():
        other.execute(f"SET VARIABLE {name} = CAST(? AS {type})", [value])
    interrupt.reaches(other)
    _wider[other] = _wider[db]
    return other


def _widen(db: duckdb.DuckDBPyConnection) -> None:
    limit = _wider[db].pop(0)
    db.execute(f"SET memory_limit = '{limit}'" if limit else "RESET memory_limit")


def leave(db: duckdb.DuckDBPyConnection) -> None:
    """Close a database and leave nothing of it on disk, though somebody may still hold it."""
    db.close()
    _ends[db]()


def move(db: duckdb.DuckDBPyConnection) -> None:
    """Put the tables of schema.sql, all empty, on disk, where they are packed."""
    kinds = db.execute(
        """SELECT CASE table_type WHEN 'VIEW' THEN 'VIEW' ELSE 'TABLE' END, table_name
           FROM information_schema.tables WHERE table_schema = 'main'"""
    ).fetchall()
    (folder,) = db.execute("SELECT current_setting('temp_directory')").fetchall()[0]
    path = Path(folder, "tables.duckdb")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    name = str(path).replace("'", "''")
    db.execute(f"ATTACH '{name}' AS {NAME} (TYPE duckdb, RECOVERY_MODE no_wal_writes)")
    for kind, one in kinds:
        db.execute(f'DROP {kind} memory."{one}"')
    # Nobody opens it again: to tidy it up on the way would write all tables once more.
    db.execute("SET checkpoint_threshold = '1TB'")
    db.execute(f"USE {NAME}")
    db.execute(bundled.SCHEMA.read_text(encoding="utf-8"))
