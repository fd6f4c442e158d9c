"""A group whose commands are imported one by one: a start costs only what was asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

# Command: where it is, and the line that help has for it, which is the first of its own help.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "analyze": (
        "commands.analyze", "analyze",
        "Say what is wrong in logs and traces, with the lines that prove it.",
    ),
    "check": (
        "commands.analyze", "check",
        "The same for CI: exits with 1 for a high or critical finding, or an assertion that fails.",
    ),
    "rules": (
        "commands.known", "list_rules",
        "List every rule with its severity, or all that their headers say.",
    ),
    "explain": (
        "commands.known", "explain",
        "Say what a rule means, what it needs and what to do about its findings.",
    ),
    "parsers": (
        "commands.known", "list_parsers",
        "List the formats that are read, or the names and samples of one.",
    ),
    "query": (
        "commands.query", "query", "Ask your own question of the tables that the rules read."
    ),
    "tree": (
        "commands.tree", "tree",
        "Draw a traced step: its tree, the target's choices, what was and should be accepted.",
    ),
    "whatif": (
        "commands.whatif", "whatif",
        "Say what other budgets, top-k caps, the chain or no speculation would have given.",
    ),
    "compare": (
        "commands.compare", "compare",
        "Compare runs: what differs, by how much, how sure that is, and why.",
    ),
    "trend": (
        "commands.trend", "trend",
        "Show facts over many saved results, and where they changed for good.",
    ),
    "stops": (
        "commands.stops", "stops",
        "Say why traced steps accepted no further draft: depth, budget, top-k, or the drafter.",
    ),
    "facts": (
        "commands.facts", "facts",
        "List the facts of runs; without PATH, the metrics that [[assert]] can hold.",
    ),
    "ledger": (
        "commands.ledger", "ledger",
        "Show double-entry book-keeping: tokens, steps and lengths that two sources count.",
    ),
    "report": (
        "commands.report", "report", "Make reports from a saved result, without the logs."
    ),
    "schema": (
        "commands.schema", "schema",
        "Print the JSON Schema (2020-12) of --output json.",
    ),
    "validate": (
        "commands.validate", "validate",
        "Check rules, formats and settings of your own, without a log: for pre-commit and CI.",
    ),
    "cache": (
        "commands.cache", "cache",
        "Say what is kept of files that were parsed, so that nothing is parsed twice.",
    ),
    "ddtree": (
        "ddtree.commands", "app",
        "Run speculative decoding here, traced. Example: specdiag ddtree generate 'def main('",
    ),
    "baseline": (
        "commands.baseline", "app",
        "Keep a file of accepted findings, for `specdiag check --baseline FILE`.",
    ),
}  # fmt: skip


class Commands(TyperGroup):
    """The commands by name and first line; the one that is called takes its own place."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, _, line) in COMMANDS.items():
            self.add_command(TyperCommand(name, help=line))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            self.add_command(load(args[0]))
        return super().resolve_command(ctx, args)


def load(name: str) -> TyperCommand | TyperGroup:
    """The command itself, or the group, with all its options."""
    module, attribute, _ = COMMANDS[name]
    found = getattr(import_module(f"specdiag.{module}"), attribute)
    if isinstance(found, typer.Typer):
        command: TyperCommand | TyperGroup = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name)(found)
        command = cast(TyperCommand, typer.main.get_command(alone))
    command.name = name
    return command
