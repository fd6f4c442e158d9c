"""`specdiag trend`: the same facts over many saved results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdiag.errors import SpecdiagError


def trend(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of saved results: duckdb or json.")
    ],
    format: Annotated[str, typer.Option(help="terminal or json.")] = "terminal",
) -> None:
    """Show facts over many saved results, and where they changed for good.

    Results stand in the order of their runs' start, else of their file names.

    Example: specdiag trend results/
    """
    from specdiag.compare import trend as series
    from specdiag.report import trend as report

    if format not in report.FORMATS:
        known = f"one of {', '.join(report.FORMATS)}"
        raise SpecdiagError(f"{format!r} is no format", "--format", known)
    points, notices = series.read(folder)
    series.detector()
    for notice in notices:
        typer.echo(str(notice), err=True)
    typer.echo(report.render(series.lines(points), format), nl=False)
