"""The corpus: the scenarios of corpus/scenarios.toml as files, and what is said of them.

One analysis reads many logs: each stands in a folder and is of a model of its own, so that no log
has to do with another, and the time goes into rules instead of into starting them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutations
from mutations import OPERATORS, Files

from specdiag import diagnosis, source
from specdiag.finding import Finding

FOLDER = Path(__file__).with_name("corpus")
ALARMING = ("critical", "high", "medium")


@dataclass(frozen=True)
class Case:
    """A scenario in one version."""

    name: str
    version: str
    server: dict[str, Any]
    fault: str
    amount: float
    expect: tuple[str, ...]
    also: tuple[str, ...]
    never: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version.replace(' ', '-')}"

    @property
    def healthy(self) -> bool:
        return not self.expect

    def files(self) -> Files:
        one = mutations.server(self.version, self.id).but(**self.server)
        return OPERATORS[self.fault].make(one, self.amount) if self.fault else mutations.log(one)


def cases() -> list[Case]:
    """Every scenario in every version."""
    data = tomllib.loads((FOLDER / "scenarios.toml").read_text(encoding="utf-8"))
    found = []
    for one in data["scenario"]:
        fault = one.get("fault", "")
        server = {key: _tuples(value) for key, value in one.get("server", {}).items()}
        server |= {"draft": None} if server.get("draft") == "" else {}
        for version in one["versions"]:
            found.append(Case(
                name=one.get("name", fault), version=version, server=server, fault=fault,
                amount=one.get("amount", OPERATORS[fault].sick if fault else 0.0),
                expect=tuple(one.get("expect", [fault] if fault else [])),
                also=tuple(one.get("also", [])), never=tuple(one.get("never", [])),
            ))  # fmt: skip
    return found


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Said:
    """What an analysis says of one folder."""

    findings: list[Finding]
    passed: set[str]
    parsed: float
    read: int

    def rules(self) -> set[str]:
        return {one.rule.name for one in self.findings}

    def alarms(self) -> set[str]:
        """Of medium severity or worse, consequences of another aside."""
        return {
            one.rule.name
            for one in self.findings
            if one.severity in ALARMING and one.explained_by is None
        }


def judge(
    folder: Path, wanted: Iterable[tuple[str, Callable[[], Files]]], rules: Any = None
) -> dict[str, Said]:
    """Write the files of each name below the folder, analyse them all at once, and part the findings."""
    names = []
    for name, make in wanted:
        (folder / name).mkdir(parents=True)
        names.append(name)
        for file, text in make().items():
            (folder / name / file).write_text(text, encoding="utf-8")
    parsers, bundled, broken = diagnosis.definitions([], [])
    assert not broken, broken
    found, _ = diagnosis.analyze(source.find([str(folder)]), parsers, rules or bundled, {})
    assert not found.broken, found.broken[0]
    return part(found, folder, names)


def part(found: diagnosis.Diagnosis, folder: Path, names: list[str]) -> dict[str, Said]:
    """The findings of one analysis by the folders that they are in."""

    def inside(path: str) -> str:
        return Path(path).relative_to(folder).parts[0]

    where = {run.name: inside(run.sources[0]["path"]) for run in found.runs}
    for run in found.runs:
        assert {inside(one["path"]) for one in run.sources} == {where[run.name]}, (
            f"{run.name} is of two folders"
        )
    for one in found.findings:
        assert one.against is None or where[one.against] == where[one.run], (
            f"{one.id} compares strangers"
        )
    return {
        name: Said(
            findings=[one for one in found.findings if where[one.run] == name],
            passed={one.rule for one in found.results if one.result == "pass" and where[one.run] == name},
            parsed=min((one["parsed"] or 0 for run in found.runs if where[run.name] == name for one in run.sources), default=0),
            read=sum(where[run.name] == name for run in found.runs),
        )
        for name in names
    }  # fmt: skip
