"""`specdiag ledger`: what is counted in two places, and whether it balances."""

from __future__ import annotations

import typer

from specdiag.commands.options import Parsers, Paths, filled_from
from specdiag.errors import NOTHING_READ, SpecdiagError


def ledger(paths: Paths, parsers: Parsers = None) -> None:
    """Show double-entry book-keeping: tokens, steps and lengths that two sources count.

    A residual within the allowance is no fault: prefill's token, a block that a stop cut. Of many
    records of one account those that are off are shown, and the one that is off most.

    Example: specdiag ledger sample_logs/sources_disagree
    """
    from specdiag.report import ledger as report

    with filled_from(paths, parsers) as filled:
        entries = filled.rows("FROM ledger ORDER BY run, request IS NULL, account, source, line")
        files = [reading.source.name for reading in filled.readings]
    if not entries:
        raise SpecdiagError(
            "nothing is counted in two places",
            ", ".join(paths[:3]),
            "give records with their verify counts, or the log, the records and the benchmark of "
            "one run together",
            NOTHING_READ,
        )
    typer.echo(report.render(entries, files))
