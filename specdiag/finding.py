"""Findings and runs as reports have them, in order, causes before consequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specdiag.rule import SEVERITIES, Cause, Rule
from specdiag.runs import in_order


@dataclass(frozen=True)
class Evidence:
    """A line that proves a finding."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Accepted:
    """Why a finding does not count: somebody has accepted it."""

    reason: str
    date: str | None = None  # of the day it was, where a baseline says so


@dataclass
class Finding:
    """One rule on one run, or on a run against another."""

    id: str
    rule: Rule
    run: str
    against: str | None
    severity: str
    message: str
    impact: float | None
    values: dict[str, Any]
    evidence: list[Evidence]
    causes: tuple[Cause, ...] = ()  # the likeliest first
    step: dict[str, Any] | None = None  # of a traced step that proves it, the columns of table step
    explained_by: str | None = None
    accepted: Accepted | None = None


@dataclass(frozen=True)
class Run:
    """A run with its files and the facts of table run."""

    name: str
    sources: list[dict[str, Any]]
    facts: dict[str, Any]


def rank(severity: str, impact: float | None, rule: str, run: str) -> tuple[Any, ...]:
    return SEVERITIES.index(severity), -(impact or 0), rule, in_order(run)


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Causes before what follows from them, and the worst first, as a diagnosis has them."""
    by_id = {finding.id: finding for finding in findings}

    def depth(finding: Finding) -> int:
        above: set[str] = set()  # a saved result may have a circle
        while finding.explained_by in by_id and finding.explained_by not in above:
            above.add(finding.explained_by)
            finding = by_id[finding.explained_by]
        return len(above)

    return sorted(
        findings, key=lambda f: (depth(f), *rank(f.severity, f.impact, f.rule.name, f.run))
    )


def explain(findings: list[Finding]) -> None:
    """Nest what follows from something else on the same run: one cause, one alarm."""
    by_id = {finding.id: finding for finding in findings}

    def follows(finding: Finding, other: Finding) -> bool:
        while finding.explained_by is not None:
            finding = by_id[finding.explained_by]
            if finding is other:
                return True
        return False

    def harmless(cause: Finding, finding: Finding) -> bool:
        # A rule that calls its own finding slight does not say what a graver one comes from.
        slight = cause.severity in ("low", "info") and cause.severity != cause.rule.severity
        return slight and rank(finding.severity, 0, "", "") < rank(cause.severity, 0, "", "")

    for finding in findings:
        for cause in findings:
            if cause is finding or finding.rule.name not in cause.rule.explains:
                continue
            if harmless(cause, finding):
                continue
            if cause.run in (finding.run, finding.against) and not follows(cause, finding):
                finding.explained_by = cause.id
                break
