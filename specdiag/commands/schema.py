"""`specdiag schema`: what the JSON output looks like, for programs that read it."""

from __future__ import annotations

import typer


def schema() -> None:
    """Print the JSON Schema (2020-12) of --output json.

    Example: specdiag schema
    """
    from specdiag.report import json

    typer.echo(json.FILE.read_text(encoding="utf-8"), nl=False)
