"""`specdiag ddtree faults`: what can be broken on purpose."""

from __future__ import annotations

import typer

from specdiag.ddtree.commands.options import app, require_runtime


@app.command()
def faults() -> None:
    """List the faults that `--fault` puts into a run.

    Example: specdiag ddtree faults
    """
    require_runtime()
    from specdiag.ddtree import faults as known

    typer.echo(
        "O: another text; S: acceptance or time; M: numbers only; -: none, readers stay silent\n"
    )
    for one in known.all_faults().values():
        needs = f"  (needs {', '.join(sorted(one.needs))})" if one.needs else ""
        typer.echo(f"{one.name:<4} {one.effect}  {one.title}{needs}")
    typer.echo("")
    for number, why in known.ELSEWHERE.items():
        typer.echo(f"F{number:<3} cannot be shown here: {why}")
