"""`specdiag ddtree train`: make the bundled pairs again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag.ddtree.commands.options import app, require_runtime
from specdiag.errors import SpecdiagError

if TYPE_CHECKING:
    from specdiag.ddtree.train import Progress


@app.command()
def train(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the pairs and their README.md.")
    ] = Path("ddtree-pairs"),
    pairs: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Which pairs: plain, hybrid.")
    ] = "plain,hybrid",
    seed: Annotated[int, typer.Option(help="The same seed makes the same pairs.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only see that it runs: pairs of no use, in a minute.")
    ] = False,
) -> None:
    """Make the bundled pairs from scratch, from the standard library's sources: about an hour.

    Each pair takes one CPU core. Prints the loss curves and what the pairs are worth.

    Example: specdiag ddtree train --quick
    """
    require_runtime()
    from specdiag.ddtree import train as training
    from specdiag.ddtree.recipes import RECIPES

    names = [name.strip() for name in pairs.split(",")]
    for name in names:
        if name not in RECIPES:
            known = ", ".join(RECIPES)
            raise SpecdiagError(f"no pair is called {name!r}", "--pairs", f"one of {known}")
    with _bars() as show:
        records = training.train(names, out, seed, quick, show)
    for name, record in records.items():
        for stage, losses in record["losses"].items():
            typer.echo(f"{name} {stage} loss: {training.curve(losses)}")
    typer.echo("\n" + training.table(records))
    typer.echo(f"\nPairs and README.md: {out}")


@contextmanager
def _bars() -> Iterator[Callable[[Progress], None]]:
    """A bar for each stage of each pair on stderr, or a line for each stage if it is no terminal"""
    if not sys.stderr.isatty():
        seen = set()

        def say(progress: Progress) -> None:
            if (progress.pair, progress.stage) not in seen:
                seen.add((progress.pair, progress.stage))
                typer.echo(f"{progress.pair}: {progress.stage}", err=True)

        yield say
        return
    from rich import progress as rich
    from rich.console import Console

    bar = rich.Progress(
        rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(), rich.TextColumn("{task.fields[loss]}"),
        transient=True, console=Console(stderr=True),
    )  # fmt: skip
    tasks: dict[tuple[str, str], rich.TaskID] = {}

    def show(progress: Progress) -> None:
        key = (progress.pair, progress.stage)
        loss = "" if progress.loss is None else f"loss {progress.loss:.2f}"
        if key not in tasks:
            tasks[key] = bar.add_task(" ".join(key), total=progress.total, loss=loss)
        bar.update(tasks[key], completed=progress.done, loss=loss)

    with bar:
        yield show
