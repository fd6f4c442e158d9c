"""Grammars: what a text may be, token by token, as servers have them for structured output.

A grammar is applied to the target's logits, not to the drafts: in a tree each row has the state
behind its own path, and what is not allowed there cannot be chosen. So a draft that breaks the
grammar is never accepted, and every mode emits what plain decoding with the grammar emits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from specdiag.ddtree import regex
from specdiag.ddtree.automaton import Automaton
from specdiag.ddtree.tree import Tree
from specdiag.errors import SpecdiagError

if TYPE_CHECKING:
    from specdiag.ddtree.pair import Pair

MASKS = 2_000  # that are kept at once; one has an entry for every token
ENDED = -1  # the state behind a stop token


class Grammar(Protocol):
    """What a text may be. States are numbers; None stands behind a token that is not allowed."""

    @property
    def name(self) -> str:
        """As a trace calls it."""

    @property
    def start(self) -> int:
        """The state before the first token."""

    def legal(self, state: int) -> Tensor:
        """Which tokens may come next. [vocab] bool"""

    def advance(self, state: int, token: int) -> int | None:
        """The state behind a token."""

    def ended(self, state: int) -> bool:
        """Whether the text is complete, and nothing may follow."""


class Regex:
    """A regular expression; where a text may end, stop tokens are allowed as well.

    Raises SpecdiagError for a pattern that is none, or that no token begins.
    """

    def __init__(
        self, pattern: str, tokens: Sequence[bytes | None], vocab: int,
        stop_ids: Iterable[int] = (),
    ) -> None:  # fmt: skip
        self.name, self.tokens, self.stop_ids = pattern, tokens, frozenset(stop_ids)
        self.automaton = Automaton(regex.parse(pattern))
        self.start = self.automaton.start
        self.vocab = vocab
        self.masks: dict[int, Tensor] = {}
        self.ends: dict[int, bool] = {ENDED: True}
        # Texts in order: those that begin alike stand together, and share what is known of it.
        texts = ((text, token) for token, text in enumerate(tokens) if text)
        self.ordered = sorted(one for one in texts if one[1] not in self.stop_ids)
        self.shared = [0, *(_alike(a, b) for (a, _), (b, _) in pairwise(self.ordered))]
        if self.ended(self.start):
            raise SpecdiagError(
                f"no token begins what the pattern allows: {pattern!r:.60}", "grammar",
                "give a pattern of at least one character",
            )  # fmt: skip

    def legal(self, state: int) -> Tensor:
        """Which tokens may come next; found by all texts of the vocabulary at once."""
        if state not in self.masks:
            if len(self.masks) >= MASKS:
                self.masks.clear()
            self.masks[state] = self._mask(state)
        return self.masks[state]

    def advance(self, state: int, token: int) -> int | None:
        """The state behind a token."""
        if state == ENDED:
            return None
        if token in self.stop_ids:
            return ENDED if self.automaton.accepts(state) and not self.ended(state) else None
        text = self.tokens[token] if token < len(self.tokens) else None
        reached: int | None = state if text else None
        for byte in text or b"":
            if reached is None:
                break
            reached = self.automaton.move(reached, byte)
        return reached

    def ended(self, state: int) -> bool:
        """Whether the pattern is complete, and no token goes on from here."""
        if state not in self.ends:
            # Stop tokens alone are no way to go on.
            mask = self.legal(state).clone()
            mask[[one for one in self.stop_ids if one < self.vocab]] = False
            self.ends[state] = not bool(mask.any())
        return self.ends[state]

    def _mask(self, state: int) -> Tensor:
        mask = torch.zeros(self.vocab, dtype=torch.bool)
        if state == ENDED:
            return mask
        found: list[int] = []
        path = [state]  # behind each byte of the text, as far as the pattern allows it
        move = self.automaton.move
        for (text, token), shared in zip(self.ordered, self.shared, strict=True):
            if len(path) <= shared:  # it begins with what was not allowed before
                continue
            del path[shared + 1 :]
            for byte in text[shared:]:
                reached = move(path[-1], byte)
                if reached is None:
                    break
                path.append(reached)
            else:
                found.append(token)
        if self.automaton.accepts(state):
            found += [one for one in self.stop_ids if one < self.vocab]
        mask[found] = True
        return mask


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def for_pair(pattern: str, pair: Pair) -> Regex:
    """A regular expression in the tokens of a pair."""
    vocab = pair.target.architecture.vocab_size
    return Regex(pattern, pair.tokenizer.texts(), vocab, pair.stop_ids)


# In a verification


def behind(grammar: Grammar, text: Iterable[int]) -> list[int | None]:
    """The state behind each token of a text, as `along` has them."""
    states: list[int | None] = []
    at: int | None = grammar.start
    for token in text:
        at = _open(grammar, None if at is None else grammar.advance(at, token))
        states.append(at)
    return states


def along(grammar: Grammar, state: int | None, tree: Tree) -> list[int | None]:
    """The state behind each row of a tree, root first, whose root leads to `state`.

    None stands where there is nothing to say: behind a token that is not allowed, and behind the
    end of the grammar.
    """
    states = [_open(grammar, state)]
    tokens, parents = tree.tokens.tolist(), tree.parents.tolist()
    for token, parent in zip(tokens[1:], parents[1:], strict=True):
        above = states[parent]
        states.append(_open(grammar, None if above is None else grammar.advance(above, token)))
    return states


def _open(grammar: Grammar, state: int | None) -> int | None:
    return None if state is None or grammar.ended(state) else state


def limit(logits: Tensor, grammar: Grammar, states: Sequence[int | None]) -> None:
    """Leave of logits [row, vocab], in place, what each row's state allows; all where it is None.

    Behind the end of a grammar nothing is emitted, so what is chosen there does not matter.
    """
    known = {row: grammar.legal(state) for row, state in enumerate(states) if state is not None}
    if known:
        masks = torch.stack([*known.values()]).to(logits.device)
        rows = torch.tensor([*known], device=logits.device)
        logits[rows] = logits[rows].masked_fill(~masks, -torch.inf)


class Reading:
    """What a grammar says of a request's recorded steps. It follows the text by itself."""

    def __init__(self, grammar: Grammar, first: int) -> None:
        self.grammar = grammar
        self.state = grammar.advance(grammar.start, first)

    def legal(self, tree: Tree, chosen: Sequence[int]) -> list[bool | None]:
        """Whether the choice behind each row is allowed; None where there is nothing to say."""
        states = along(self.grammar, self.state, tree)
        return [
            None if state is None else bool(self.grammar.legal(state)[token])
            for state, token in zip(states, chosen, strict=True)
        ]

    def emitted(self, tokens: Iterable[int]) -> None:
        """The step is over."""
        for token in tokens:
            if self.state is not None:
                self.state = self.grammar.advance(self.state, token)
