"""A result that was written before, for reports to be made from it: DuckDB with all, JSON without.

A database has the tables, the rules and the provenance. JSON has what the rules found: whatever it
lacks of a rule is taken from the installed one of that name, and there are no tables.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from specdiag import checked, restored, store
from specdiag.checked import Record
from specdiag.diagnosis import Diagnosis
from specdiag.errors import SpecdiagError, reason
from specdiag.opening import DATABASE
from specdiag.provenance import Input, Provenance
from specdiag.report.json import SCHEMA
from specdiag.store import Store

LARGEST = 1 << 30  # bytes of JSON
WRITERS = "write one with `specdiag analyze … --output duckdb=FILE`, or json=FILE"


@dataclass(frozen=True)
class Saved:
    """What was read back. A result in JSON has no store, and no hashes in its provenance."""

    diagnosis: Diagnosis
    store: Store | None
    provenance: Provenance


def load(path: Path) -> Saved:
    """A result that `--output duckdb=` or `--output json=` wrote.

    Raises SpecdiagError for a file that is missing or something else, and for a newer schema.
    """
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise SpecdiagError("this is not a file", str(path), WRITERS)
        with open(path, "rb") as stream:
            database = stream.read(12)[8:] == DATABASE
        if database:
            return _from_database(path)
        if info.st_size > LARGEST:
            raise SpecdiagError("this is no saved result: it is too large", str(path), WRITERS)
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise SpecdiagError("this is no saved result", str(path), WRITERS) from None
        raise SpecdiagError(reason(error), str(path), "check the path") from None
    return _from_json(text, path)


# JSON


def _from_json(text: str, path: Path) -> Saved:
    if text.lstrip()[:1] != "{":
        raise SpecdiagError("this is no saved result", str(path), WRITERS)
    try:
        data = checked.parse(text)
    except ValueError as error:
        raise SpecdiagError(f"the JSON is broken: {reason(error)}", str(path), WRITERS) from None
    if not {"schema", "specdiag", "runs", "findings", "results"} <= set(data):
        raise SpecdiagError("this is no saved result", str(path), WRITERS)
    _readable(data["schema"], path)
    try:
        found = restored.diagnosis_of(Record(data, "result"), None)
        inputs = {one["path"]: one for run in found.runs for one in run.sources}
        origin = Provenance(
            specdiag=Record(data, "result").text("specdiag"), rules=None, parsers=None,
            inputs=tuple(
                Input(name, None, None, one["format"], one["lines"], one["parsed"])
                for name, one in inputs.items()
            ),
        )  # fmt: skip
    except ValueError as error:
        raise _spoilt(error, path) from None
    return Saved(found, None, origin)


def _readable(schema: Any, path: Path) -> None:
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise SpecdiagError("this is no saved result", str(path), WRITERS)
    if schema > SCHEMA:
        raise SpecdiagError(
            f"schema version {schema} is newer than {SCHEMA}, the one read here", str(path),
            "update specdiag, or analyze the logs again",
        )  # fmt: skip


def _spoilt(error: ValueError, path: Path) -> SpecdiagError:
    return SpecdiagError(f"the saved result is spoilt: {error}", str(path), WRITERS)


# DuckDB


def _from_database(path: Path) -> Saved:
    db = duckdb.connect(config={"python_enable_replacements": False})
    name = str(path.absolute()).replace("'", "''")
    try:
        # With its type, or a file of another kind would make DuckDB fetch an extension.
        db.execute(f"ATTACH '{name}' AS file (READ_ONLY, TYPE duckdb)")
        db.execute("USE file")
        store.lock(db)
        db.execute("SET lock_configuration = true")  # its views are somebody else's SQL
    except (duckdb.Error, UnicodeError) as error:
        why = str(error).splitlines()[0]
        raise SpecdiagError(f"the database cannot be opened: {why}", str(path), WRITERS) from None
    filled = Store(db, [], [])
    try:
        rows = filled.rows(
            "SELECT schema, specdiag, diagnosis::VARCHAR AS diagnosis, "
            "provenance::VARCHAR AS provenance FROM main.saved LIMIT 1"
        )
    except duckdb.Error:
        rows = []
    if not rows:
        raise SpecdiagError("this is no saved result", str(path), WRITERS)
    (row,) = rows
    _readable(row["schema"], path)
    try:
        found = restored.diagnosis_of(
            checked.record(_parsed(row, "diagnosis"), "diagnosis"), filled
        )
        origin = Provenance.from_dict(_parsed(row, "provenance"))
    except ValueError as error:
        raise _spoilt(error, path) from None
    except duckdb.Error as error:
        raise _spoilt(ValueError(str(error).splitlines()[0]), path) from None
    filled.notices += found.notices
    return Saved(found, filled, origin)


def _parsed(row: dict[str, Any], column: str) -> Any:
    return checked.parse(Record(row, "saved").text(column))
