"""What a collector puts in front of each line, as a pattern: one that a format knows, or another.

Collectors are many, and what they write looks alike on all lines but for words and numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from specdiag.parser import Parser

SOME = 200  # lines that an unknown wrapper is learned from
LONGEST = 120  # characters of it
PART = 0.25  # of the lines: so many must start as the format's do, out of one that is not known
TRACEBACK = r"Traceback \(most recent call last\)|\s+File \"[^\"]+\", line [0-9]+, in "
CLOCK = r"\[[0-9]{2}:[0-9]{2}:[0-9]{2}[ \]]"
_WORD, _SPACE = "[0-9A-Za-z_.-]+", r"\s+"
_PARTS = re.compile(rf"[0-9A-Za-z][0-9A-Za-z_.-]*|{_SPACE}|.")


def around(parser: Parser, lines: list[str], count: Callable[[Iterable[str]], int]) -> str:
    """What most of a file's first lines are wrapped in, if a parser's lines can be.

    `count` tells how many of the lines one of some patterns fits.
    """
    if not parser.wrappers:
        return ""
    whole = sum(1 for line in lines if line.strip())
    starts = "|".join([*filter(None, [parser.record]), *(one[1:] for one in parser.recognise
                                                         if one.startswith("^"))])  # fmt: skip
    known = [one for one in parser.wrappers if count([f"^(?:{one})"]) > whole / 2]
    if not starts:
        return known[0] if known else ""
    # A server that cannot be imported writes no record; of others somebody cut the date off.
    starts = f"{starts}|{TRACEBACK}|{CLOCK}"
    bare = count([f"^(?:{starts})"])
    if bare > whole * PART and not known:
        return ""
    fits = {one: count([f"^(?:{one})(?:{starts})"]) for one in [*known, *_learned(lines)]}
    best = max(fits, key=lambda one: fits[one], default="")
    # One line in a known wrapper tells: the rest of a server that dies at once is its traceback.
    least = 0 if best in known else whole * PART
    return best if best and fits[best] > max(bare, least) else ""


def _learned(lines: list[str]) -> list[str]:
    """Patterns of what most of the lines begin with, the shortest first.

    Each ends where something else can begin, and leaves what is indented behind it so.
    """
    cut = [_PARTS.findall(line[:LONGEST]) for line in lines[:SOME] if line.strip()]
    alike, found, pattern = cut, [], "^"
    for place in range(LONGEST):
        alike = [one for one in alike if len(one) > place]
        shapes = Counter(_shape(one[place]) for one in alike)
        shape, count = max(shapes.items(), key=lambda one: one[1], default=("", 0))
        if count <= len(cut) / 2:
            break
        alike = [one for one in alike if _shape(one[place]) == shape]
        if shape == _SPACE:
            found.append(rf"{pattern}\s{{{min(len(one[place]) for one in alike)}}}")
        elif shape != _WORD:
            found.append(pattern + shape)
        pattern += shape
    return found


def _shape(part: str) -> str:
    return _WORD if part[0].isalnum() else _SPACE if part.isspace() else re.escape(part)
