"""The specdiag command: options in, one library call, text out.

Nothing but typer is imported at module level, and of the commands only the one that is called:
`specdiag --help` must answer at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from specdiag import __version__, interrupt, standard
from specdiag.commands.lazy import Commands
from specdiag.errors import SpecdiagError

INTERNAL, INTERRUPTED = 101, 130
_INTERRUPTED = "Query interrupted"  # what DuckDB makes of a KeyboardInterrupt

app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Find out why speculative decoding is slow or wrong, from its logs and traces.",
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Find out why speculative decoding is slow or wrong, from its logs and traces."""
    if show:
        typer.echo(f"specdiag {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; a user's mistake is three lines, a traceback is always our fault."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SpecdiagError as error:
        typer.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if isinstance(error, OSError) and (told := standard.refused(error)):
            typer.echo(str(told), err=True)
            sys.exit(told.exit_code)
        if str(error) == _INTERRUPTED:
            sys.exit(INTERRUPTED)
        if type(error).__name__ == "OutOfMemoryException":
            what = "it does not fit into the memory that it may have"
            typer.echo(
                SpecdiagError(what, "", "give it more with --memory, or fewer files"), err=True
            )
            sys.exit(INTERNAL)
        import traceback

        traceback.print_exc()
        typer.echo(
            "error: specdiag made a mistake\nhelp: please report the lines above with the command",
            err=True,
        )
        sys.exit(INTERNAL)


def run() -> None:
    """The same as a process of its own, which leaves at once when it is interrupted.

    To wait for what threads are at, and to tidy memory up, takes seconds.
    """
    interrupt.listen()
    standard.prepare()
    try:
        main()
    except SystemExit as left:
        if left.code != INTERRUPTED:
            raise
        if spill := sys.modules.get("specdiag.spill"):
            spill.remove()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
