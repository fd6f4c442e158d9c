"""A rule: a SQL file whose leading comment is TOML, applied to the store.

A row that comes back is a finding on its `run`. Columns of a row with a meaning of their own:
`message`, `against` (the run it is compared with), `severity` (instead of the header's), `impact`
(share of throughput lost, 0-1) and `lines` (a list of `cite(source, line)`: the proof). All others
are the finding's values. The header:

    title, severity, why, fix, enable, explains, params   as in the rules beside this one
    needs    { table = [columns] }: the rows that decide it; a table with [] may be empty
    enough   how many such rows a run must have: a number, or { table = number }
    faults   numbers of the faults that it can mean (ddtree, section 11); which ones a finding
             leaves is its value `faults`
    applies  a condition on table run: where it is false, the rule is not applicable; where it is
             true and rows are missing, the rule is undecided
    formula  what is computed and compared, in symbols
    sides    { "accepted depth" = "accepted_depth" }, label = value: what contradicts what, side by
             side. First what was observed, then what it is compared with
    unlike   [text]: what looks like it and is not, so that the rule stays silent
    causes   [{ name, cause, test }]: what can be behind it, the likeliest first, and the cheapest
             run that tells this cause from the others. A finding whose row has the column `causes`,
             a list of names, ranks those first: its own evidence points at them
    reports  public reports of it: owner/repository#number
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from specdiag import bundled
from specdiag.errors import SpecdiagError

SEVERITIES = ("critical", "high", "medium", "low", "info")
SPECIAL = ("run", "message", "against", "severity", "impact", "lines", "causes")
FREE = ("run", "config")  # tables that every run has a say in; they decide nothing by themselves

MACROS = bundled.WORDS.read_text(encoding="utf-8")  # words that SQL has to be taught


@dataclass(frozen=True)
class Cause:
    """What can be behind a finding, and the cheapest run that tells it from the other causes."""

    name: str
    cause: str
    test: str


@dataclass(frozen=True)
class Rule:
    """A rule. `name` is the stem of its file."""

    name: str
    path: Path
    sql: str
    title: str
    severity: str
    why: str
    fix: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]]
    enough: Mapping[str, int]
    applies: str = ""
    enable: str = ""
    explains: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    formula: str = ""
    sides: Mapping[str, str] = field(default_factory=dict)  # in the header's order
    unlike: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    reports: tuple[str, ...] = ()

    def ranked(self, first: tuple[str, ...] = ()) -> tuple[Cause, ...]:
        """The causes, those named first in front, the others in the header's order."""
        place = {name: n for n, name in enumerate(first)}
        return tuple(sorted(self.causes, key=lambda one: place.get(one.name, len(place))))


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


def load(path: Path) -> Rule:
    """The rule in a SQL file.

    Raises SpecdiagError with file, place and reason when the header is broken.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecdiagError(
            f"rule cannot be read: {error}", str(path), "a rule is SQL in UTF-8"
        ) from None
    try:
        data = bundled.header(text)
        unknown = set(data) - set(Rule.__annotations__)
        if unknown:
            raise ValueError(f"unknown key {', '.join(sorted(unknown))}")
        if data["severity"] not in SEVERITIES:
            raise ValueError(f"severity {data['severity']!r} is none of {', '.join(SEVERITIES)}")
        needs = {table: tuple(columns) for table, columns in data["needs"].items()}
        enough = data.get("enough", 1)
        if isinstance(enough, int):
            enough = dict.fromkeys(needs, enough)
        sides = data.get("sides", {})
        columns = list(sides.values()) if isinstance(sides, dict) else [None]
        if "" in sides or any(type(one) is not str or one in ("", *SPECIAL) for one in columns):
            raise ValueError("sides is { label = column }, each column a value of the finding")
        return Rule(
            name=path.stem, path=path, sql=text, title=data["title"], severity=data["severity"],
            why=data["why"], fix=tuple(data["fix"]), needs=needs, enough=enough,
            applies=data.get("applies", ""), enable=data.get("enable", ""),
            explains=tuple(data.get("explains", [])), faults=tuple(data.get("faults", [])),
            params=dict(data.get("params", {})), formula=data.get("formula", ""),
            sides=sides,
            unlike=tuple(data.get("unlike", [])), reports=tuple(data.get("reports", [])),
            causes=tuple(Cause(**one) for one in data.get("causes", [])),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"no key {error}" if isinstance(error, KeyError) else str(error)
        raise SpecdiagError(
            f"rule header is wrong: {what}", str(path),
            "the leading -- lines are TOML; compare with a bundled rule",
        ) from None  # fmt: skip


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


Asked = dict[str, dict[str, Any]]  # the answer to a query, by run: many rules ask the same


def apply(
    rule: Rule, db: duckdb.DuckDBPyConnection, params: Mapping[str, Any],
    asked: Asked | None = None,
) -> tuple[list[Hit], list[Decision]]:  # fmt: skip
    """What a rule finds, and its decision on every run. `asked` is shared by the rules of a store.

    Raises SpecdiagError when the SQL does not run.
    """
    try:
        statements = db.extract_statements(rule.sql)
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            raise ValueError("a rule is one SELECT, and changes nothing")
        decisions = _decidable(rule, db, {} if asked is None else asked)
        # What no run has the rows for is not asked: to plan a query takes longer than most answers.
        decidable = "pass" in decisions.values()
        rows = _rows(db.execute(statements[0], dict(params))) if decidable else []
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
    def ask(sql: str) -> dict[str, Any]:
        if sql not in asked:
            asked[sql] = dict(db.execute(sql).fetchall())
        return asked[sql]

    applies = f"coalesce(({rule.applies}), false)" if rule.applies else "NULL"
    runs = ask(f"SELECT run, {applies} FROM run")
    decided = {
        run: "pass" if wanted is not False else "not applicable: " for run, wanted in runs.items()
    }
    for table, columns in rule.needs.items():
        if not columns or table in FREE:
            continue
        given = " AND ".join(f'"{column}" IS NOT NULL' for column in columns)
        counts = ask(f"SELECT run, count(*) FROM {table} WHERE {given} GROUP BY run")
        for run, wanted in runs.items():
            rows = counts.get(run, 0)
            enough = rule.enough.get(table, 1)
            if rows >= enough or decided[run] != "pass":
                continue
            if rows == 0 and wanted is None:
                decided[run] = "not applicable: "
            else:
                have = f"{rows} of {enough} rows of {table} with {', '.join(columns)}"
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
        message=str(row["message"]),
        severity=severity,
        against=row.get("against"),
        impact=None if impact is None else min(1.0, max(0.0, float(impact))),
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
