"""`specdiag rules`, `explain` and `parsers`: what specdiag knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdiag.commands.options import Parsers, Rules
from specdiag.errors import SpecdiagError


def list_rules(
    rules: Rules = None,
    format: Annotated[str, typer.Option(help="text, markdown or json.")] = "text",
    output: Annotated[
        Path | None, typer.Option(help="A folder: a Markdown page a rule, and an index.")
    ] = None,
) -> None:
    """List every rule with its severity, or all that their headers say.

    Example: specdiag rules
    """
    from specdiag import diagnosis
    from specdiag.report import catalogue, files

    _, found, broken = diagnosis.definitions([], rules or [])
    _raise_first(broken)
    text = catalogue.rules_as(found, format)
    if output is None:
        typer.echo(text)
        return
    output.mkdir(parents=True, exist_ok=True)
    for name, page in catalogue.documents(found).items():
        files.write(output / name, page)


def explain(
    rule: Annotated[str, typer.Argument(help="Name of the rule.")], rules: Rules = None
) -> None:
    """Say what a rule means, what it needs and what to do about its findings.

    Example: specdiag explain step_time_superlinear
    """
    from specdiag import diagnosis, suppress
    from specdiag.report import catalogue

    _, found, _ = diagnosis.definitions([], rules or [])
    typer.echo(catalogue.explain([*found, *suppress.RULES], rule))


def list_parsers(
    name: Annotated[str | None, typer.Argument(help="Show what this parser reads.")] = None,
    parsers: Parsers = None,
) -> None:
    """List the formats that are read, or the names and samples of one.

    Example: specdiag parsers flat_steps
    """
    from specdiag import diagnosis
    from specdiag.report import catalogue

    found, _, broken = diagnosis.definitions(parsers or [], [])
    _raise_first(broken)
    typer.echo(catalogue.parser(found, name) if name else catalogue.parsers(found))


def _raise_first(broken: list[SpecdiagError]) -> None:
    if broken:
        raise broken[0]
