"""The header of a rule: TOML in the leading comment of its SQL file.

title, severity, why, fix, enable, explains, params   as in the rules beside this one
family   what it is about: one of FAMILIES. A rule of the user's may be of none
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

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specdiag import bundled
from specdiag.errors import SpecdiagError

SEVERITIES = ("critical", "high", "medium", "low", "info")
# Those of `trace` prove a fault on the steps of a trace.
FAMILIES = (
    "acceptance", "tree", "speed", "capacity", "startup", "runtime", "output", "metrics", "trace",
)  # fmt: skip
# Columns of a finding's row that are no values of the finding.
SPECIAL = ("run", "message", "against", "severity", "impact", "lines", "causes")


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
    family: str = ""
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
        if data.get("family", "") not in ("", *FAMILIES):
            raise ValueError(f"family {data['family']!r} is none of {', '.join(FAMILIES)}")
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
            family=data.get("family", ""),
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
