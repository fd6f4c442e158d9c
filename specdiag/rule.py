"""A rule: a SQL file whose leading comment is TOML (`header.py`), applied to the store.

A row that comes back is a finding on its `run`. Columns of a row with a meaning of their own:
`message` (NULL: the title), `against` (the run it is compared with), `severity` (instead of the
header's), `impact` (share of throughput lost, 0-1) and `lines` (a list of `cite(source, line)`: the
proof). All others are the finding's values.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb

from specdiag import bundled, space
from specdiag.errors import SpecdiagError
from specdiag.header import SEVERITIES, SPECIAL, Cause, Rule, load

__all__ = [
    "MACROS", "SEVERITIES", "Asked", "Cause", "Decision", "Hit", "Rule", "apply", "load",
    "parameters", "plain",
]  # fmt: skip

FREE = ("run", "config")  # tables that every run has a say in; they decide nothing by themselves

MACROS = bundled.WORDS.read_text(encoding="utf-8")  # words that SQL has to be taught


@dataclass(frozen=True)
class Hit:
    """A row that a rule returned."""

    run: str
    message: str
    severity: str
    against: str | None
    impact: float | None
    places: tuple[tuple[int, int], ...]  # (source, line)
    values: dict[str, Any]
    causes: tuple[Cause, ...]  # the likeliest first


@dataclass(frozen=True)
class Decision:
    """What a rule says of a run: finding, pass, not applicable or undecided, and why."""

    rule: str
    run: str
    result: str
    reason: str


def parameters(
    rules: list[Rule], given: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The parameters of every rule, with what the user set.

    Raises SpecdiagError for a rule or a parameter that does not exist.
    """
    found = {rule.name: dict(rule.params) for rule in rules}
    for name, values in given.items():
        if name not in found:
            raise SpecdiagError(f"no rule is called {name}", "", "see `specdiag rules`")
        for key, value in values.items():
            if key not in found[name]:
                known = ", ".join(found[name]) or "none"
                raise SpecdiagError(f"rule {name} has no parameter {key}", "", f"it has: {known}")
            default = found[name][key]
            if (
                isinstance(default, float)
                and isinstance(value, int)
                and not isinstance(value, bool)
            ):
                value = float(value)
            if type(value) is not type(default):
                raise SpecdiagError(
                    f"parameter {key} of rule {name} cannot be {value!r}", "",
                    f"its default is {default!r}",
                )  # fmt: skip
            found[name][key] = value
    return found


Asked = dict[tuple[str, str], dict[str, Any]]  # (table, expression) -> its value by run


def ask(rules: list[Rule], db: duckdb.DuckDBPyConnection) -> Asked:
    """What rules want to know before they look, in one query a table.

    What does not run is left out: the rule that asks it is told.
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    for table, asking in dict.fromkeys(one for rule in rules for one in _questions(rule)):
        wanted[table].append(asking)
    asked: Asked = {}
    for table, several in wanted.items():
        with contextlib.suppress(duckdb.Error):
            asked |= _answers(db, table, several)
    return asked


def _questions(rule: Rule) -> list[tuple[str, str]]:
    applies = f"coalesce(({rule.applies}), false)" if rule.applies else "NULL"
    return [("run", applies)] + [
        (table, " AND ".join(f'"{column}" IS NOT NULL' for column in columns))
        for table, columns in rule.needs.items()
        if columns and table not in FREE
    ]


def _answers(db: duckdb.DuckDBPyConnection, table: str, several: list[str]) -> Asked:
    """Of each run the value of an expression over table run, of other tables its rows with it."""
    if table == "run":
        sql = f"SELECT run, {', '.join(several)} FROM run"
    else:
        counts = ", ".join(f"count(*) FILTER ({one})" for one in several)
        sql = f"SELECT run, {counts} FROM {table} GROUP BY run"
    rows = space.patiently(db, lambda: db.execute(sql).fetchall())
    return {(table, one): {row[0]: row[nth] for row in rows} for nth, one in enumerate(several, 1)}


def apply(
    rule: Rule, db: duckdb.DuckDBPyConnection, params: Mapping[str, Any],
    asked: Asked | None = None,
) -> tuple[list[Hit], list[Decision]]:  # fmt: skip
    """What a rule finds, and its decision on every run. `asked` is what was asked for many rules.

    Raises SpecdiagError when the SQL does not run.
    """
    try:
        decisions = _decidable(rule, db, asked or {})
        # What no run has the rows for is not asked: to plan a query takes longer than most answers.
        decidable = "pass" in decisions.values()
        rows = []
        if decidable or rule.path.parent != bundled.RULES:  # a user is told what cannot run at all
            statements = db.extract_statements(rule.sql)
            if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
                raise ValueError("a rule is one SELECT, and changes nothing")
            if decidable:
                rows = space.patiently(db, lambda: _rows(db.execute(statements[0], dict(params))))
        unknown = {row["run"] for row in rows} - set(decisions)
        if unknown:
            raise ValueError(f"no run is called {min(map(str, unknown))}")
        hits = [_hit(rule, row) for row in rows if decisions[row["run"]] == "pass"]
    except (duckdb.Error, KeyError, TypeError, ValueError) as error:
        what = f"no column {error}" if isinstance(error, KeyError) else str(error)
        raise SpecdiagError(
            f"rule {rule.name} does not run: {what.strip().splitlines()[0]}", str(rule.path),
            "tables and columns are listed by `specdiag query 'DESCRIBE decode'`",
        ) from None  # fmt: skip
    found = {hit.run for hit in hits}
    results = []
    for run, decision in sorted(decisions.items()):
        if run in found:
            results.append(Decision(rule.name, run, "finding", ""))
        elif decision == "pass":
            results.append(Decision(rule.name, run, "pass", ""))
        else:
            result, _, reason = decision.partition(": ")
            results.append(Decision(rule.name, run, result, reason))
    return hits, results


def _rows(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _decidable(rule: Rule, db: duckdb.DuckDBPyConnection, asked: Asked) -> dict[str, str]:
    def answer(question: tuple[str, str]) -> dict[str, Any]:
        found = asked if question in asked else _answers(db, question[0], [question[1]])
        return found[question]

    applies, *counts = _questions(rule)
    runs = answer(applies)
    decided = {
        run: "pass" if wanted is not False else "not applicable: " for run, wanted in runs.items()
    }
    for question in counts:
        table, found = question[0], answer(question)
        for run, wanted in runs.items():
            rows = found.get(run, 0)
            enough = rule.enough.get(table, 1)
            if rows >= enough or decided[run] != "pass":
                continue
            if rows == 0 and wanted is None:
                decided[run] = "not applicable: "
            else:
                columns = ", ".join(rule.needs[table])
                have = f"{rows} of {enough} rows of {table} with {columns}"
                decided[run] = f"undecided: {have}" + (f"; {rule.enable}" if rule.enable else "")
    return decided


def _hit(rule: Rule, row: dict[str, Any]) -> Hit:
    if absent := set(rule.sides.values()) - set(row):
        raise ValueError(f"sides names what is not selected: {', '.join(sorted(absent))}")
    places = tuple((p["source"], p["line"]) for p in row.get("lines") or [] if p and p["line"])
    impact = row.get("impact")
    severity = row.get("severity") or rule.severity
    if severity not in SEVERITIES:
        raise ValueError(f"severity {severity!r} is none of {', '.join(SEVERITIES)}")
    likely = tuple(row.get("causes") or ())
    if unknown := set(likely) - {one.name for one in rule.causes}:
        raise ValueError(f"the header names no cause {', '.join(sorted(map(str, unknown)))}")
    return Hit(
        run=row["run"],
        message=rule.title if row["message"] is None else str(row["message"]),
        severity=severity,
        against=row.get("against"),
        impact=plain(None if impact is None else min(1.0, max(0.0, float(impact)))),
        places=places,
        values={name: plain(value) for name, value in row.items() if name not in SPECIAL},
        causes=rule.ranked(likely),
    )


def plain(value: Any) -> Any:
    """A value as JSON has it, floats with as many digits as anybody wants to read."""
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)
