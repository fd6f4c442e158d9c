"""`specdiag ddtree detect`: whether the rules find what is broken, and nothing else."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from specdiag.ddtree.commands.options import app, progress_bar, require_runtime, within


@app.command()
def detect(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables there, as Markdown.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One run of each fault, few sound ones: a minute.")
    ] = False,
    processes: Annotated[int, typer.Option(help="Runs that are made beside each other.")] = 2,
) -> None:
    """Break the bundled pairs in every known way, and see what the rules make of the traces.

    Exit code 1 if a fault is mostly missed, fewer than 90 % are named, or a sound run alarms.

    Example: specdiag ddtree detect --quick
    """
    require_runtime()
    from specdiag.ddtree import detect as bench
    from specdiag.ddtree import detection

    within("--processes", processes, 1, 64)
    begin = time.monotonic()
    broken, sound = bench.fault_cases(quick), bench.sound_cases(quick)
    with tempfile.TemporaryDirectory() as name, progress_bar("runs", len(broken + sound)) as tick:

        def done(count: int) -> None:
            for _ in range(count):
                tick()

        some = {case.number: case for case in reversed(broken)}  # the first of each
        first = [case for case in broken if some[case.number] is case]
        more = [case for case in broken if some[case.number] is not case]
        folder = Path(name)
        firsts = bench.run(first, folder / "first", processes, done, parts=not quick)
        others = bench.run([*more, *sound], folder / "more", processes, done)
    minutes = (time.monotonic() - begin) / 60
    summary = detection.Summary([*firsts, *others])
    text = detection.markdown(summary, minutes)
    typer.echo(text if out is None else detection.conclusion(summary))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
    raise typer.Exit(not summary.good)
