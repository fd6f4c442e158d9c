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
    from specdiag.progress import Line
    from specdiag.provenance import Provenance
    from specdiag.timings import Timings


def settings_of(
    config: Path | None, rules: list[Path] | None, parsers: list[Path] | None,
    param: list[str] | None, require: list[str] | None = None, fail_on: str | None = None,
    select: list[str] | None = None, ignore: list[str] | None = None,
    threads: int | None = None, memory: str = "", no_cache: bool = False,
) -> Config:  # fmt: skip
    """The settings of the file, with what options say on top.

    Raises SpecdiagError for what does not exist, and for what contradicts itself.
    """
    from specdiag import config as configuration
    from specdiag import means

    # polars listens before it is imported, which the library does.
    means.restrain(means.threads(threads, "--threads") or configuration.load(config).threads)

    from specdiag import library

    params: dict[str, dict[str, Any]] = {}
    for text in param or []:
        rule, name, value = configuration.parameter(text)
        params.setdefault(rule, {})[name] = value
    return library.settings(
        config, rules or (), parsers or (), params, require or (), fail_on,
        select or (), ignore or (), threads, memory, False if no_cache else None,
    )  # fmt: skip


def diagnose(
    paths: list[str], settings: Config, baseline: list[str] | None = None,
    wanted: list[Target] | None = None, line: Line | None = None, timings: Timings | None = None,
) -> tuple[Diagnosis, Provenance | None]:  # fmt: skip
    """Read the files and apply the rules; what went wrong goes to stderr.

    Where it comes from is known where a report wants it. Raises SpecdiagError when there is nothing
    to read, and for a name in the settings that does not exist.
    """
    from specdiag import library, progress
    from specdiag.timings import Timings

    line = line or progress.on_terminal()
    traced = any(one.kind in outputs.TRACED for one in wanted or [])
    with line:
        result, origin = library.analyze(
            paths, settings, baseline or (), line.count,
            [one.temporary for one in wanted or [] if one.temporary],
            sys.argv[1:] if traced else None, timings or Timings(told=line.tell),
        )  # fmt: skip
    for notice in (*result.notices, *result.broken):
        typer.echo(str(notice), err=True)
    return result, origin
