"""`specdiag compare`: is B really better than A?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdiag.commands.options import Parsers
from specdiag.errors import SpecdiagError


def compare(
    arms: Annotated[
        list[str],
        typer.Argument(metavar="A B...", help="Logs, folders, results saved as duckdb, or runs."),
    ],
    run_a: Annotated[str | None, typer.Option(help="The run of A, where it has several.")] = None,
    run_b: Annotated[str | None, typer.Option(help="The run of B.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Compare all arms with each other, not with the first.")
    ] = False,
    margin: Annotated[
        float, typer.Option(help="A difference below this share does not matter.")
    ] = 0.05,
    format: Annotated[str, typer.Option(help="terminal, markdown or json.")] = "terminal",
    output: Annotated[
        Path | None, typer.Option(help="Write to this file, not to standard output.")
    ] = None,
    parsers: Parsers = None,
) -> None:
    """Compare runs: what differs, by how much, how sure that is, and why.

    Each argument is an arm; one path alone is compared run by run with its first; names of runs
    choose among the runs of the paths. B is judged against A: better, worse, no difference larger
    than so much, undecided, or not comparable.

    Example: specdiag compare sample_logs/founding-1-depth-against-commit
    """
    from specdiag import diagnosis
    from specdiag.compare import arms as read
    from specdiag.compare import compare_all
    from specdiag.report import compare as report
    from specdiag.report import files

    if format not in report.FORMATS:
        known = f"one of {', '.join(report.FORMATS)}"
        raise SpecdiagError(f"{format!r} is no format", "--format", known)
    if not 0 < margin < 1:
        raise SpecdiagError(f"{margin:g} is no margin", "--margin", "a share: 0.05 is 5 %")
    found, _, broken = diagnosis.definitions(parsers or [], [])
    if broken:
        raise broken[0]
    paths, names = read.split(arms)
    if not paths:
        raise SpecdiagError(
            "no such file or folder", names[0], "name a path; names of runs come beside it"
        )
    with read.read(paths, found) as given:
        for notice in read.notices(given):
            typer.echo(str(notice), err=True)
        result = compare_all(read.choose(given, names, run_a, run_b), margin, every)
    text = report.render(result, format)
    if output is None:
        typer.echo(text, nl=False)
    else:
        files.write(output, text)
