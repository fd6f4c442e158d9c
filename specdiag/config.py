"""Settings from specdiag.toml, or from [tool.specdiag] in pyproject.toml.

fail_on = "high"
rules   = ["my-rules"]
parsers = ["my-parsers"]
[params.step_time_superlinear]
exponent = 1.5
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specdiag.errors import SpecdiagError

FILES = ("specdiag.toml", "pyproject.toml")
KEYS = {
    "fail_on": str, "rules": list, "parsers": list, "params": dict, "require": list,
    "assert": list, "preset": str,
}  # fmt: skip


@dataclass
class Config:
    """What the user set in a file; options on the command line come on top."""

    file: Path | None = None  # that said something
    fail_on: str | None = None
    rules: list[Path] = field(default_factory=list)
    parsers: list[Path] = field(default_factory=list)
    require: list[str] = field(default_factory=list)
    params: dict[str, dict[str, Any]] = field(default_factory=dict)
    asserts: list[dict[str, Any]] = field(default_factory=list)
    preset: str | None = None


def load(path: Path | None) -> Config:
    """The settings of a file, or of the nearest one in this folder.

    Raises SpecdiagError for a file that is missing or broken, and for a key that does not exist.
    """
    found = path or next((Path(name) for name in FILES if Path(name).is_file()), None)
    if found is None:
        return Config()
    try:
        data = tomllib.loads(found.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecdiagError(f"configuration cannot be read: {error}", str(found)) from None
    if found.name == "pyproject.toml":
        data = data.get("tool", {}).get("specdiag", {})
    for key, value in data.items():
        if key not in KEYS:
            raise SpecdiagError(
                f"unknown key {key!r} in the configuration", str(found), f"known: {', '.join(KEYS)}"
            )
        if not isinstance(value, KEYS[key]):
            raise SpecdiagError(f"key {key!r} must be a {KEYS[key].__name__}", str(found))
    if any(not isinstance(values, dict) for values in data.get("params", {}).values()):
        raise SpecdiagError(
            "key 'params' must hold a table for each rule", str(found),
            "write [params.RULE] with NAME = VALUE below it",
        )  # fmt: skip
    for key in ("rules", "parsers", "require"):
        if not all(isinstance(name, str) for name in data.get(key, [])):
            raise SpecdiagError(f"key {key!r} must be a list of names", str(found))
    home = found.parent
    return Config(
        file=found if data else None,
        fail_on=data.get("fail_on"),
        rules=[home / name for name in data.get("rules", [])],
        parsers=[home / name for name in data.get("parsers", [])],
        require=list(data.get("require", [])),
        params=data.get("params", {}),
        asserts=list(data.get("assert", [])),
        preset=data.get("preset"),
    )


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
