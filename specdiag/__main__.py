"""`python -m specdiag` is the `specdiag` command."""

from specdiag.cli import run

run()
