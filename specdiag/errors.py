"""What specdiag says when a user's input or a user's file is at fault."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

WRONG_USE = 2
NOTHING_READ = 3

# Controls, and whatever turns text around or is not seen: a log or a file name may hold them.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)


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
    lines = [f"{level}: {_visible(what)}"]
    if where:
        lines.append(f" --> {_visible(where)}")
    if help:
        lines.append(f"help: {_visible(help)}")
    return "\n".join(lines)


def reason(error: BaseException) -> str:
    """What an exception says, as the end of a sentence."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def nearest(name: str, known: Iterable[str], otherwise: str = "", most: int = 2) -> str:
    """The names that are likeliest meant, as help; `otherwise`, or all, where none is like it."""
    import difflib

    names = list(known)
    near = difflib.get_close_matches(name, names, n=most, cutoff=0.7)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return otherwise or f"known: {', '.join(names)}"


def _visible(text: str) -> str:
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text.strip())
