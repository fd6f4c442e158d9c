"""`specdiag query`: questions of one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from specdiag.commands.options import Parsers, filled_from


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT; see `DESCRIBE` and `SHOW TABLES`.")],
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATH]...")] = None,
    format: Annotated[str, typer.Option(help="table, csv or json.")] = "table",
    parsers: Parsers = None,
) -> None:
    """Ask your own question of the tables that the rules read.

    Example: specdiag query "SELECT run, count(*) FROM decode GROUP BY run" sample_logs/
    """
    from specdiag.report import catalogue

    with filled_from(paths or [], parsers) as filled:
        filled.seal()
        typer.echo(catalogue.table(filled, sql, format))
