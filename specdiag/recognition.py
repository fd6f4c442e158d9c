"""What a file's first lines say of it: its format, and what its lines are wrapped in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from specdiag import blocks, clock, document, envelope, raw, sheets, wrapping
from specdiag.parser import Parser
from specdiag.sheets import Sheet
from specdiag.source import Own

LINES = 2000  # that are looked at
_KEY = re.compile(r'"([^"\\]*)"\s*:')
_FLAT = r"[^{}]*"  # between two braces
BEHIND = r"""^[^{]{0,300}(\{\s*["'].*\})\s*$"""  # a record at the end of a line
PART = 0.25  # of the lines: so many must be records behind something


@dataclass(frozen=True)
class Form:
    """How a file is read."""

    parser: Parser
    inside: str = ""  # where the lines stand in the records that a collector makes of them
    wrapper: str = ""  # what a collector puts in front of each line, a pattern
    heading: str = ""  # of the table that later blocks go on with
    document: bool = False  # one JSON value, and not one a line
    when: str = ""  # where the time stands at which the collector took the line; see clock.py
    own: Own | None = None  # the lines of one of several writers, and no others
    sheet: Sheet | None = None  # records as rows of cells


class Head:
    """A file's first lines, each looked at once for all formats."""

    def __init__(
        self, lines: list[str], inside: str = "", records: list[str] | None = None
    ) -> None:
        """`inside` is where they stood in `records`."""
        self.lines = [raw.plain(line) for line in lines]
        self.inside = inside
        self.records = records

    @classmethod
    def of(cls, data: bytes) -> Head:
        return cls(data.decode("utf-8", "replace").splitlines()[:LINES])

    def opened(self) -> Head | None:
        """The lines that stand in the records of these, if they do."""
        path = envelope.of(self.lines)
        if not path:
            return None
        found = envelope.opened(pl.DataFrame({"text": self.lines}), path)
        return Head(found.get_column("text").to_list(), path, self.lines)

    def form(self, parser: Parser) -> Form:
        """How a file that begins like this is read by a parser."""
        start = "\n".join(self.lines[:3]).encode()
        wrapper = self.wrapper(parser)
        return Form(
            parser, self.inside, wrapper, blocks.heading(parser, self.lines),
            parser.format != "lines" and document.is_document(start),
            clock.of(self.records or self.lines, parser, self.inside, wrapper),
        )  # fmt: skip

    def claims(self, parser: Parser) -> tuple[int, int]:
        """How many of the lines say that they are of this format, and how specially."""
        if parser.format == "lines":
            return self._matching(parser.recognise), 0
        count = most = 0
        for text, keys in self._records:
            matched = [
                len(wanted) + 2 * sum("[*]" in path for path in wanted)
                for wanted in parser.recognise
                if all(_has_key(text, keys, path) for path in wanted)
            ]
            count += bool(matched)
            most = max([most, *matched])
        return count, most

    @cached_property
    def _records(self) -> list[tuple[str, set[str]]]:
        """The records among the lines, or the one they are together, with the keys in each."""
        texts = [line for line in self.lines if line.lstrip().startswith("{")]
        if not texts or not texts[0].rstrip().endswith("}"):
            joined = "\n".join(self.lines).lstrip("\ufeff \t\r\n")
            whole = joined.startswith("{") or document.is_document(
                joined.encode("utf-8", "replace")
            )
            texts = [joined] if whole else []
        return [(text, set(_KEY.findall(text))) for text in texts]

    @cached_property
    def _text(self) -> pl.Series:
        return pl.Series(self.lines, dtype=pl.String)

    def _matching(self, patterns: Iterable[str]) -> int:
        """How many lines have a place that one of the patterns fits."""
        either = "|".join(f"(?:{one})" for one in patterns)
        return int(self._text.str.contains(either).sum()) if either else 0

    def wrapper(self, parser: Parser) -> str:
        """A pattern of what a collector puts before most of the lines, if any."""
        return wrapping.around(parser, self.lines, self._matching)


def _has_key(text: str, keys: set[str], path: str) -> bool:
    """Whether a record with these keys, at any depth, has the last one of a path, or its value."""
    if "[*]" in path:
        return _has_list(text, keys, path)
    key, _, value = path.partition("=")
    key = key.rpartition(".")[2]
    if key not in keys:
        return False
    return not value or bool(re.search(rf'"{re.escape(key)}"\s*:\s*"?{re.escape(value)}\b', text))


def _has_list(text: str, keys: set[str], path: str) -> bool:
    """Whether a record has a list of numbers, or one whose first record has a key behind it."""
    names, wanted = (
        [one for one in part.removeprefix(".").split("|") if one in keys]
        for part in path.split("[*]")
    )
    if not names or bool(path.partition("[*]")[2]) != bool(wanted):
        return False
    inside = rf'\{{{_FLAT}(?:\{{{_FLAT}\}}{_FLAT})*"(?:{_either(wanted)})"\s*:'
    first = inside if wanted else "-?[0-9]"
    return bool(re.search(rf'"(?:{_either(names)})"\s*:\s*\[\s*{first}', text))


def _either(names: list[str]) -> str:
    return "|".join(map(re.escape, names))


def look(parsers: list[Parser], data: bytes) -> tuple[Form | None, list[Parser]]:
    """How a file that begins like this is read, and all parsers that claim it just as much.

    Records are records first: only where no parser knows most of them, they may hold a log.
    """
    head = Head.of(data)
    chosen, best = choose(parsers, head)
    claimed = head.claims(chosen)[0] if chosen and chosen.format != "lines" else 0
    opened = head.opened() if 2 * claimed <= len(head.lines) else None
    if opened:
        inner, inner_best = choose([one for one in parsers if one.format == "lines"], opened)
        if inner and opened.claims(inner)[0] > claimed:
            return opened.form(inner), inner_best
    if chosen is None:  # a collector's words may stand before those that its lines are known by
        best = [one for one in parsers if one.format == "lines" and head.wrapper(one)]
        chosen = best[-1] if best else None
    if chosen is None:
        return _otherwise([one for one in parsers if one.format == "json"], head)
    return head.form(chosen), best


def _otherwise(parsers: list[Parser], head: Head) -> tuple[Form | None, list[Parser]]:
    """How records are read that stand in a sheet, behind something else, or as Python prints."""
    sheet = sheets.of(head.lines)
    if sheet:
        rows = sheets.records(sheet, "\n".join(head.lines).encode("utf-8", "replace"), 1)
        chosen, best = choose(parsers, Head.of(rows))
        if chosen:
            return Form(chosen, sheet=sheet), best
    bare = [re.sub(BEHIND, r"\1", line) for line in head.lines if line.strip()]
    behind = Head([one for line in bare if line.startswith("{") for one in document.apart(line)])
    chosen, best = choose(parsers, behind)
    if chosen and behind.claims(chosen)[0] > PART * len(bare):
        return Form(chosen, wrapper=BEHIND), best
    return None, []


def choose(parsers: list[Parser], head: Head) -> tuple[Parser | None, list[Parser]]:
    """The parser that claims most of the head, and all that claim just as much."""
    found = {at: head.claims(one) for at, one in enumerate(parsers) if one.format != "lines"}
    most = max(found.values(), default=(0, 0))
    if most < (len(head.lines), 1):  # else patterns, which are slow, can claim no more
        found |= {at: head.claims(one) for at, one in enumerate(parsers) if at not in found}
        most = max(found.values(), default=(0, 0))
    best = [one for at, one in enumerate(parsers) if found.get(at) == most] if most[0] else []
    return (best[-1] if best else None), best
