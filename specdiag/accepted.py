"""Findings that somebody looked at and accepted, so that a check fails for new ones only.

A finding is known again by its fingerprint: rule, run key, against and entity, and nothing that
another run of the same thing changes. The run key is the name of the run without dates, times of
day, long numbers and UUIDs, and of a path its last two parts: `logs/server-20260501-1230#2` is
`logs/server#2`. The entity is those of the finding's values that are names, see NAMES. Not among
them is the rank or the request that a fault shows on first: that is chance. Findings that are the
same by all this are counted, and more of them than were accepted are new.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any

from specdiag import checked
from specdiag.checked import Record
from specdiag.errors import SpecdiagError, reason
from specdiag.finding import Accepted, Finding
from specdiag.report.json import dumps

SCHEMA = 1
MARK = "accepted findings"  # what such a file says that it is
LARGEST = 1 << 25  # bytes of such a file
LONGEST = 200  # characters of a name that count
WRITERS = "write one with `specdiag baseline write FILE PATH...`"

# Values that say what a finding is about. Figures, texts, versions and places are not among them.
NAMES = frozenset({
    "architecture", "asked", "backend", "backends", "capture", "compared", "compiler", "exception",
    "field", "flag", "formula", "innermost", "kernel", "kind", "layer", "library", "missing",
    "module", "name", "other_formula", "package", "part", "pool", "settings", "stage", "symbol",
    "verified_by",
})  # fmt: skip

_DATE = r"20\d\d([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
_TIME = r"(?:[-_.T ]?[01]\d|[-_.T ]?2[0-3])[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d)?Z?"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_CHANGING = re.compile(rf"[-_. ]?(?<!\d)(?:{_UUID}|{_DATE}(?:{_TIME})?|\d{{10,}})(?!\d)")


def run_key(run: str) -> str:
    """The name of a run without what the next run of the same thing changes."""
    last = "/".join(PurePosixPath(run).parts[-2:])
    return _CHANGING.sub("", last).lstrip("-_. ")


def entity(finding: Finding) -> dict[str, str]:
    """What tells two findings of a rule on a run apart: its values that are names."""
    found = {}
    for column, value in sorted(finding.values.items()):
        if column in NAMES and isinstance(value, str) and re.search(r"[^\W\d]", value):
            # Where a file is installed is another place on the next machine.
            name = PurePosixPath(value).name if value.startswith("/") else value
            found[column] = name[:LONGEST]
    return found


def fingerprint(finding: Finding) -> str:
    """16 hexadecimal digits, the same for the same finding of another run."""
    against = None if finding.against is None else run_key(finding.against)
    parts = [finding.rule.name, run_key(finding.run), against, entity(finding)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Entry:
    """A finding, or several of one fingerprint, that are accepted."""

    fingerprint: str
    rule: str
    run: str  # the run key
    against: str | None
    entity: Mapping[str, str]
    count: int
    date: str  # of the day it was accepted: 2026-05-31
    reason: str

    @property
    def told(self) -> str:
        """The entry in a few words."""
        against = f" against {self.against}" if self.against is not None else ""
        of = ", ".join(f"{key} {value}" for key, value in self.entity.items())
        return f"{self.rule}@{self.run}{against}" + (f" ({of})" if of else "")


def mark(findings: Iterable[Finding], entries: Iterable[Entry]) -> None:
    """Mark the findings that are accepted; of those beyond an entry's count none is."""
    known = {entry.fingerprint: entry for entry in entries}
    left = {name: entry.count for name, entry in known.items()}
    for finding in findings:
        name = fingerprint(finding)
        if finding.accepted is None and left.get(name, 0) > 0:
            left[name] -= 1
            finding.accepted = Accepted(known[name].reason, known[name].date)


def entries(findings: Iterable[Finding], date: str, reason: str) -> list[Entry]:
    """An entry a fingerprint, in the order of a file."""
    found = list(findings)
    names = [fingerprint(one) for one in found]
    counts = Counter(names)
    made = {
        name: Entry(
            name, one.rule.name, run_key(one.run),
            None if one.against is None else run_key(one.against), entity(one), counts[name],
            date, reason,
        )
        for name, one in zip(names, found, strict=True)
    }  # fmt: skip
    return _ordered(made.values())


def updated(old: Iterable[Entry], present: Iterable[Entry]) -> list[Entry]:
    """The old entries and the new ones; an old one keeps its date and reason."""
    known = {entry.fingerprint: entry for entry in old}
    for one in present:
        kept = known.get(one.fingerprint)
        known[one.fingerprint] = (
            one if kept is None else replace(kept, count=max(kept.count, one.count))
        )
    return _ordered(known.values())


def pruned(old: Iterable[Entry], present: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
    """What is still found of the old entries, and what is not, with how many of each."""
    counts = {entry.fingerprint: entry.count for entry in present}
    kept, dropped = [], []
    for entry in old:
        count = min(entry.count, counts.get(entry.fingerprint, 0))
        kept += [replace(entry, count=count)] if count else []
        dropped += [replace(entry, count=entry.count - count)] if count < entry.count else []
    return _ordered(kept), _ordered(dropped)


def _ordered(found: Iterable[Entry]) -> list[Entry]:
    return sorted(found, key=lambda e: (e.rule, e.run, e.against or "", e.fingerprint))


# Files


def dump(found: Iterable[Entry]) -> str:
    """The text of a file of accepted findings."""
    return dumps({
        "schema": SCHEMA, "specdiag": MARK, "accepted": [asdict(one) for one in _ordered(found)],
    })  # fmt: skip


def is_file(path: Path) -> bool:
    """Whether this is a file of accepted findings, and no log."""
    try:
        if not path.is_file():
            return False
        with open(path, encoding="utf-8", errors="replace") as stream:
            head = stream.read(1000)
    except (OSError, ValueError):
        return False
    return bool(re.match(rf'\s*\{{.{{0,100}}?"specdiag"\s*:\s*"{MARK}"', head, re.DOTALL))


def read(path: Path) -> list[Entry]:
    """The entries of a file.

    Raises SpecdiagError for a file that is missing or something else, and for a newer schema.
    """
    try:
        if not is_file(path):
            path.stat()
            raise SpecdiagError("these are no accepted findings", str(path), WRITERS)
        if path.stat().st_size > LARGEST:
            raise SpecdiagError("this file is too large", str(path), WRITERS)
        data = Record(checked.parse(path.read_text(encoding="utf-8")), "file")
        schema = data.whole("schema")
        if schema > SCHEMA:
            raise SpecdiagError(
                f"schema version {schema} is newer than {SCHEMA}, the one read here", str(path),
                "update specdiag, or write the file again: `specdiag baseline write`",
            )  # fmt: skip
        found = [_entry(one) for one in data.records("accepted")]
    except (OSError, ValueError) as error:
        raise SpecdiagError(
            f"the accepted findings cannot be read: {reason(error)}", str(path), WRITERS
        ) from None
    twice = [name for name, n in Counter(one.fingerprint for one in found).items() if n > 1]
    if twice:
        raise SpecdiagError(f"{twice[0]} is accepted twice", str(path), "keep one of the two")
    return found


def _entry(one: Record) -> Entry:
    day = date.fromisoformat(one.text("date")).isoformat()
    if one.whole("count") < 1:
        raise ValueError(f"{one.where}.count is no number of findings")
    names: dict[str, Any] = {key: one.record("entity").text(key) for key in one.free("entity")}
    return Entry(
        one.text("fingerprint"), one.text("rule"), one.text("run"), one.maybe_text("against"),
        names, one.whole("count"), day, one.text("reason"),
    )  # fmt: skip
