"""The specdiag command: options in, one library call, text out.

Nothing but typer is imported at module level: `specdiag --help` must answer at once.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag import __version__
from specdiag.commands import analyze, baseline, ledger, report, schema, stops, tree, whatif
from specdiag.commands.options import Parsers, Rules
from specdiag.ddtree import commands as ddtree
from specdiag.errors import SpecdiagError

if TYPE_CHECKING:
    from specdiag.store import Store

INTERNAL, INTERRUPTED = 101, 130
_INTERRUPTED = "Query interrupted"  # what DuckDB makes of a KeyboardInterrupt

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Find out why speculative decoding is slow or wrong, from its logs and traces.",
)

app.add_typer(ddtree.app, name="ddtree")
app.add_typer(baseline.app, name="baseline")


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Find out why speculative decoding is slow or wrong, from its logs and traces."""
    if show:
        typer.echo(f"specdiag {__version__}")
        raise typer.Exit


app.command()(analyze.analyze)
app.command()(analyze.check)


@app.command("rules")
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


@app.command()
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


@app.command("parsers")
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


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="One SELECT; see `DESCRIBE` and `SHOW TABLES`.")],
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATH]...")] = None,
    format: Annotated[str, typer.Option(help="table, csv or json.")] = "table",
    parsers: Parsers = None,
) -> None:
    """Ask your own question of the tables that the rules read.

    Example: specdiag query "SELECT run, count(*) FROM decode GROUP BY run" sample_logs/
    """
    from specdiag import diagnosis, source
    from specdiag.report import catalogue

    found, _, broken = diagnosis.definitions(parsers or [], [])
    _raise_first(broken)
    files = source.find(paths) if paths else []
    try:
        filled = diagnosis.fill(files, found)
        _warn(filled)
        typer.echo(catalogue.table(filled, sql, format))
    finally:
        source.discard(files)


app.command()(tree.tree)
app.command()(whatif.whatif)
app.command()(stops.stops)
app.command()(ledger.ledger)
app.command()(report.report)
app.command()(schema.schema)


def _warn(filled: Store) -> None:
    for notice in filled.notices:
        typer.echo(str(notice), err=True)


def _raise_first(broken: list[SpecdiagError]) -> None:
    if broken:
        raise broken[0]


def main() -> None:
    """Run the command; a user's mistake is three lines, a traceback is always our fault."""
    try:
        app()
    except SpecdiagError as error:
        typer.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if str(error) == _INTERRUPTED:
            sys.exit(INTERRUPTED)
        traceback.print_exc()
        typer.echo(
            "error: specdiag made a mistake\nhelp: please report the lines above with the command",
            err=True,
        )
        sys.exit(INTERNAL)
