"""Where a result comes from: the files with their hashes, the definitions, what the user asked."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specdiag import __version__, bundled, checked
from specdiag.config import Config
from specdiag.reading import Reading
from specdiag.rule import plain
from specdiag.source import Source

SHORT = 12  # hexadecimal digits of a version

# Where reports go says nothing of the result, and a page must not depend on its own name.
_ELSEWHERE = ("--html", "--output")


@dataclass(frozen=True)
class Input:
    """A file as it lies on disk, packed where it is packed, and what was understood of it."""

    path: str  # as the user named it
    bytes: int | None
    sha256: str | None  # None where it cannot be read any more
    format: str | None
    lines: int
    parsed: float


@dataclass(frozen=True)
class Provenance:
    """What to repeat to get the same result."""

    specdiag: str  # version
    rules: str | None  # version of the files of all rules in force
    parsers: str | None
    inputs: tuple[Input, ...] = ()
    command: str = ""
    config: str | None = None  # the file that settings were read from
    params: Mapping[str, Mapping[str, Any]] | None = None  # rule -> parameter -> what the user set
    fail_on: str | None = None
    require: tuple[str, ...] = ()
    baseline: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        found = asdict(self)
        found["inputs"] = list(found["inputs"])
        found["require"] = list(found["require"])
        found["params"] = plain(found["params"] or {})
        return found

    @staticmethod
    def from_dict(data: Any) -> Provenance:
        """What `to_dict` gave. Raises ValueError where it is something else."""
        one = checked.record(data, "provenance")
        params = one.free("params")
        return Provenance(
            specdiag=one.text("specdiag"), rules=one.maybe_text("rules"),
            parsers=one.maybe_text("parsers"),
            inputs=tuple(_input(file) for file in one.records("inputs")),
            command=one.text("command"), config=one.maybe_text("config"),
            params={rule: checked.record(values, rule).data for rule, values in params.items()},
            fail_on=one.maybe_text("fail_on"), require=one.texts("require"),
            baseline=one.maybe_text("baseline"),
        )  # fmt: skip


def _input(one: checked.Record) -> Input:
    return Input(
        one.text("path"), one.maybe_whole("bytes"), one.maybe_text("sha256"),
        one.maybe_text("format"), one.whole("lines"), one.maybe_number("parsed") or 0.0,
    )  # fmt: skip


def collect(
    readings: Sequence[Reading], settings: Config, arguments: Sequence[str], baseline: str = ""
) -> Provenance:
    """The provenance of an analysis; `arguments` are those of the command.

    Reads once more what was not hashed while it was read: it comes before `source.discard`.
    """
    return Provenance(
        specdiag=__version__,
        rules=version(bundled.definitions(bundled.RULES, settings.rules, ".sql")),
        parsers=version(
            bundled.definitions(bundled.PARSERS, [bundled.INCLUDED, *settings.parsers], ".toml")
        ),
        inputs=tuple(
            Input(
                one.source.name, one.source.size(), sha256(one.source), one.format or None,
                one.lines, round(one.parsed, 4),
            )
            for one in readings
        ),
        command=_text(command(arguments)),
        config=_text(str(settings.file)) if settings.file else None,
        params=settings.params,
        fail_on=settings.fail_on,
        require=tuple(_text(name) for name in settings.require),
        baseline=_text(baseline) if baseline else None,
    )  # fmt: skip


def version(paths: Sequence[Path]) -> str | None:
    """A short hash of definition files by name and content; None where one is gone."""
    digest = hashlib.sha256()
    try:
        for path in sorted(paths, key=lambda path: path.name):
            data = path.read_bytes()
            digest.update(b"%s\0%d\0%s" % (path.name.encode(errors="replace"), len(data), data))
    except OSError:
        return None
    return digest.hexdigest()[:SHORT]


def sha256(file: Source) -> str | None:
    """Hash of a file as it lies on disk, or None where that is no file (any more)."""
    try:
        if not file.path.is_file():  # a pipe would make us wait for ever
            return None
        if file.sha256 and file.sha256[0] == file.size():
            return file.sha256[1]
        with open(file.path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return None


def command(arguments: Sequence[str]) -> str:
    """The command for a shell, without the options that say where reports go."""
    kept = ["specdiag"]
    rest = iter(arguments)
    for one in rest:
        if one == "--":
            kept += [one, *rest]
        elif one in _ELSEWHERE:
            next(rest, None)
        elif one != "--no-html" and not one.startswith(tuple(f"{name}=" for name in _ELSEWHERE)):
            kept.append(one)
    return shlex.join(kept)


def _text(words: str) -> str:
    """Bytes of a name that are not UTF-8 as `\\xff`."""
    return words.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
