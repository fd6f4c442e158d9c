"""What is wrong with files that a user wrote: rules, formats and settings, before they meet a log.

A rule must run on empty tables, a format must read its own samples, and settings must name rules
and parameters that there are.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from specdiag import config, definition, diagnosis, library, parser, rule, store
from specdiag.errors import SpecdiagError
from specdiag.parser import Event, Parser

SUFFIXES = (".sql", ".toml")


def files(paths: list[Path]) -> list[Path]:
    """The files that can be checked; of folders those in them, not deeper.

    Raises SpecdiagError for what does not exist, and for another kind of file that is named.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = [one for one in path.iterdir() if one.suffix in SUFFIXES]
            found.update(dict.fromkeys(sorted(inside)))
        elif not path.exists():
            raise SpecdiagError("no such file or folder", str(path), "check the path")
        elif path.suffix not in SUFFIXES:
            raise SpecdiagError(
                "this is neither a rule nor a format nor settings", str(path),
                "a rule ends in .sql, formats and settings in .toml",
            )  # fmt: skip
        else:
            found[path] = None
    if not found:
        raise SpecdiagError(
            "nothing to check", ", ".join(map(str, paths)), "name a .sql or .toml file, or a folder"
        )
    return list(found)


def mistakes(paths: list[Path]) -> list[SpecdiagError]:
    """What is wrong with these files, at most one mistake a file."""
    wrong = []
    for path in paths:
        try:
            if path.suffix == ".sql":
                _rule(path)
            elif path.name in config.FILES:
                _settings(path)
            else:
                _format(path)
        except SpecdiagError as error:
            where = error.where if str(path) in error.where else f"{path}: {error.where}"
            wrong.append(replace(error, where=where.removesuffix(": ")))
    return wrong


def _rule(path: Path) -> None:
    one = rule.load(path)
    db = store.open_empty()
    db.execute(rule.MACROS)
    store.lock(db)
    rule.apply(one, db, one.params)  # without a run it asks for the rows that it needs, no more
    try:
        columns = {name for name, *_ in db.execute(one.sql, dict(one.params)).description or []}
    except duckdb.Error as error:
        what = str(error).splitlines()[0]
        raise SpecdiagError(
            f"rule {one.name} does not run: {what}", str(path),
            "tables and columns are listed by `specdiag query 'DESCRIBE decode'`",
        ) from None  # fmt: skip
    for name in ("run", "message", *one.sides.values()):
        if name not in columns:
            raise SpecdiagError(
                f"rule {one.name} does not select {name}", str(path),
                "a row is a finding: it needs run and message, and what `sides` names",
            )  # fmt: skip


def _format(path: Path) -> None:
    one = definition.load(path)
    db = store.open_empty()
    for event in one.events:
        known = {name for name, *_ in db.execute(f"DESCRIBE {event.table}").fetchall()}
        filled = set() if event.style == "arguments" else {field.column for field in event.fields}
        if strange := sorted(filled - known - {"arm"}):
            raise SpecdiagError(
                f"table {event.table} has no column {strange[0]}", str(path),
                f"see `specdiag query 'DESCRIBE {event.table}'`",
            )  # fmt: skip
        _samples(one, event, path)


def _samples(one: Parser, event: Event, path: Path) -> None:
    """Raises SpecdiagError for the first sample that is not read as it says."""
    for sample in event.samples:
        frames = parser.read(one, sample.text.encode() + b"\n", 1).frames.get(event.table, [])
        rows: list[dict[str, Any]] = [row for frame in frames for row in frame.to_dicts()]
        if not any(sample.gives.items() <= row.items() for row in rows):
            shown = [{key: row.get(key) for key in sample.gives} for row in rows]
            raise SpecdiagError(
                f"a sample of {event.title!r} is not read as it says: {sample.text[:100]}",
                str(path), f"it gives {shown[0] if shown else f'no row of {event.table}'}",
            )  # fmt: skip


def _settings(path: Path) -> None:
    chosen = library.settings(path)
    _, rules, broken = diagnosis.definitions(chosen.parsers, chosen.rules)
    if broken:
        raise broken[0]
    rule.parameters(rules, chosen.params)
    known = {one.name for one in rules}
    for name in chosen.require:
        if name not in known:
            raise SpecdiagError(f"no rule is called {name}", str(path), "see `specdiag rules`")
