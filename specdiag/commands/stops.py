"""`specdiag stops`: why steps stopped, and whether the drafter's probabilities hold."""

from __future__ import annotations

import typer

from specdiag.commands.options import Parsers, Paths, traced
from specdiag.errors import NOTHING_READ, SpecdiagError


def stops(paths: Paths, parsers: Parsers = None) -> None:
    """Say why traced steps accepted no further draft: depth, budget, top-k, or the drafter.

    Then, by depth, how probable the drafter thought what it drafted, and how often it was right.

    Example: specdiag stops sample_logs/healthy-complete-trace.jsonl
    """
    from specdiag.report import stops as report
    from specdiag.stops import stops as ask

    with traced(paths, parsers) as filled:
        answers = ask(filled)
    if not answers:
        raise SpecdiagError(
            "no step has its tree, its accepted rows and the target's choices",
            ", ".join(paths[:3]),
            "record node_tokens, parents, accepted and target_tokens",
            NOTHING_READ,
        )
    typer.echo(report.render(answers))
