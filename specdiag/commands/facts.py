"""`specdiag facts`: the figures of a run, each with its unit, its interval and its source."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from specdiag.commands.options import Parsers, filled_from
from specdiag.errors import NOTHING_READ, SpecdiagError


def facts(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Logs, folders, archives, globs, or - for stdin."),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only runs of this name; * is anything.")
    ] = None,
    format: Annotated[str, typer.Option(help="table, json or csv.")] = "table",
    parsers: Parsers = None,
) -> None:
    """List the facts of runs; without PATH, the metrics that [[assert]] can hold.

    Example: specdiag facts sample_logs/founding-1-depth-against-commit
    """
    from specdiag import fact
    from specdiag.report import facts as report

    if format not in report.FORMATS:
        raise SpecdiagError(
            f"{format!r} is no format", "--format", f"one of {', '.join(report.FORMATS)}"
        )
    if not paths:
        typer.echo(report.catalogue(fact.metrics().values(), format))
        return
    with filled_from(paths, parsers) as filled:
        found = fact.facts(filled)
    if not found:
        raise SpecdiagError(
            "no run has a fact", ", ".join(paths[:3]),
            "give logs, traces, request records or benchmark output", NOTHING_READ,
        )  # fmt: skip
    kept = [one for one in found if run is None or fnmatchcase(one.run, run)]
    if not kept:
        names = sorted({one.run for one in found})
        raise SpecdiagError(
            f"no run is called {run}", "--run", f"there are: {', '.join(names[:10])}"
        )
    typer.echo(report.render(kept, format))
