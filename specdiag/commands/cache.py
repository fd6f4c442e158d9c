"""`specdiag cache`: what is kept of files that were parsed."""

from __future__ import annotations

from typing import Annotated

import typer


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of it.")] = False,
) -> None:
    """Say what is kept of files that were parsed, so that nothing is parsed twice.

    Of large files the parsed rows are kept, in a folder of the user's, up to 2 GB, the latest used;
    `--no-cache`, or cache = false in specdiag.toml, keeps nothing.

    Example: specdiag cache
    """
    from specdiag.cache import Cache
    from specdiag.report import text

    kept = Cache()
    if clear:
        typer.echo(f"{text.count(kept.clear(), 'file')} removed from {kept.folder}")
        return
    sizes = [size for _, _, size in kept.entries()]
    mega = sum(sizes) / 1e6
    typer.echo(f"{kept.folder}: {text.count(len(sizes), 'file')}, {mega:,.1f} MB")
