"""Where reports go: --html and --output, and the terminal for what does not go to stdout."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specdiag.errors import SpecdiagError

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdiag.diagnosis import Diagnosis
    from specdiag.progress import Line
    from specdiag.provenance import Provenance
    from specdiag.store import Store
    from specdiag.timings import Timings

STDOUT = "-"
TRACED = ("html", "duckdb")  # kinds that say where the result comes from


@dataclass(frozen=True)
class Target:
    """A report that is wanted. `temporary` is where a database is written first."""

    kind: str
    path: str
    temporary: Path | None = None


def targets(given: list[str] | None, html: Path | None, kinds: tuple[str, ...]) -> list[Target]:
    """The reports of `--output KIND=PATH` and `--html`.

    Raises SpecdiagError for another kind, for two reports in one file, and where a database cannot
    be written.
    """
    from specdiag.report import files

    found: list[Target] = []
    taken: set[str] = set()
    for text in [*(given or []), *([f"html={html}"] if html else [])]:
        kind, equals, path = text.partition("=")
        if kind not in kinds or not equals or not path:
            raise SpecdiagError(
                f"{text!r} is no output", "--output", f"KIND=PATH, KIND one of {', '.join(kinds)}"
            )
        place = path if path == STDOUT else os.path.realpath(path)
        if place in taken and not _keeps_both(path):
            raise SpecdiagError(
                "two reports go to one file", path, "name another file for one of them"
            )
        taken.add(place)
        if kind != "duckdb":
            found.append(Target(kind, path))
        elif path == STDOUT:
            raise SpecdiagError(
                "a database cannot go to standard output", f"--output {text}",
                "name a file: --output duckdb=FILE",
            )  # fmt: skip
        else:
            found.append(Target(kind, path, files.reserve(Path(path))))
    return found


def _keeps_both(path: str) -> bool:
    """A device, as /dev/null, or a pipe: nothing in it is replaced."""
    return path != STDOUT and os.path.exists(path) and not os.path.isfile(path)


def spare(wanted: list[Target], path: Path) -> None:
    """Raises SpecdiagError where a report would replace the file that it is made from."""
    for one in wanted:
        if one.path != STDOUT and os.path.realpath(one.path) == os.path.realpath(path):
            raise SpecdiagError(
                "a report would replace the result that it is made from", one.path,
                "name another file",
            )  # fmt: skip


def write(
    wanted: list[Target], result: Diagnosis, store: Store | None, origin: Provenance | None,
    tokens: Callable[[int], str] | None = None, line: Line | None = None,
    timings: Timings | None = None,
) -> None:  # fmt: skip
    """Write the reports; tell the result where none of them is on standard output."""
    from specdiag import progress, report
    from specdiag.report import files, terminal
    from specdiag.timings import Timings

    line = line or progress.on_terminal()
    timings = timings or Timings(told=line.tell)
    alone = any(one.path == STDOUT for one in wanted)
    if not alone:
        with timings.part("report", "terminal"):
            told = terminal.render(result, colour=_colour(), width=terminal.width())
        typer.echo(told)
    for one in wanted:
        if one.temporary is not None and store is not None and origin is not None:
            from specdiag.report import duckdb

            with line, timings.part("report", one.kind):
                duckdb.write(Path(one.path), one.temporary, result, store, origin)
            continue
        with line, timings.part("report", one.kind):
            text = report.render(one.kind, result, store, origin, tokens)
        if one.path == STDOUT:  # the same bytes as in a file
            typer.echo(text.encode("utf-8", "backslashreplace"), nl=not text.endswith("\n"))
        else:
            files.write(Path(one.path), text)
            if one.kind == "html" and not alone:
                typer.echo(f"\nReport: {one.path}")


def _colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
