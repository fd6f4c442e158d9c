"""A prefix cache: what finished requests leave behind for prompts that begin alike.

Keys and values of a text serve every shorter beginning of it. A recurrent state serves one length
only, so checkpoints of it are taken as a text grows: at each multiple of `every` tokens that a
step, or a part of a prompt, passes, of the row that ends there. In a tree that is the row of the
accepted path, whatever its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from torch import Tensor

from specdiag.ddtree.cache import Cache, State

if TYPE_CHECKING:
    from specdiag.ddtree.decode import Request

Saved = Mapping[int, State]  # the state of each recurrent layer, of one text


class Checkpoints:
    """Recurrent states of a batch at some of the lengths that its texts went through."""

    def __init__(self, every: int, batch: int) -> None:
        self.every = every
        self.saved: list[dict[int, Saved]] = [{} for _ in range(batch)]  # by tokens before it
        # What the last commit took of each batch row: the rows, by tokens behind which they stand.
        self.taken: list[dict[int, int]] = [{} for _ in range(batch)]

    def commit(
        self, states: Mapping[int, State], lengths: Sequence[int], accepted: Sequence[Sequence[int]]
    ) -> None:
        """Accepted rows are about to be committed behind `lengths` tokens."""
        self.taken = [{} for _ in accepted]
        for row, (length, path) in enumerate(zip(lengths, accepted, strict=True)):
            first = (length // self.every + 1) * self.every
            for tokens in range(first, length + len(path) + 1, self.every):
                self.take(states, row, tokens, path, tokens - length - 1)

    def take(
        self, states: Mapping[int, State], row: int, tokens: int, path: Sequence[int], place: int
    ) -> None:
        """Keep the state of a batch row behind `tokens` tokens, which end at path[place]."""
        node = path[place]
        self.taken[row][tokens] = node
        self.saved[row][tokens] = {
            layer: State(one.delta[row, node].clone(), one.conv[row, node].clone())
            for layer, one in states.items()
        }


@dataclass(frozen=True)
class Kept:
    """A text, and what its passes left."""

    tokens: list[int]
    rows: Tensor  # [key or value, attention layer, kv head, token, head_dim]
    draft_rows: Tensor | None  # the same of the drafter's cache
    states: Mapping[int, Saved]  # by tokens before it; of recurrent targets only


class Prefixes:
    """The texts of a pair that were used last, `texts` of them at most.

    A store is for one target and one drafter.
    """

    def __init__(self, texts: int = 8, every: int = 32) -> None:
        self.texts, self.every = texts, every
        self.kept: list[Kept] = []  # the one used last is the last
        self.hits: dict[str, int] = {}  # tokens that were there, of each request of the last batch

    def restore(
        self, requests: Sequence[Request], cache: Cache, draft_cache: Cache | None
    ) -> list[int]:
        """Fill empty caches with what is known of each prompt; how many of its tokens that is.

        The last token of a prompt is always computed: what follows it is asked for.
        """
        if cache.states:
            cache.checkpoints = Checkpoints(self.every, cache.batch)
        drafts, recurrent = draft_cache is not None, bool(cache.states)
        found = [self._find(each.prompt, drafts, recurrent) for each in requests]
        for row, (kept, tokens) in enumerate(found):
            if kept is not None:
                _fill(kept, tokens, row, cache, draft_cache)
                self.kept = [*(one for one in self.kept if one is not kept), kept]
        lengths = [tokens for _, tokens in found]
        cache.extend(lengths)
        if draft_cache is not None:
            draft_cache.extend(lengths)
        self.hits = {one.name: tokens for one, tokens in zip(requests, lengths, strict=True)}
        return lengths

    def keep(self, row: int, text: Sequence[int], cache: Cache, draft_cache: Cache | None) -> None:
        """A request has ended with this text, its prompt included."""
        # A path may have gone on past the end. The drafter has yet to read what came last.
        length = min(len(text), int(cache.known_lengths[row]))
        if draft_cache is not None:
            length = min(length, int(draft_cache.known_lengths[row]))
        tokens = [*text[:length]]
        saved = cache.checkpoints.saved[row] if cache.checkpoints is not None else {}
        new = Kept(
            tokens, _rows(cache, row, len(tokens)),
            None if draft_cache is None else _rows(draft_cache, row, len(tokens)),
            {length: state for length, state in saved.items() if length <= len(tokens)},
        )  # fmt: skip
        others = [one for one in self.kept if one.tokens != tokens[: len(one.tokens)]]
        self.kept = [*others, new][-self.texts :]

    def _find(
        self, prompt: Sequence[int], drafts: bool, recurrent: bool
    ) -> tuple[Kept | None, int]:
        """The text with the longest beginning in common, and its length."""
        best: tuple[Kept | None, int] = None, 0
        for kept in self.kept:
            if drafts and kept.draft_rows is None:
                continue
            pairs = zip(kept.tokens, prompt[:-1], strict=False)
            tokens = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if recurrent:
                tokens = max((length for length in kept.states if length <= tokens), default=0)
            if tokens > best[1]:
                best = kept, tokens
        return best


def _fill(kept: Kept, tokens: int, row: int, cache: Cache, draft_cache: Cache | None) -> None:
    cache.rows[:, :, row, :, :tokens] = kept.rows[:, :, :, :tokens]
    if draft_cache is not None and kept.draft_rows is not None:
        draft_cache.rows[:, :, row, :, :tokens] = kept.draft_rows[:, :, :, :tokens]
    if cache.checkpoints is None:
        return
    for layer, state in kept.states[tokens].items():
        cache.states[layer].delta[row] = state.delta
        cache.states[layer].conv[row] = state.conv
    older = {length: state for length, state in kept.states.items() if length <= tokens}
    cache.checkpoints.saved[row] |= older


def _rows(cache: Cache, row: int, tokens: int) -> Tensor:
    return cache.rows[:, :, row, :, :tokens].clone()
