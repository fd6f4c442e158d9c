"""What the reports have in common: how text and figures look, and what is said in words."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from specdiag.diagnosis import Diagnosis
from specdiag.errors import Notice
from specdiag.finding import Finding
from specdiag.report.visible import INVISIBLE as INVISIBLE
from specdiag.report.visible import visible as visible
from specdiag.rule import SEVERITIES, Cause, Rule

MISSING = "–"
ENOUGH = "give more of the same input"  # to a rule that says nothing else of it
CAUSES = 3  # of a finding, that are told
MANY = 3  # more findings of one rule than this are told together

# Text and figures


def figure(value: Any) -> str:
    """A value with as many digits as a reader wants: 1.23, 12,345, 0.0007."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return _decimal(value)
    if isinstance(value, (list, tuple)):
        return visible(", ".join(figure(one) for one in value))
    if isinstance(value, dict):
        return visible(", ".join(f"{key}: {figure(one)}" for key, one in value.items()))
    return visible(str(value))


def _decimal(value: float) -> str:
    if not math.isfinite(value):
        return MISSING
    size = abs(value)
    if size >= 1e15:
        return f"{value:.3g}"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.2g}" if size < 0.01 else f"{value:.3g}"


def share(part: float | None) -> str:
    """A share as percent: 100% only where nothing is missing."""
    if part is None or not math.isfinite(part):
        return MISSING
    return "99.9%" if 0.9995 <= part < 1 else f"{100 * part:.3g}%"


def duration_ms(ms: float | None) -> str:
    """Milliseconds in the unit that suits them."""
    if ms is None or not math.isfinite(ms):
        return MISSING
    if ms >= 120_000:
        return f"{figure(ms / 60_000)} min"
    return f"{figure(ms / 1000)} s" if ms >= 1000 else f"{figure(ms)} ms"


def count(number: int, thing: str, things: str = "") -> str:
    """A number and its thing, in the plural where it is due."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {things or thing + 's'}"


def named(names: list[str], most: int = 8) -> str:
    """The first few names of a list, and how many more there are."""
    shown = ", ".join(visible(name, 80) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def anchor(name: str, kind: str = "finding") -> str:
    """The HTML id of a finding or a run."""
    return f"{kind}-" + re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")


# Findings


@dataclass(frozen=True)
class Group:
    """Findings that are told together: a single one, or one rule on many runs."""

    findings: list[Finding]
    consequences: list[Finding]  # whatever follows from them, also at second hand

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def accepted(self) -> bool:
        return self.first.accepted is not None


def groups(diagnosis: Diagnosis) -> list[Group]:
    """Every finding once, causes with what follows from them, in the order of the diagnosis.

    Those that are accepted come last.
    """
    by_cause: dict[str, list[Finding]] = defaultdict(list)
    for finding in diagnosis.findings:
        if finding.explained_by is not None:
            by_cause[finding.explained_by].append(finding)
    told: set[str] = set()
    following: dict[str, list[Finding]] = {}
    causes: list[Finding] = []
    # Findings that explain each other in a circle have no cause: the worst of them becomes one.
    for finding in diagnosis.causes + diagnosis.findings:
        if finding.id in told:
            continue
        told.add(finding.id)
        causes.append(finding)
        following[finding.id] = _following(finding, by_cause, told)
    causes.sort(key=lambda cause: cause.accepted is not None)
    same: dict[tuple[str, str, bool], list[Finding]] = defaultdict(list)
    for cause in causes:
        same[cause.rule.name, cause.severity, cause.accepted is None].append(cause)
    found = []
    for cause in causes:
        alike = same[cause.rule.name, cause.severity, cause.accepted is None]
        members = [cause] if len(alike) <= MANY else alike
        if members[0] is cause:
            found.append(Group(members, [one for m in members for one in following[m.id]]))
    return found


def _following(cause: Finding, by_cause: dict[str, list[Finding]], told: set[str]) -> list[Finding]:
    waiting = list(reversed(by_cause[cause.id]))
    found = []
    while waiting:
        finding = waiting.pop()
        if finding.id not in told:
            told.add(finding.id)
            found.append(finding)
            waiting += reversed(by_cause[finding.id])
    return found


def severities(findings: list[Finding]) -> str:
    """How many of which severity: 1 critical, 2 high."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(
        f"{counts[severity]:,} {severity}" for severity in SEVERITIES if counts[severity]
    )


def verdict(diagnosis: Diagnosis) -> str:
    """The whole diagnosis in one line."""
    every = groups(diagnosis)
    told = [group for group in every if not group.accepted]
    causes = [finding for group in told for finding in group.findings]
    following = [finding for group in told for finding in group.consequences]
    follow = len(following)
    known = sum(len(group.findings) for group in every if group.accepted)
    rest = f"; {count(known, 'finding')} accepted" if known else ""
    rest += f"; {count(len(diagnosis.broken), 'rule')} did not run" if diagnosis.broken else ""
    if all(finding.severity == "info" for finding in (*causes, *following)):
        return _nothing(diagnosis, len(causes), known) + rest
    them, verb = ("it" if len(causes) == 1 else "them"), ("follows" if follow == 1 else "follow")
    more = f" (and {follow:,} that {verb} from {them})" if follow else ""
    runs = {finding.run for finding in (*causes, *following)}
    where = f"{len(runs):,} of {len(diagnosis.runs):,} runs"
    if len(runs) == 1:
        where = f"run {visible(causes[0].run, 80)}"
    if len({finding.severity for finding in causes}) == 1:
        return f"{count(len(causes), f'{causes[0].severity} finding')}{more} in {where}{rest}"
    return f"{len(causes):,} findings: {severities(causes)}{more} in {where}{rest}"


def acceptance(finding: Finding) -> str:
    """Why a finding does not count, in words."""
    if finding.accepted is None:
        return ""
    on = f" on {finding.accepted.date}" if finding.accepted.date else ""
    return f"accepted{on}: {finding.accepted.reason}"


def _nothing(diagnosis: Diagnosis, told: int, known: int) -> str:
    passes, undecided = len(passed(diagnosis)), len(open_rules(diagnosis))
    notes = f"; {count(told, 'finding')} for information" if told else ""
    if not passes and not told and not known:
        if not undecided:
            return "nothing checked: no rule applies to this input"
        return f"nothing decided: {count(undecided, 'rule')} undecided"
    still = f", {undecided:,} undecided" if undecided else ""
    return (
        f"nothing {'new' if known else 'wrong'} found: {count(passes, 'rule')} passed{still}{notes}"
    )


def told(cause: Cause) -> str:
    """A cause and its test in one sentence each."""
    return f"{cause.cause.rstrip('.')}. To tell: {cause.test}"


# Rules without a finding


@dataclass(frozen=True)
class Open:
    """A rule that could not decide on some runs."""

    rule: Rule
    reasons: list[tuple[str, list[str]]]  # what is missing, and on which runs

    @property
    def runs(self) -> int:
        return sum(len(runs) for _, runs in self.reasons)


def open_rules(diagnosis: Diagnosis) -> list[Open]:
    """The rules that are undecided on a run, and what they lack there."""
    lacks: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    rules = {rule.name: rule for rule in diagnosis.rules}
    for one in diagnosis.results:
        if one.result == "undecided" and one.rule in rules:
            lack = one.reason.removesuffix(f"; {rules[one.rule].enable}")
            lacks[one.rule][lack].append(one.run)
    return [Open(rules[name], list(reasons.items())) for name, reasons in lacks.items()]


def coverage(diagnosis: Diagnosis) -> tuple[int, int]:
    """How many rules could decide wherever they apply, and how many apply to a run."""
    applying = {one.rule for one in diagnosis.results if one.result != "not applicable"}
    return len(applying) - len(open_rules(diagnosis)), len(applying)


def to_switch_on(diagnosis: Diagnosis) -> list[tuple[str, list[str]]]:
    """What would let the undecided rules decide, and which; what opens most of them first."""
    wanted: dict[str, list[str]] = defaultdict(list)
    for one in open_rules(diagnosis):
        wanted[" ".join((one.rule.enable or ENOUGH).split())].append(one.rule.name)
    return sorted(wanted.items(), key=lambda item: -len(item[1]))


def head(diagnosis: Diagnosis, most: int = 3) -> str:
    """The line below the verdict: what could be decided, and what to do about the rest."""
    decided, applying = coverage(diagnosis)
    if not applying:
        return ""
    line = f"decidable: {decided:,} of {count(applying, 'rule')}"
    wanted = to_switch_on(diagnosis)
    if not wanted:
        return line
    shown = [f"{help} ({named(rules, 2)})" for help, rules in wanted[:most]]
    rest = [f"and {len(wanted) - most:,} more, see below"] if len(wanted) > most else []
    return f"{line}; for the rest: {'; '.join(shown + rest)}"


def passed(diagnosis: Diagnosis) -> list[tuple[Rule, int]]:
    """The rules that looked and found nothing wherever they apply, and on how many runs."""
    results = _results(diagnosis)
    return [
        (rule, results[rule.name]["pass"]) for rule in diagnosis.rules
        if results[rule.name]["pass"]
        and not results[rule.name]["finding"] and not results[rule.name]["undecided"]
    ]  # fmt: skip


def inapplicable(diagnosis: Diagnosis) -> list[Rule]:
    """The rules that apply to none of the runs."""
    results = _results(diagnosis)
    return [
        rule for rule in diagnosis.rules if set(results[rule.name]) == {"not applicable"}
    ]  # fmt: skip


def _results(diagnosis: Diagnosis) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in diagnosis.results:
        counts[one.rule][one.result] += 1
    return counts


def notices(diagnosis: Diagnosis) -> list[Notice]:
    """What could not be read or run, rules first."""
    broken = [Notice(error.what, error.where, error.help) for error in diagnosis.broken]
    return broken + diagnosis.notices
