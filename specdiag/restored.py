"""A diagnosis from what JSON or a database says of it, every value checked."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from specdiag import checked, diagnosis, store
from specdiag.assertions import Verdict
from specdiag.checked import Record
from specdiag.diagnosis import Diagnosis
from specdiag.errors import Notice, SpecdiagError
from specdiag.finding import Accepted, Evidence, Finding, Run
from specdiag.report.text import ENOUGH
from specdiag.rule import SEVERITIES, Cause, Decision, Rule
from specdiag.store import Store

RESULTS = ("finding", "pass", "not applicable", "undecided")


def diagnosis_of(one: Record, filled: Store | None) -> Diagnosis:
    findings = one.records("findings")
    results = [_decision(row) for row in one.records("results")]
    if "rules" in one.data:
        rules = [_rule(row) for row in one.records("rules")]
    else:
        rules = _installed(one, findings, results)
    by_name = {rule.name: rule for rule in rules}
    types = _types()
    broken, notices = [], []
    for row in one.records("notices"):
        words = row.text("what"), row.text("where"), row.text("help")
        if "broken" in row.data and row.flag("broken"):
            broken.append(SpecdiagError(*words))
        else:
            notices.append(Notice(*words))
    found = Diagnosis(
        runs=[_run(row, types["run"]) for row in one.records("runs")],
        findings=[_finding(row, by_name, types["step"]) for row in findings],
        results=results,
        rules=rules,
        notices=notices,
        broken=broken,
        assertions=[_assertion(row) for row in one.records("assertions")]
        if "assertions" in one.data else [],
    )  # fmt: skip
    if filled:
        _complete(found, filled)
    return found


def _assertion(one: Record) -> Verdict:
    low, high = one.maybe_number("low"), one.maybe_number("high")
    return Verdict(
        one.text("name"), one.maybe_text("run"), one.text("result"), one.text("message"),
        one.flag("required"), one.maybe_text("metric"), one.maybe_text("aggregate"),
        one.maybe_number("value"), one.maybe_text("unit"),
        None if low is None or high is None else (low, high), one.maybe_whole("more"),
    )  # fmt: skip


@functools.cache
def _types() -> dict[str, dict[str, str]]:
    """Columns and types of the tables that a diagnosis holds rows of."""
    db = store.open_empty()
    return {
        table: {name: type for name, type, *_ in db.execute(f"DESCRIBE {table}").fetchall()}
        for table in ("run", "step")
    }


def _run(one: Record, types: dict[str, str]) -> Run:
    facts = one.free("facts")
    for name, value in facts.items():
        if name in types and not checked.fits(value, types[name]):
            raise ValueError(f"{one.where}.facts.{name} is no {types[name]}")
    sources = [
        {
            "path": file.text("path"), "format": file.maybe_text("format"),
            "lines": file.whole("lines"), "parsed": file.maybe_number("parsed"),
        }
        for file in one.records("sources")
    ]  # fmt: skip
    return Run(one.text("run"), sources, {key: facts[key] for key in facts if key in types})


def _finding(one: Record, rules: dict[str, Rule], types: dict[str, str]) -> Finding:
    name, severity = one.text("rule"), one.text("severity")
    if name not in rules:
        raise ValueError(f"{one.where}.rule is no rule of this result")
    if severity not in SEVERITIES:
        raise ValueError(f"{one.where}.severity is none of {', '.join(SEVERITIES)}")
    said = one.record("accepted") if one.data.get("accepted") is not None else None
    step = one.free("step") if one.data.get("step") is not None else None
    for column, value in (step or {}).items():
        if not checked.fits(value, types.get(column, "")):
            raise ValueError(f"{one.where}.step.{column} is no {types.get(column, 'column')}")
    return Finding(
        id=one.text("id"), rule=rules[name], run=one.text("run"),
        against=one.maybe_text("against"), severity=severity, message=one.text("message"),
        impact=one.maybe_number("impact"), values=one.free("values"),
        evidence=[
            Evidence(row.text("path"), row.whole("line"), row.text("text"))
            for row in one.records("evidence")
        ],
        causes=_causes(one), step=step, explained_by=one.maybe_text("explained_by"),
        accepted=Accepted(said.text("reason"), said.maybe_text("date")) if said else None,
    )  # fmt: skip


def _causes(one: Record) -> tuple[Cause, ...]:
    return tuple(
        Cause(row.text("name"), row.text("cause"), row.text("test"))
        for row in one.records("causes")
    )


def _decision(one: Record) -> Decision:
    result = one.text("result")
    if result not in RESULTS:
        raise ValueError(f"{one.where}.result is none of {', '.join(RESULTS)}")
    return Decision(one.text("rule"), one.text("run"), result, one.text("reason"))


def _complete(found: Diagnosis, filled: Store) -> None:
    """The steps that findings tell of, with all their columns."""
    places: dict[str, tuple[int, int]] = {}
    for finding in found.findings:
        if finding.step is not None:
            source, line = finding.step.get("source"), finding.step.get("line")
            if source is None or line is None:
                raise ValueError("a step has no place")
            places[finding.id] = source, line
    steps = diagnosis.steps_at(set(places.values()), filled)
    for finding in found.findings:
        if finding.id in places:
            finding.step = steps.get(places[finding.id], finding.step)


# Rules


def _rule(one: Record) -> Rule:
    needs, enough = one.record("needs"), one.record("enough")
    sides = one.record("sides") if "sides" in one.data else Record({}, "")
    severity = one.text("severity")
    if severity not in SEVERITIES:
        raise ValueError(f"{one.where}.severity is none of {', '.join(SEVERITIES)}")
    return Rule(
        name=one.text("name"), path=Path(one.text("path")), sql=one.text("sql"),
        title=one.text("title"), severity=severity,
        family=one.text("family") if "family" in one.data else "",
        why=one.text("why"), fix=one.texts("fix"),
        needs={table: needs.texts(table) for table in needs.data},
        enough={table: enough.whole(table) for table in enough.data},
        applies=one.text("applies"), enable=one.text("enable"), explains=one.texts("explains"),
        faults=one.texts("faults"), params=one.free("params"), formula=one.text("formula"),
        sides={label: sides.text(label) for label in sides.data},
        unlike=one.texts("unlike"), causes=_causes(one), reports=one.texts("reports"),
    )  # fmt: skip


def _installed(one: Record, findings: list[Record], results: list[Decision]) -> list[Rule]:
    """The rules that JSON names, with its own words where it has them."""
    _, known, _ = diagnosis.definitions([], [])
    installed = {rule.name: rule for rule in known}
    said = {row.text("rule"): row for row in findings}
    enable = {
        name: "" if row.text("enable") == ENOUGH else row.text("enable")
        for row in one.record("decidable").records("to_switch_on")
        for name in row.texts("rules")
    }
    rules = []
    for name in dict.fromkeys([*(row.rule for row in results), *said]):
        rule = installed.get(name) or Rule(
            name, Path(f"{name}.sql"), "", name, "info", "", (), {}, {}
        )  # fmt: skip
        if name in said:
            rule = replace(rule, title=said[name].text("title"), fix=said[name].texts("fix"))
        if name in enable and enable[name] != " ".join(rule.enable.split()):
            rule = replace(rule, enable=enable[name])
        rules.append(rule)
    return rules
