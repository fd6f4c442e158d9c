"""`specdiag validate`: are the rules, formats and settings of a repository in order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdiag.errors import WRONG_USE


def validate(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Rules, formats, settings, or folders.")
    ],
) -> None:
    """Check rules, formats and settings of your own, without a log: for pre-commit and CI.

    Rules (.sql) must run on empty tables, formats (.toml) read their own samples, and
    specdiag.toml name what there is. Exits with 2 where something is wrong.

    Example: specdiag validate specdiag.toml my-rules/
    """
    from specdiag import validation
    from specdiag.report import text

    files = validation.files(paths)
    wrong = validation.mistakes(files)
    for error in wrong:
        typer.echo(str(error), err=True)
    if wrong:
        raise typer.Exit(WRONG_USE)
    typer.echo(f"{text.count(len(files), 'file')} in order")
