"""`specdiag report`: reports from a result that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdiag.commands import outputs, tokens
from specdiag.commands.options import MaybeHtml, Tokenizer


def report(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What --output duckdb or json wrote.")
    ],
    html: MaybeHtml = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=PATH",
            help="Write any kind that `specdiag check` writes, but duckdb; PATH - is stdout.",
        ),
    ] = None,
    tokenizer: Tokenizer = None,
) -> None:
    """Make reports from a saved result, without the logs.

    A database gives the page that analyze wrote. JSON has no tables, so its page has no figures.

    Example: specdiag report result.duckdb --html report.html
    """
    from specdiag import report as kinds
    from specdiag import saved

    wanted = outputs.targets(output, html, kinds.TEXTS)
    outputs.spare(wanted, file)
    found = saved.load(file)
    for notice in (*found.diagnosis.notices, *found.diagnosis.broken):
        typer.echo(str(notice), err=True)
    outputs.write(wanted, found.diagnosis, found.store, found.provenance, tokens.read(tokenizer))
