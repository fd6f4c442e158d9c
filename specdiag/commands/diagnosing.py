"""What commands that diagnose do alike: options become settings, and progress is shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from specdiag.commands import outputs

if TYPE_CHECKING:
    from specdiag.commands.outputs import Target
    from specdiag.config import Config
    from specdiag.diagnosis import Diagnosis
    from specdiag.library import Progress
    from specdiag.provenance import Provenance

BIG = 50_000_000  # bytes of input that earn a progress bar


def settings_of(
    config: Path | None, rules: list[Path] | None, parsers: list[Path] | None,
    param: list[str] | None, require: list[str] | None = None, fail_on: str | None = None,
    select: list[str] | None = None, ignore: list[str] | None = None,
) -> Config:  # fmt: skip
    """The settings of the file, with what options say on top.

    Raises SpecdiagError for what does not exist, and for what contradicts itself.
    """
    from specdiag import config as configuration
    from specdiag import library

    params: dict[str, dict[str, Any]] = {}
    for text in param or []:
        rule, name, value = configuration.parameter(text)
        params.setdefault(rule, {})[name] = value
    return library.settings(
        config, rules or (), parsers or (), params, require or (), fail_on,
        select or (), ignore or (),
    )  # fmt: skip


def diagnose(
    paths: list[str], settings: Config, baseline: list[str] | None = None,
    wanted: list[Target] | None = None,
) -> tuple[Diagnosis, Provenance | None]:  # fmt: skip
    """Read the files and apply the rules; what went wrong goes to stderr.

    Where it comes from is known where a report wants it. Raises SpecdiagError when there is nothing
    to read, and for a name in the settings that does not exist.
    """
    from specdiag import library

    traced = any(one.kind in outputs.TRACED for one in wanted or [])
    result, origin = library.analyze(
        paths, settings, baseline or (), _progress(),
        [one.temporary for one in wanted or [] if one.temporary],
        sys.argv[1:] if traced else None,
    )  # fmt: skip
    for notice in (*result.notices, *result.broken):
        typer.echo(str(notice), err=True)
    return result, origin


def _progress() -> Progress | None:
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(transient=True, console=Console(stderr=True))
    task = bar.add_task("reading")

    def show(done: int, total: int) -> None:
        if total < BIG or bar.finished:
            return
        bar.start()
        bar.update(task, completed=done, total=total)
        if bar.finished:
            bar.stop()

    return show
