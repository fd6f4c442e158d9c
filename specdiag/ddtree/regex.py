r"""Regular expressions, as far as a grammar for tokens needs them.

A pattern holds for a whole text. It may use: characters, `.` (any but a line end), classes such
as [a-z_] and [^"], the classes \d \w \s and their opposites, the escapes \n \t \r \f \v \0 and
\x41, groups, |, and the repetitions * + ? {2} {2,} {2,5}. Ranges and classes are of ASCII; other
characters stand for themselves, and what a class does not name may be any character in UTF-8.
"""

from __future__ import annotations

import string

from specdiag.ddtree.automaton import Bytes, Either, Piece, Repeat, Then
from specdiag.errors import SpecdiagError

DEEPEST = 100  # groups inside each other

_ASCII = frozenset(range(128))
_NAMED = {
    "d": frozenset(string.digits.encode()),
    "w": frozenset((string.ascii_letters + string.digits + "_").encode()),
    "s": frozenset(b" \t\n\r\f\v"),
}
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
# Characters beyond ASCII: the first byte, the second and how many follow. Between the first bytes
# there are some whose second is limited: others would be too long, surrogates or too large.
_BEYOND = (
    ((0xC2, 0xDF), (0x80, 0xBF), 0),
    ((0xE0, 0xE0), (0xA0, 0xBF), 1), ((0xE1, 0xEC), (0x80, 0xBF), 1),
    ((0xED, 0xED), (0x80, 0x9F), 1), ((0xEE, 0xEF), (0x80, 0xBF), 1),
    ((0xF0, 0xF0), (0x90, 0xBF), 2), ((0xF1, 0xF3), (0x80, 0xBF), 2),
    ((0xF4, 0xF4), (0x80, 0x8F), 2),
)  # fmt: skip


def parse(pattern: str) -> Piece:
    """What a pattern says; SpecdiagError if it is none."""
    return _Parser(pattern).parse()


def _character(character: str) -> Piece:
    return Then(tuple(frozenset({byte}) for byte in character.encode()))


def _anything_but(named: Bytes) -> Piece:
    """Any character that is not one of these."""
    tail = _bytes(0x80, 0xBF)
    beyond = [
        Then((_bytes(*first), _bytes(*second), *[tail] * count)) for first, second, count in _BEYOND
    ]
    return Either((_ASCII - named, *beyond) if _ASCII - named else tuple(beyond))


def _bytes(low: int, high: int) -> Bytes:
    return frozenset(range(low, high + 1))


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.depth = pattern, 0, 0

    def parse(self) -> Piece:
        try:
            self.pattern.encode()
        except UnicodeEncodeError:
            raise self._wrong("not UTF-8") from None
        whole = self._alternatives()
        if self.at < len(self.pattern):
            raise self._wrong("a ) that closes nothing")
        return whole

    def _alternatives(self) -> Piece:
        found = [self._sequence()]
        while self._take("|"):
            found.append(self._sequence())
        return found[0] if len(found) == 1 else Either(tuple(found))

    def _sequence(self) -> Piece:
        found: list[Piece] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            found.append(self._repeated(self._one()))
        return Then(tuple(found))

    def _one(self) -> Piece:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == ".":
            return _anything_but(frozenset(b"\n"))
        if character == "\\":
            found = self._escape()
            return _character(found) if isinstance(found, str) else found
        if character in "*+?{}^$":
            raise self._wrong(f"{character} stands for itself only behind a \\")
        return _character(character)

    def _group(self) -> Piece:
        self._take("?:")
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} groups inside each other")
        found = self._alternatives()
        if not self._take(")"):
            raise self._wrong("a ( that is not closed")
        self.depth -= 1
        return found

    def _repeated(self, piece: Piece) -> Piece:
        for sign, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._take(sign):
                return Repeat(piece, low, high)
        return Repeat(piece, *self._counts()) if self._take("{") else piece

    def _counts(self) -> tuple[int, int | None]:
        end = self.pattern.find("}", self.at)
        text = self.pattern[self.at : end] if end >= 0 else ""
        least, comma, most = text.partition(",")
        wanted = [least, most] if most else [least]
        if not all(one.isdecimal() and one.isascii() and len(one) < 7 for one in wanted):
            raise self._wrong("a { that is no {2}, {2,} or {2,5}")
        self.at = end + 1
        low, high = int(least), int(most) if most else None if comma else int(least)
        if high is not None and high < low:
            raise self._wrong(f"{{{text}}} ends before it begins")
        return low, high

    def _class(self) -> Piece:
        opposite = self._take("^")
        named: set[int] = set()
        beyond: list[Piece] = []
        begun = self.at
        while self.at == begun or not self._take("]"):
            one = self._member()
            if not isinstance(one, str):
                named |= one
            elif self._is_range():
                self.at += 1
                last = self._member()
                if not isinstance(last, str) or not one <= last <= "\x7f":
                    raise self._wrong("a range that is none, or not of ASCII")
                named |= set(range(ord(one), ord(last) + 1))
            elif one.isascii():
                named.add(ord(one))
            else:
                beyond.append(_character(one))
        if opposite and beyond:
            raise self._wrong("[^...] with a character beyond ASCII")
        if opposite:
            return _anything_but(frozenset(named))
        return Either((frozenset(named), *beyond) if named else tuple(beyond))

    def _is_range(self) -> bool:
        """Whether the - here stands between two members of a class."""
        rest = self.pattern[self.at : self.at + 2]
        return len(rest) == 2 and rest[0] == "-" and rest[1] != "]"

    def _member(self) -> str | Bytes:
        """A character of a class, or a class in it."""
        character = self._next()
        if character != "\\":
            return character
        found = self._escape()
        if isinstance(found, (str, frozenset)):
            return found
        raise self._wrong("the opposite of a class inside of [...]")

    def _escape(self) -> str | Piece:
        """What stands behind a backslash: a character, or a class."""
        letter = self._next()
        if letter in _NAMED:
            return _NAMED[letter]
        if letter.lower() in _NAMED:
            return _anything_but(_NAMED[letter.lower()])
        if letter == "x":
            digits = self.pattern[self.at : self.at + 2]
            if len(digits) < 2 or not set(digits) <= set(string.hexdigits):
                raise self._wrong("a \\x without two digits")
            self.at += 2
            return chr(int(digits, 16))
        if letter in _ESCAPED:
            return _ESCAPED[letter]
        if letter.isalnum():
            raise self._wrong(f"\\{letter} is not known here")
        return letter

    def _next(self) -> str:
        if self.at >= len(self.pattern):
            raise self._wrong("it ends inside of [...] or behind a \\")
        self.at += 1
        return self.pattern[self.at - 1]

    def _take(self, text: str) -> bool:
        found = self.pattern.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def _wrong(self, why: str) -> SpecdiagError:
        return SpecdiagError(
            f"no regular expression: {why}", f"grammar, character {self.at}",
            r"known are . [a-z] [^a] \d \w \s \n \x41 ( ) | * + ? {2} {2,} {2,5}",
        )  # fmt: skip
