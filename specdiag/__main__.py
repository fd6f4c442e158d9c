"""`python -m specdiag` is the `specdiag` command."""

from specdiag.cli import main

main()
