"""What commands share: options, and files that become a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag.errors import NOTHING_READ, SpecdiagError

if TYPE_CHECKING:
    from specdiag.store import Store

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Logs, folders, archives, globs, or - for stdin."),
]
Parsers = Annotated[list[Path] | None, typer.Option(help="A folder (or file) with more parsers.")]
Rules = Annotated[list[Path] | None, typer.Option(help="A folder (or file) with more rules.")]

MaybeHtml = Annotated[Path | None, typer.Option("--html", help="Write an HTML report, too.")]

Tokenizer = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="tokenizer.json, or a folder that has one: text in trees."),
]
Baseline = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RUN|PATH|FILE",
        help="Compare every other run with this one (files are read along), or count none of the "
        "findings of this file of accepted ones.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="RUN|PATH",
        help="Compare every other run with this one; files are read along.",
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE|FAMILY", help="Run these rules only; a list may have commas."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE|FAMILY", help="Do not run these rules; a list may have commas."),
]
Require = Annotated[
    list[str] | None, typer.Option(metavar="RULE", help="Exit with 3 if this rule is undecided.")
]
Param = Annotated[
    list[str] | None, typer.Option(metavar="RULE.NAME=VALUE", help="Set a threshold of a rule.")
]
Threads = Annotated[int | None, typer.Option(metavar="N", help="Use no more than so many cores.")]
Memory = Annotated[
    str, typer.Option(metavar="SIZE", help="Let the database take no more, as 1GB or 500MB.")
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Parse again, and keep nothing: see `specdiag cache`.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress on a terminal.")]
ShowTimings = Annotated[
    bool, typer.Option("--timings", help="Say on stderr where the time went, part by part.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Instead of ./specdiag.toml.")]


@contextmanager
def filled_from(paths: list[str], parsers: list[Path] | None) -> Iterator[Store]:
    """The files as a filled store; what could not be read goes to stderr.

    Without paths the store is empty. Raises SpecdiagError for a user's broken parser.
    """
    from specdiag import cache, diagnosis, means, source

    found, _, broken = diagnosis.definitions(parsers or [], [])
    if broken:
        raise broken[0]
    files = source.find(paths) if paths else []
    try:
        filled = diagnosis.fill(files, found, means=means.Means(cache=cache.Cache()))
        for notice in filled.notices:
            typer.echo(str(notice), err=True)
        yield filled
    finally:
        source.discard(files)


@contextmanager
def traced(paths: list[str], parsers: list[Path] | None) -> Iterator[Store]:
    """The same for files that hold steps.

    Raises SpecdiagError when none of them does.
    """
    with filled_from(paths, parsers) as filled:
        if not filled.rows("SELECT 1 FROM step LIMIT 1"):
            raise SpecdiagError(
                "there is no step trace",
                ", ".join(paths[:3]),
                "record one with `specdiag ddtree generate --trace`, or print one JSON object a "
                "step: see `specdiag parsers flat_steps`",
                NOTHING_READ,
            )
        yield filled
