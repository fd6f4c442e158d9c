"""A diagnosis as JSON: the output that other programs build on."""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from specdiag import __version__
from specdiag.assertions import Verdict
from specdiag.diagnosis import Diagnosis
from specdiag.finding import Finding, Run
from specdiag.report import drawing
from specdiag.report.text import INVISIBLE, coverage, notices, to_switch_on
from specdiag.rule import plain

SCHEMA = 1
FILE = Path(__file__).with_name("schema.json")  # what is written, as a JSON Schema
STEP = ("source", "line", *drawing.COLUMNS)  # columns of a step that a finding tells of
LONGEST = 2000  # characters of a quoted line; path and line say where the whole of it is

_RAW = re.compile(f"[{INVISIBLE}]")  # dumps escapes the C0 controls only
_HALVES = re.compile("[\ud800-\udfff]")


def render(diagnosis: Diagnosis) -> str:
    """The diagnosis; the same text for the same input."""
    before, after = frame(diagnosis)
    said = cache(literal)  # names and reasons come again and again
    lines = [
        result(said(one.rule), said(one.run), said(one.result), said(one.reason))
        for one in diagnosis.results
    ]
    return before + ",".join(lines) + after


def frame(diagnosis: Diagnosis) -> tuple[str, str]:
    """What stands before and behind the results: of many runs they are by far the most."""
    parts = {
        key: json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False).replace("\n", "\n ")
        for key, value in document(diagnosis, results=False).items()
    }
    lines = [f'"{key}": {text}' for key, text in parts.items()]
    place = list(parts).index("results")
    before = "{\n " + ",\n ".join([*lines[:place], '"results": ['])
    after = ",\n ".join(["\n ]", *lines[place + 1 :]]) + "\n}\n"
    return _plain(before), _plain(after)


def result(rule: str, run: str, said: str, reason: str) -> str:
    """A line of the results; each part as JSON already."""
    return f'\n  {{"rule": {rule}, "run": {run}, "result": {said}, "reason": {reason}}}'


def literal(text: str | None) -> str:
    """A text as JSON in which nothing is invisible."""
    return _plain(json.dumps(jsonable(text), ensure_ascii=False))


def dumps(made: Any) -> str:
    """JSON in which nothing is invisible, and nothing moves what stands around it."""
    return _plain(json.dumps(made, ensure_ascii=False, indent=1, allow_nan=False)) + "\n"


def _plain(text: str) -> str:
    return _RAW.sub(lambda match: json.dumps(match[0])[1:-1], text)


def document(diagnosis: Diagnosis, longest: int = LONGEST, results: bool = True) -> dict[str, Any]:
    """What is written, quoted lines cut to `longest` characters; no results if not wanted."""
    said = cache(jsonable)  # names and reasons come again and again
    made = {
        "schema": SCHEMA,
        "specdiag": __version__,
        "decidable": _decidable(diagnosis),
        "runs": [_run(run) for run in diagnosis.runs],
        "findings": [_finding(finding, longest) for finding in diagnosis.findings],
        "results": [
            {"rule": one.rule, "run": said(one.run), "result": one.result,
             "reason": said(one.reason)}
            for one in (diagnosis.results if results else ())
        ],
        "assertions": [_assertion(one) for one in diagnosis.assertions],
        "notices": [
            {
                "what": one.what, "where": one.where, "help": one.help,
                "broken": number < len(diagnosis.broken),  # a rule or parser that was not used
            }
            for number, one in enumerate(notices(diagnosis))
        ],
    }  # fmt: skip
    return {key: value if key == "results" else jsonable(value) for key, value in made.items()}


def _decidable(diagnosis: Diagnosis) -> dict[str, Any]:
    decided, applying = coverage(diagnosis)
    wanted = [{"enable": help, "rules": rules} for help, rules in to_switch_on(diagnosis)]
    return {"rules": applying, "decided": decided, "to_switch_on": wanted}


def _run(run: Run) -> dict[str, Any]:
    facts = dict(run.facts)
    for key in ("started", "ended"):
        if key in facts:
            facts[key] = str(facts[key]).replace(" ", "T", 1)
    return {"run": run.name, "sources": run.sources, "facts": facts}


def _finding(finding: Finding, longest: int) -> dict[str, Any]:
    return {
        "id": finding.id,
        "rule": finding.rule.name,
        "run": finding.run,
        "against": finding.against,
        "severity": finding.severity,
        "title": finding.rule.title,
        "message": finding.message,
        "impact": finding.impact,
        "values": finding.values,
        "evidence": [
            {"path": one.path, "line": one.line, "text": _cut(one.text, longest)}
            for one in finding.evidence
        ],
        "step": finding.step
        and {key: finding.step[key] for key in STEP if finding.step.get(key) is not None},
        "causes": [
            {"name": one.name, "cause": one.cause, "test": one.test} for one in finding.causes
        ],
        "fix": list(finding.rule.fix),
        "explained_by": finding.explained_by,
        "accepted": finding.accepted
        and {"date": finding.accepted.date, "reason": finding.accepted.reason},
    }


def _assertion(verdict: Verdict) -> dict[str, Any]:
    low, high = verdict.interval or (None, None)
    return {
        "name": verdict.name, "run": verdict.run, "result": verdict.result,
        "message": verdict.message, "required": verdict.required, "metric": verdict.metric,
        "aggregate": verdict.aggregate, "value": plain(verdict.value), "unit": verdict.unit,
        "low": plain(low), "high": plain(high), "more": verdict.more,
    }  # fmt: skip


def _cut(text: str, longest: int) -> str:
    text = text.rstrip("\r\n")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def jsonable(value: Any) -> Any:
    """A value as JSON can carry it: no NaN, no infinity, no half characters."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _HALVES.sub(lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", value)
    if isinstance(value, dict):
        return {str(jsonable(key)): jsonable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(one) for one in value]
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)
