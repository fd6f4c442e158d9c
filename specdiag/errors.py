"""What specdiag says when a user's input or a user's file is at fault."""

from __future__ import annotations

from dataclasses import dataclass

WRONG_USE = 2
NOTHING_READ = 3


@dataclass
class SpecdiagError(Exception):
    """A mistake in three lines: what is wrong, where, and what to do about it."""

    what: str
    where: str = ""
    help: str = ""
    exit_code: int = WRONG_USE

    def __str__(self) -> str:
        return note("error", self.what, self.where, self.help)


@dataclass(frozen=True)
class Notice:
    """Something that could not be read as it should; the rest of the input still is."""

    what: str
    where: str = ""
    help: str = ""

    def __str__(self) -> str:
        return note("warning", self.what, self.where, self.help)


def note(level: str, what: str, where: str, help: str) -> str:
    """The three lines of an error or a warning; an empty part is left out."""
    lines = [f"{level}: {what}"]
    if where:
        lines.append(f" --> {where}")
    if help:
        lines.append(f"help: {help}")
    return "\n".join(lines)
