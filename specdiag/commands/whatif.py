"""`specdiag whatif`: what a trace says about runs that were not made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdiag.commands.options import Parsers, Paths, filled_from
from specdiag.errors import NOTHING_READ, SpecdiagError


def whatif(
    paths: Paths,
    run: Annotated[str | None, typer.Option(help="Answer for this run alone.")] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(metavar="json=PATH", help="Also write json; PATH - is stdout."),
    ] = None,
    parsers: Parsers = None,
) -> None:
    """Say what other budgets, top-k caps, the chain or no speculation would have given.

    One traced run has the exact accepted depth under every smaller budget. Runs of the same model
    at other budgets, of the chain and without speculation add the times.

    Example: specdiag whatif sample_logs/healthy-tree-trace.jsonl
    """
    from specdiag.report import files
    from specdiag.report import whatif as report
    from specdiag.whatif import ask

    targets = [_target(text) for text in output or []]
    with filled_from(paths, parsers) as filled:
        answers = ask(filled)
    names = {*(one.run for one in answers.runs), *(one.run for one in answers.break_even)}
    if not names:
        raise SpecdiagError(
            "no step has its tree or its accepted rows, and no run a baseline",
            ", ".join(paths[:3]),
            "record node_tokens, parents and target_tokens: see `specdiag parsers flat_steps`",
            NOTHING_READ,
        )
    if run is not None:
        if run not in names:
            known = f"there are: {', '.join(sorted(names))}"
            raise SpecdiagError(f"nothing is answered for a run {run}", "--run", known)
        answers = answers.of(run)
    if "-" not in targets:
        typer.echo(report.render(answers))
    for target in targets:
        if target == "-":
            typer.echo(report.as_json(answers), nl=False)
        else:
            files.write(Path(target), report.as_json(answers))


def _target(text: str) -> str:
    kind, equals, path = text.partition("=")
    if kind != "json" or not equals or not path:
        raise SpecdiagError(f"{text!r} is no output", "--output", "json=PATH")
    return path
