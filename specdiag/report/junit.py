"""A diagnosis as JUnit XML: a test suite a run, a test case a rule.

A cause is a failure. What follows from one is skipped, as is what is accepted or could not be
decided: none of it passed. Findings for information fail nothing; a broken rule is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from specdiag.assertions import Verdict
from specdiag.diagnosis import Diagnosis
from specdiag.errors import note
from specdiag.finding import Run
from specdiag.report import text
from specdiag.report.alarms import Alarm, acceptance, alarms, lines, message, title
from specdiag.report.text import visible
from specdiag.rule import Decision

NAME = 200  # characters of the name of a run or a rule
TOLD = 10  # findings of one rule on one run that are told in full
NOTICES = 100  # of what could not be read

# XML 1.0 has no way to write these, not even by number.
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def render(diagnosis: Diagnosis) -> str:
    """The diagnosis, log text escaped."""
    root = Element("testsuites", name="specdiag")
    causes: dict[tuple[str, str], list[Alarm]] = defaultdict(list)
    follows: dict[tuple[str, str], str] = {}
    for alarm in alarms(diagnosis):
        causes[alarm.finding.run, alarm.finding.rule.name].append(alarm)
        for one in alarm.consequences:
            follows.setdefault((one.run, one.rule.name), message(alarm.finding))
    results: dict[str, dict[str, Decision]] = defaultdict(dict)
    for decision in diagnosis.results:
        results[decision.run][decision.rule] = decision
    for place, name in [*causes, *follows]:  # a saved result may lack the decision
        results[place].setdefault(name, Decision(name, place, "finding", ""))
    enable = {rule.name: " ".join(rule.enable.split()) for rule in diagnosis.rules}
    for run in diagnosis.runs:
        suite = _suite(root, run)
        for name, decision in sorted(results[run.name].items()):
            key = run.name, name
            if decision.result != "not applicable" or key in causes or key in follows:
                case = SubElement(
                    suite, "testcase", classname=visible(run.name, NAME), name=visible(name, NAME)
                )
                _outcome(
                    case, decision, causes.get(key, []), follows.get(key), enable.get(name, "")
                )
        for verdict in diagnosis.assertions:
            if verdict.run == run.name:
                _asserted(suite, verdict)
        _count(suite)
    if diagnosis.broken or diagnosis.notices or any(not one.run for one in diagnosis.assertions):
        _own(root, diagnosis)
    for attribute in ("tests", "failures", "errors"):
        root.set(attribute, str(sum(int(suite.get(attribute, 0)) for suite in root)))
    _clean(root)
    ElementTree.indent(root, " ")
    written = ElementTree.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}\n'


def _suite(root: Element, run: Run) -> Element:
    suite = SubElement(root, "testsuite", name=visible(run.name, NAME))
    if run.facts:
        properties = SubElement(suite, "properties")
        for name, value in run.facts.items():
            SubElement(properties, "property", name=visible(name), value=visible(str(value)))
    return suite


def _outcome(
    case: Element, decision: Decision, found: list[Alarm], cause: str | None, enable: str
) -> None:
    failed = [one for one in found if one.counts and one.finding.severity != "info"]
    if failed:
        first = failed[0].finding
        more = f" (and {text.count(len(failed) - 1, 'more finding')})" if failed[1:] else ""
        said = f"{title(first)}: {visible(first.message, NAME)}{more}"
        failure = SubElement(case, "failure", type=first.severity, message=said)
        failure.text = _told(failed)
    elif found:
        if not any(one.counts for one in found):
            SubElement(case, "skipped", message=acceptance(found[0].finding))
        SubElement(case, "system-out").text = _told(found)
    elif cause is not None:
        SubElement(case, "skipped", message=f"follows from {cause}")
    elif decision.result == "undecided":
        lack = visible(decision.reason.removesuffix(f"; {enable}"), NAME)
        how = visible(enable or text.ENOUGH)
        SubElement(case, "skipped", message=f"undecided: {lack}; to decide it: {how}")
    elif decision.result == "finding":
        SubElement(case, "skipped", message="its finding is not part of this result")


def _asserted(suite: Element, verdict: Verdict) -> None:
    """An assertion is a case of its own; what matches nothing is an error."""
    name = visible(verdict.name, NAME)
    case = SubElement(
        suite, "testcase", classname=visible(verdict.run or "specdiag", NAME), name=name
    )
    kind = {"failed": "failure", "undecided": "skipped", "unmatched": "error"}.get(verdict.result)
    if kind:
        told = SubElement(case, kind, message=visible(verdict.message, 2 * NAME))
        if kind != "skipped":
            told.set("type", "assertion")


def _told(found: list[Alarm]) -> str:
    parts = ["\n".join(lines(alarm)) for alarm in found[:TOLD]]
    if rest := found[TOLD:]:
        parts.append(f"and {text.count(len(rest), 'more finding')}")
    return "\n\n".join(parts)


def _own(root: Element, diagnosis: Diagnosis) -> None:
    """A suite of what is about no run: rules that do not run, files that were not read."""
    suite = SubElement(root, "testsuite", name="specdiag")
    for number, one in enumerate(diagnosis.broken, start=1):
        case = SubElement(suite, "testcase", classname="specdiag", name=f"definition {number}")
        error = SubElement(case, "error", type="broken", message=visible(one.what))
        error.text = _lines(note("error", one.what, one.where, one.help).splitlines())
    for verdict in diagnosis.assertions:
        if not verdict.run:
            _asserted(suite, verdict)
    if told := diagnosis.notices[:NOTICES]:
        more = len(diagnosis.notices) - len(told)
        written = [line for one in told for line in str(one).splitlines()]
        written += [f"and {more:,} more"] if more else []
        SubElement(suite, "system-out").text = _lines(written)
    _count(suite)


def _lines(words: Iterable[str]) -> str:
    return "\n".join(visible(line, 1000) for line in words)


def _count(suite: Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for element, attribute in _COUNTED.items():
        suite.set(attribute, str(sum(case.find(element) is not None for case in cases)))


def _clean(root: Element) -> None:
    for one in root.iter():
        if one.text:
            one.text = _possible(one.text)
        for name, value in one.attrib.items():
            one.set(name, _possible(value))


def _possible(words: str) -> str:
    return _FORBIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", words)
