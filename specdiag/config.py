"""Settings from specdiag.toml, or from [tool.specdiag] in pyproject.toml.

fail_on = "high"
rules   = ["my-rules"]
parsers = ["my-parsers"]
require = ["depth_contradicts_commit"]
select  = ["tree", "trace"]
ignore  = ["tree_buys_nothing"]
threads = 2
memory  = "1GB"
cache   = false
[params.step_time_superlinear]
exponent = 1.5
[[suppress]]
rule   = "acceptance_decays_with_context"
run    = "long-*"
reason = "the drafter was trained on 4k; a longer one is ordered"
until  = 2026-12-31

`preset` and `[[assert]]` are read by what checks them.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from specdiag import means
from specdiag.errors import SpecdiagError, nearest

FILES = ("specdiag.toml", "pyproject.toml")
# Key: its type, and what that is called. What holds `names` is a list of texts.
KEYS: dict[str, tuple[type, str]] = {
    "fail_on": (str, "string"), "rules": (list, "list of names"),
    "parsers": (list, "list of names"), "require": (list, "list of names"),
    "select": (list, "list of names"), "ignore": (list, "list of names"),
    "params": (dict, "table"), "suppress": (list, "list of tables: [[suppress]]"),
    "assert": (list, "list of tables: [[assert]]"), "preset": (str, "string"),
    "threads": (int, "whole number"), "memory": (str, "string"),
    "cache": (bool, "yes or no: true or false"),
}  # fmt: skip
ENTRY = ("rule", "run", "reason", "until")  # keys of [[suppress]]
_ENTRY = re.compile(r"\s*\[\[\s*(?:tool\s*\.\s*specdiag\s*\.\s*)?suppress\s*\]\]")


@dataclass(frozen=True)
class Suppression:
    """An entry of [[suppress]]: findings that are known, and why that is right."""

    rule: str  # or a family
    run: str  # a pattern: *, ? and [abc]
    reason: str
    until: date | None  # the last day that it holds
    file: str
    line: int | None  # of its heading; None where it has none
    text: str  # of that line


@dataclass
class Config:
    """What the user set in a file; options on the command line come on top."""

    file: Path | None = None  # that said something
    fail_on: str | None = None
    rules: list[Path] = field(default_factory=list)
    parsers: list[Path] = field(default_factory=list)
    require: list[str] = field(default_factory=list)
    params: dict[str, dict[str, Any]] = field(default_factory=dict)
    select: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    suppress: list[Suppression] = field(default_factory=list)
    asserts: list[dict[str, Any]] = field(default_factory=list)  # as they stand in the file
    preset: str | None = None
    threads: int | None = None
    memory: str = ""  # as DuckDB reads it; empty for what it takes
    cache: bool = True  # of files that were parsed


def load(path: Path | None) -> Config:
    """The settings of a file, or of the nearest one in this folder.

    Raises SpecdiagError for a file that is missing or broken, and for a key that does not exist.
    """
    found = path or next((Path(name) for name in FILES if Path(name).is_file()), None)
    if found is None:
        return Config()
    try:
        text = found.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecdiagError(f"configuration cannot be read: {error}", str(found)) from None
    if found.name == "pyproject.toml":
        data = _table(_table(data.get("tool", {}), "tool", found).get("specdiag", {}),
                      "tool.specdiag", found)  # fmt: skip
    _check(data, found)
    home = found.parent
    return Config(
        file=found if data else None,
        fail_on=data.get("fail_on"),
        rules=[home / name for name in data.get("rules", [])],
        parsers=[home / name for name in data.get("parsers", [])],
        require=list(data.get("require", [])),
        params=data.get("params", {}),
        select=list(data.get("select", [])),
        ignore=list(data.get("ignore", [])),
        suppress=_suppressions(data.get("suppress", []), text, found),
        asserts=data.get("assert", []),
        preset=data.get("preset"),
        threads=means.threads(data.get("threads"), str(found)),
        memory=means.memory(data.get("memory"), str(found)),
        cache=data.get("cache", True),
    )


def _table(value: Any, name: str, file: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SpecdiagError(f"{name} must be a table", str(file), f"write [{name}]")
    return value


def _check(data: dict[str, Any], file: Path) -> None:
    for key, value in data.items():
        if key not in KEYS:
            raise SpecdiagError(
                f"unknown key {key!r} in the configuration", str(file),
                nearest(key, KEYS),
            )  # fmt: skip
        kind, called = KEYS[key]
        inner = str if called.endswith("names") else dict
        if not isinstance(value, kind) or (
            isinstance(value, list) and not all(isinstance(one, inner) for one in value)
        ):
            raise SpecdiagError(f"key {key!r} must be a {called}", str(file))
    if any(not isinstance(values, dict) for values in data.get("params", {}).values()):
        raise SpecdiagError(
            "key 'params' must hold a table for each rule", str(file),
            "write [params.RULE] with NAME = VALUE below it",
        )  # fmt: skip


def _suppressions(entries: list[dict[str, Any]], text: str, file: Path) -> list[Suppression]:
    lines = [(n, one) for n, one in enumerate(text.splitlines(), start=1) if _ENTRY.match(one)]
    if len(lines) != len(entries):  # written in another way: then no line is theirs for sure
        lines = []
    return [
        _suppression(entry, n, file, *(lines[n - 1] if lines else (None, "")))
        for n, entry in enumerate(entries, start=1)
    ]


def _suppression(
    entry: dict[str, Any], number: int, file: Path, line: int | None, text: str
) -> Suppression:
    where = f"{file}:{line}" if line else str(file)
    called = f"[[suppress]] number {number}"
    for key in entry:
        if key not in ENTRY:
            help = nearest(key, ENTRY)
            raise SpecdiagError(f"unknown key {key!r} in {called}", where, help)
    for key, why in (
        ("rule", "name a rule or a family"),
        ("reason", "say why these findings are in order"),
    ):
        if not (isinstance(entry.get(key), str) and entry[key].strip()):
            raise SpecdiagError(f"{called} has no {key}", where, f'{why}: {key} = "…"')
    run, until = entry.get("run", "*"), entry.get("until")
    if not isinstance(run, str) or not run:
        raise SpecdiagError(f"run of {called} must be a pattern", where, 'as run = "ddtree-*"')
    if until is not None and (not isinstance(until, date) or isinstance(until, datetime)):
        raise SpecdiagError(
            f"until of {called} must be a date", where, "write it without quotes: 2026-12-31"
        )
    return Suppression(entry["rule"], run, entry["reason"].strip(), until, str(file), line, text)


def parameter(text: str) -> tuple[str, str, Any]:
    """RULE.NAME=VALUE as it is given on the command line.

    Raises SpecdiagError when it has another form.
    """
    left, equals, value = text.partition("=")
    rule, dot, name = left.partition(".")
    if not (equals and dot and rule and name):
        raise SpecdiagError(
            f"{text!r} is no parameter",
            "--param",
            "write RULE.NAME=VALUE, see `specdiag explain RULE`",
        )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    return rule, name, parsed
