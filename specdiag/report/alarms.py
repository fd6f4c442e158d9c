"""One cause, one alarm: what the formats have in common that give programs a result a finding."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from specdiag.accepted import fingerprint
from specdiag.diagnosis import Diagnosis
from specdiag.finding import Finding
from specdiag.report import quote, text
from specdiag.report.text import visible

LEVELS = {
    "critical": "error", "high": "error", "medium": "warning", "low": "warning", "info": "note",
}  # fmt: skip
LONGEST_PATH = 4096  # characters; a longer name is no file
MESSAGE = 1000  # characters
PROSE = 2000  # characters of a step to take, or of a title
SHOWN = 10  # consequences, or steps to take, that are told


@dataclass(frozen=True)
class Alarm:
    """A cause with whatever follows from it, also at second hand."""

    finding: Finding
    consequences: list[Finding]
    fingerprint: str  # no other alarm of the diagnosis has it
    path: str  # of the first line that proves it, or of the first file of its run
    line: int

    @property
    def level(self) -> str:
        """error, warning or note."""
        return LEVELS[self.finding.severity]

    @property
    def counts(self) -> bool:
        """Whether nobody has accepted it."""
        return self.finding.accepted is None


def alarms(diagnosis: Diagnosis) -> list[Alarm]:
    """Every cause, the worst first."""
    roots = {one.id for group in text.groups(diagnosis) for one in group.findings}
    parents = {one.id: one.explained_by for one in diagnosis.findings}
    following: dict[str, list[Finding]] = defaultdict(list)
    for finding in diagnosis.findings:
        if finding.id not in roots:
            following[_root(finding.id, parents, roots)].append(finding)
    files = {run.name: run.sources[0]["path"] for run in diagnosis.runs if run.sources}
    seen: Counter[str] = Counter()
    found = []
    for finding in diagnosis.findings:
        if finding.id not in roots:
            continue
        mark = fingerprint(finding)
        seen[mark] += 1
        if seen[mark] > 1:
            mark = hashlib.sha256(f"{mark}#{seen[mark]}".encode()).hexdigest()[: len(mark)]
        path, line = files.get(finding.run, finding.run), 1
        if finding.evidence:
            path, line = finding.evidence[0].path, finding.evidence[0].line
        found.append(Alarm(finding, following[finding.id], mark, place(path), max(1, line)))
    return found


def _root(name: str, parents: dict[str, str | None], roots: set[str]) -> str:
    while name not in roots:
        name = parents[name] or ""
    return name


def place(path: str) -> str:
    """A path as services want it: no ./ in front."""
    shown = visible(path, LONGEST_PATH)
    while shown.startswith("./"):
        shown = shown[2:].lstrip("/")
    return shown or "."


def title(finding: Finding) -> str:
    """The rule's title on one line."""
    return visible(" ".join(finding.rule.title.split()), PROSE)


def message(finding: Finding) -> str:
    """What was found, and where, on one line."""
    against = f" against {visible(finding.against, 80)}" if finding.against else ""
    return f"{visible(finding.run, 80)}{against}: {visible(finding.message, MESSAGE)}"


def acceptance(finding: Finding) -> str:
    """Why it does not count, on one line."""
    return visible(text.acceptance(finding), MESSAGE)


def lines(alarm: Alarm) -> Iterator[str]:
    """All there is to say of it: what, the lines that prove it, what to do, what follows."""
    finding = alarm.finding
    yield message(finding)
    if finding.accepted:
        yield acceptance(finding)
    if finding.impact:
        yield f"About {finding.impact:.0%} of the throughput is lost."
    for proof in finding.evidence:
        yield f"  {visible(proof.path, 160)}:{proof.line}: {quote.line(finding, proof)}"
    for number, step in enumerate(finding.rule.fix[:SHOWN], start=1):
        yield f"To do, {number}: {visible(' '.join(step.split()), PROSE)}"
    for one in alarm.consequences[:SHOWN]:
        yield f"Follows from it, {one.severity}: {title(one)} ({visible(one.rule.name, 80)})"
    if rest := alarm.consequences[SHOWN:]:
        yield f"Follows from it: {len(rest):,} more"
