"""Patterns as automata over bytes, so that a text can be checked while it is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specdiag.errors import SpecdiagError

LARGEST = 50_000  # states: what {1,1000} of a long group comes to

Bytes = frozenset[int]


@dataclass(frozen=True)
class Then:
    """Pieces one behind the other, each one byte of a set or again a piece."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Either:
    """One of several pieces."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Repeat:
    """A piece several times, without an upper limit where `high` is None."""

    piece: Piece
    low: int
    high: int | None


Piece = Bytes | Then | Either | Repeat


class Automaton:
    """A deterministic automaton over bytes. States are numbers, made when they are first reached.

    From every state some text leads to the end: none is a dead end. Raises SpecdiagError for a
    pattern that takes too many states.
    """

    def __init__(self, pattern: Piece) -> None:
        self.nfa = _Nfa(pattern)
        self.sets: list[frozenset[int]] = []  # of each state, the states of the other automaton
        self.numbers: dict[frozenset[int], int] = {}
        self.moves: list[dict[int, int | None]] = []
        self.start = self._number(self.nfa.closure([self.nfa.first]))

    def move(self, state: int, byte: int) -> int | None:
        """The state behind a byte, None where the pattern does not allow it."""
        known = self.moves[state]
        if byte not in known:
            reached = self.nfa.behind(self.sets[state], byte)
            known[byte] = self._number(reached) if reached else None
        return known[byte]

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        return self.nfa.last in self.sets[state]

    def _number(self, reached: frozenset[int]) -> int:
        number = self.numbers.setdefault(reached, len(self.sets))
        if number == len(self.sets):
            self.sets.append(reached)
            self.moves.append({})
        return number


class _Nfa:
    """States with steps over one byte of a set, and over nothing (Thompson's construction)."""

    def __init__(self, pattern: Piece) -> None:
        self.steps: list[tuple[Bytes, int] | None] = []
        self.free: list[list[int]] = []
        self.first = self._state()
        self.last = self._add(pattern, self.first)

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """These states and all that are reached over nothing."""
        found, left = set(states), list(states)
        while left:
            for other in self.free[left.pop()]:
                if other not in found:
                    found.add(other)
                    left.append(other)
        return frozenset(found)

    def behind(self, states: frozenset[int], byte: int) -> frozenset[int]:
        """The states that a byte leads to."""
        steps = (self.steps[one] for one in states)
        return self.closure([step[1] for step in steps if step and byte in step[0]])

    def _state(self, *before: int) -> int:
        """A new state, reached over nothing from these."""
        if len(self.steps) >= LARGEST:
            raise SpecdiagError(
                "the pattern is too large", "grammar", "repeat less, or shorter groups"
            )
        self.steps.append(None)
        self.free.append([])
        for one in before:
            self.free[one].append(len(self.steps) - 1)
        return len(self.steps) - 1

    def _add(self, piece: Piece, start: int) -> int:
        """Put a piece behind a state; the state at its end."""
        if isinstance(piece, Then):
            for one in piece.pieces:
                start = self._add(one, start)
            return start
        if isinstance(piece, Either):
            return self._state(*[self._add(one, self._state(start)) for one in piece.pieces])
        if isinstance(piece, Repeat):
            return self._repeat(piece, start)
        start, end = self._state(start), self._state()
        self.steps[start] = piece, end
        return end

    def _repeat(self, of: Repeat, start: int) -> int:
        for _ in range(of.low):
            start = self._add(of.piece, self._state(start))
        if of.high is None:
            loop = self._state(start)
            self.free[self._add(of.piece, loop)].append(loop)
            return self._state(loop)
        ends = [start]
        for _ in range(of.high - of.low):
            ends.append(self._add(of.piece, self._state(ends[-1])))
        return self._state(*ends)
