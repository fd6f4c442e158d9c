"""A diagnosis as a DuckDB file: every table and view that the rules read, and what they said."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb

from specdiag import bundled, space
from specdiag.diagnosis import Diagnosis
from specdiag.errors import SpecdiagError
from specdiag.provenance import Provenance
from specdiag.report import files
from specdiag.report import json as document
from specdiag.store import Store

WHOLE = 1 << 30  # characters of a quoted line: a page made from the file shows what it shows now

_FINDING = (
    "id", "rule", "run", "against", "severity", "title", "message", "impact", "values",
    "evidence", "causes", "fix", "explained_by",
)  # fmt: skip
_VERDICT = ("rule", "run", "result", "reason")


def write(
    path: Path, temporary: Path, diagnosis: Diagnosis, store: Store, provenance: Provenance
) -> None:
    """Put store and diagnosis into a file, whole or not at all.

    `temporary` is what `files.reserve` made of `path`, and the store was told of. Raises
    SpecdiagError when that cannot be done.
    """
    try:
        _fill(temporary, diagnosis, store, provenance)
        files.put(temporary, path)
    except duckdb.Error as error:
        why = str(error).splitlines()[0].replace(str(temporary), path.name)
        raise SpecdiagError(
            f"the database cannot be written: {why}", str(path),
            "look whether the disk is full, or write to another one",
        ) from None  # fmt: skip
    except OSError as error:
        raise files.wrong(path, error) from None
    finally:
        for rest in temporary.parent.glob(f"{temporary.name}*"):
            with contextlib.suppress(OSError):
                rest.unlink()


def _fill(temporary: Path, diagnosis: Diagnosis, store: Store, provenance: Provenance) -> None:
    db = store.db
    name = str(temporary).replace("'", "''")
    (own,) = db.execute("SELECT current_database()").fetchall()[0]
    db.execute(f"ATTACH '{name}' AS file (TYPE duckdb)")
    try:
        db.execute(f"COPY FROM DATABASE {own} TO file")
        db.execute("USE file")
        # Lists of short integers are kept short in memory; a file has the types of the schema.
        for column, type, *_ in db.execute("DESCRIBE step").fetchall():
            if type == "INTEGER[]":
                db.execute(f'ALTER TABLE step ALTER "{column}" TYPE BIGINT[]')
        db.execute(bundled.SAVED.read_text(encoding="utf-8"))
        found = document.document(diagnosis, WHOLE)
        _insert(db, "finding", _FINDING, found["findings"])
        _insert(db, "verdict", _VERDICT, found["results"])
        found["rules"] = [
            document.jsonable(asdict(rule) | {"path": rule.path.name}) for rule in diagnosis.rules
        ]
        origin = document.jsonable(provenance.to_dict())
        whole = [found["schema"], found["specdiag"], json.dumps(found), json.dumps(origin)]
        _patiently(db, "INSERT INTO saved VALUES (?, ?, ?, ?)", whole)
    finally:
        with contextlib.suppress(duckdb.Error):  # what went wrong before says more
            db.execute(f"USE {own}")
    db.execute("DETACH file")


def _insert(
    db: duckdb.DuckDBPyConnection, table: str, columns: tuple[str, ...], rows: list[dict[str, Any]]
) -> None:
    """Rows into a table at once: one by one takes a millisecond each."""
    types = {name: type for name, type, *_ in db.execute(f"DESCRIBE {table}").fetchall()}
    lists = [
        [json.dumps(row[name]) if types[name] == "JSON" else row[name] for row in rows]
        for name in columns
    ]
    taken = ", ".join(f"unnest(?::{types[name]}[])" for name in columns)
    _patiently(db, f"INSERT INTO {table} SELECT {taken}", lists)


def _patiently(db: duckdb.DuckDBPyConnection, sql: str, values: list[Any]) -> None:
    space.patiently(db, lambda: db.execute(sql, values))
