"""A diagnosis as SARIF 2.1.0, for code scanning: a result a cause.

What could not be decided is no result, as viewers show results as faults; a notification counts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote as percent

from specdiag import __version__
from specdiag.diagnosis import Diagnosis
from specdiag.errors import Notice
from specdiag.finding import Evidence, Finding
from specdiag.report import markdown, quote, text
from specdiag.report.alarms import LEVELS, PROSE, Alarm, alarms, message, place, title
from specdiag.report.json import dumps
from specdiag.report.text import visible
from specdiag.rule import Rule

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
RESULTS = 5000  # what GitHub shows of a run
NOTICES = 100
PROBLEM = {"error": "error", "warning": "warning", "note": "recommendation"}  # words of GitHub

_PLACEHOLDER = re.compile(r"\{(\d+)\}")


def render(diagnosis: Diagnosis) -> str:
    """The diagnosis; log text is data, neither placeholder nor link."""
    found = sorted(alarms(diagnosis), key=lambda one: not one.counts)
    rules = {rule.name: rule for rule in diagnosis.rules}
    rules |= {one.rule.name: one.rule for one in diagnosis.findings if one.rule.name not in rules}
    places = {name: number for number, name in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "specdiag",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(rule) for rule in rules.values()],
            }
        },
        "invocations": [_invocation(diagnosis, len(found))],
        "results": [_result(one, places[one.finding.rule.name]) for one in found[:RESULTS]],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


# Rules


def _rule(rule: Rule) -> dict[str, Any]:
    level = LEVELS[rule.severity]
    heading = visible(" ".join(rule.title.split()), PROSE)
    return {
        "id": visible(rule.name),
        "shortDescription": _text(heading),
        "fullDescription": _text(visible(" ".join(rule.why.split()), PROSE) or heading),
        "help": _help(rule),
        "defaultConfiguration": {"level": level},
        "properties": {
            "tags": ["speculative decoding", *([rule.family] if rule.family else [])],
            "problem.severity": PROBLEM[level],
        },
    }


def _help(rule: Rule) -> dict[str, str]:
    parts = [("Why", [rule.why]), ("What to do", list(rule.fix))]
    parts += [("To decide it", [rule.enable])] if rule.enable else []
    plain = [
        f"{heading}: {visible(' '.join(one.split()), PROSE)}"
        for heading, texts in parts for one in texts if one
    ]  # fmt: skip
    marked = [
        f"**{heading}:**\n\n" + "\n".join(f"- {markdown.prose(one)}" for one in texts)
        for heading, texts in parts if any(texts)
    ]  # fmt: skip
    return {
        "text": _literal("\n".join(plain) or visible(rule.title)),
        "markdown": "\n\n".join(marked) or markdown.prose(rule.title),
    }


# Results


def _result(alarm: Alarm, rule: int) -> dict[str, Any]:
    finding = alarm.finding
    proofs = [_location(finding, one) for one in finding.evidence]
    if not proofs:  # GitHub takes no result without a line
        proofs = [_place(alarm.path, {"startLine": 1})]
    made = {
        "ruleId": visible(finding.rule.name),
        "ruleIndex": rule,
        "level": alarm.level,
        "message": _text("\n".join(_message(alarm))),
        "locations": proofs[:1],
        "partialFingerprints": {"specdiag/v1": alarm.fingerprint},
        "properties": {
            "severity": finding.severity,
            "run": visible(finding.run),
            "follows": [visible(one.id) for one in alarm.consequences],
        },
    }
    if finding.accepted:
        why = visible(finding.accepted.reason, PROSE)
        made["suppressions"] = [{"kind": "external", "status": "accepted", "justification": why}]
    if proofs[1:]:
        made["relatedLocations"] = [{"id": n, **one} for n, one in enumerate(proofs[1:], start=1)]
    return made


def _message(alarm: Alarm) -> Iterator[str]:
    yield f"{title(alarm.finding)}. {message(alarm.finding)}"
    if alarm.finding.impact:
        yield f"About {alarm.finding.impact:.0%} of the throughput is lost."
    if alarm.consequences:
        names = sorted({one.rule.name for one in alarm.consequences})
        yield f"What follows from it: {text.named(names)}."


def _location(finding: Finding, one: Evidence) -> dict[str, Any]:
    region = {"startLine": max(1, one.line), "snippet": {"text": quote.line(finding, one)}}
    return _place(place(one.path), region)


def _place(path: str, region: dict[str, Any]) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}


def _uri(path: str) -> str:
    """A path as it was named, as a reference that is relative where the path is."""
    escaped = percent(path, safe="/")
    return f"file://{escaped}" if escaped.startswith("/") else escaped


# What was not told


def _invocation(diagnosis: Diagnosis, found: int) -> dict[str, Any]:
    told: list[dict[str, Any]] = []
    if found > RESULTS:
        more = f"{text.count(found - RESULTS, 'more finding')} than the {RESULTS:,} told here"
        told.append(_notification("warning", more))
    if undecided := text.open_rules(diagnosis):
        ways = "; ".join(f"{how} ({text.named(names, 3)})" for how, names in _ways(diagnosis))
        words = f"{text.count(len(undecided), 'rule')} undecided. To decide them: {ways}"
        told.append(_notification("note", words))
    told += [_notification("warning", _words(one)) for one in diagnosis.notices[:NOTICES]]
    if rest := diagnosis.notices[NOTICES:]:
        told.append(_notification("warning", f"{len(rest):,} more warnings"))
    broken = [Notice(one.what, one.where, one.help) for one in diagnosis.broken]
    return {
        "executionSuccessful": not broken,
        "toolExecutionNotifications": told,
        "toolConfigurationNotifications": [_notification("error", _words(one)) for one in broken],
    }


def _ways(diagnosis: Diagnosis) -> list[tuple[str, list[str]]]:
    return [(visible(how), names) for how, names in text.to_switch_on(diagnosis)]


def _words(one: Notice) -> str:
    return "\n".join(visible(part, 1000) for part in (one.what, one.where, one.help) if part)


def _notification(level: str, words: str) -> dict[str, Any]:
    return {"level": level, "message": _text(words)}


def _text(words: str) -> dict[str, str]:
    return {"text": _literal(words)}


def _literal(words: str) -> str:
    """Words that no viewer takes for a placeholder, {0}, or for a link, [text](target)."""
    return _PLACEHOLDER.sub(r"{{\1}}", words).replace("](", "] (")
