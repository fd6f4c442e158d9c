"""Room for what does not fit into memory: a database of this process on disk, gone when it ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path

import duckdb

from specdiag import bundled
from specdiag.errors import SpecdiagError

MEMORY = "256MB"  # of DuckDB; Python, Polars and the blocks that are read take as much again
NAME = "specdiag"


def connect(memory: str = "", threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An empty in-memory database that takes at most so much memory, and the disk beyond it.

    Its folder is made when it is needed, and is removed with the connection, or with the process.
    Raises SpecdiagError for a size that is none.
    """
    folder = Path(tempfile.gettempdir(), f"specdiag-{os.getpid()}-{os.urandom(6).hex()}")
    try:
        db = duckdb.connect(
            config={
                "python_enable_replacements": False,
                "temp_directory": str(folder),
                "memory_limit": memory or MEMORY,
                **({"threads": threads} if threads else {}),
            }
        )
    except duckdb.Error:
        raise SpecdiagError(
            f"{memory!r} is no size", "--memory", "write it as in 500MB or 2GB"
        ) from None
    weakref.finalize(db, shutil.rmtree, folder, ignore_errors=True)
    return db


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
    db.execute("SET checkpoint_threshold = '1TB'")  # it would look for files beside this one
    db.execute(f"ATTACH '{name}' AS {NAME} (TYPE duckdb, RECOVERY_MODE no_wal_writes)")
    # What is open stays readable without its name, and nothing is left of it even if we are killed.
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()
    for kind, one in kinds:
        db.execute(f'DROP {kind} memory."{one}"')
    db.execute(f"USE {NAME}")
    db.execute(bundled.SCHEMA.read_text(encoding="utf-8"))
