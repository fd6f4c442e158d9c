"""[[suppress]] of the settings: findings that are in order, and entries that are not (any more).

An entry that nothing matches, or whose last day is over, is itself a finding: else the list of
what nobody looks at only grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from specdiag import selection
from specdiag.config import Suppression
from specdiag.diagnosis import Diagnosis
from specdiag.finding import Accepted, Evidence, Finding, ranked
from specdiag.header import Rule
from specdiag.rule import Decision


def _of_settings(name: str, title: str, why: str, fix: str) -> Rule:
    return Rule(name, Path(f"{name}.sql"), "", title, "low", why, (fix,), {}, {})


UNUSED = _of_settings(
    "suppress_unused", "A suppression that nothing matches",
    "The fault is gone, or the run has another name: the entry would hide the next such finding.",
    "Take the entry out of the settings, or correct its rule and run.",
)  # fmt: skip
EXPIRED = _of_settings(
    "suppress_expired", "The last day of a suppression is over",
    "The entry was to hold until a day that has passed, and suppresses nothing any more.",
    "Mend what it stood for and take it out, or give it another day and say why.",
)  # fmt: skip
RULES = (UNUSED, EXPIRED)  # of the settings, not of logs: they have no SQL


def check(entries: Iterable[Suppression], rules: Sequence[Rule]) -> None:
    """Raises SpecdiagError for an entry whose rule does not exist."""
    for entry in entries:
        where = f"{entry.file}:{entry.line}" if entry.line else entry.file
        selection.known(entry.rule, rules, where)


def apply(
    result: Diagnosis, entries: Iterable[Suppression], rules: Sequence[Rule], today: date
) -> None:
    """Mark the findings that an entry suppresses; add those that entries themselves are.

    `rules` are all that there are, selected or not.
    """
    own: list[Finding] = []
    found = list(result.findings)
    ran = {rule.name for rule in result.rules}
    for entry in entries:
        meant = {rule.name for rule in rules if entry.rule in (rule.name, rule.family)}
        hits = [
            one for one in found if one.rule.name in meant and fnmatchcase(one.run, entry.run)
        ]  # fmt: skip
        if entry.until is not None and today > entry.until:
            own += _own(EXPIRED, entry, result, hits)
        elif hits:
            for one in hits:
                one.accepted = one.accepted or Accepted(entry.reason)
        elif meant & ran:
            own += _own(UNUSED, entry, result, hits)
    if own:
        _add(result, own)


def _own(rule: Rule, entry: Suppression, result: Diagnosis, hits: list[Finding]) -> list[Finding]:
    """An entry as a finding on the run that it is about, or else on the first."""
    names = [run.name for run in result.runs]
    run = next(
        (name for name in (*(one.run for one in hits), *names) if fnmatchcase(name, entry.run)),
        next(iter(names), None),
    )
    if run is None:
        return []
    what = f"{entry.rule} is suppressed on {entry.run}"
    if rule is UNUSED:
        message = f"{what}, and there is no such finding"
    else:
        there = f"of {len(hits)} findings" if len(hits) != 1 else "of 1 finding"
        message = f"{what} until {entry.until}, which is over: {there} none is suppressed"
    until = entry.until.isoformat() if entry.until else None
    values = {"suppressed": entry.rule, "runs": entry.run, "reason": entry.reason, "until": until}
    evidence = [Evidence(entry.file, entry.line, entry.text)] if entry.line else []
    return [Finding("", rule, run, None, rule.severity, message, None, values, evidence)]


def _add(result: Diagnosis, own: list[Finding]) -> None:
    seen: Counter[str] = Counter()
    for one in own:
        name = f"{one.rule.name}@{one.run}"
        seen[name] += 1
        one.id = name if seen[name] == 1 else f"{name}#{seen[name]}"
    result.findings[:] = ranked([*result.findings, *own])
    result.rules += [rule for rule in RULES if any(one.rule is rule for one in own)]
    places = sorted({(one.rule.name, one.run) for one in own})
    result.results += [Decision(rule, run, "finding", "") for rule, run in places]
