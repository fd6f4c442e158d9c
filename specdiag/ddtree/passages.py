"""Passages of an exact number of tokens, out of held-out text or of a file, to measure with.

A passage is cut at its left, so that it ends where a line or a word does. This module does not
import torch.
"""

from __future__ import annotations

import random
from typing import Protocol

from specdiag.ddtree import corpus
from specdiag.errors import SpecdiagError

CHARACTERS = 6  # of a token, at first; more are read where that is too few
PASSAGE = 120  # characters that the predictable text repeats: often enough in 128 tokens


class Encoder(Protocol):
    """The half of a tokenizer that is needed here."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""


def held_out(tokenizer: Encoder, kind: str, count: int, tokens: int, seed: int) -> list[list[int]]:
    """Passages of one kind of `corpus.KINDS`, the same for the same seed. [count][tokens]

    Where a module is too short, an earlier passage is put before it.
    """
    if kind not in corpus.KINDS:
        raise SpecdiagError(
            f"{kind!r} is no kind of text", help=f"one of {', '.join(corpus.KINDS)}"
        )
    found = []
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        text, ids = "", list[int]()
        while len(ids) < tokens:
            text = natural_end(corpus.KINDS[kind](draw, CHARACTERS * tokens)) + text
            ids = tokenizer.encode(text)
        found.append(ids[-tokens:])
    return found


def predictable(tokenizer: Encoder, tokens: int, seed: int) -> list[int]:
    """A few lines of code, again and again. Shorter ones are the end of longer ones."""
    draw, passage = random.Random(seed), ""
    while len(passage.strip()) < PASSAGE // 3:
        passage = natural_end(corpus.code(draw, PASSAGE))
    return repeated(tokenizer, passage, tokens)


def repeated(tokenizer: Encoder, passage: str, tokens: int) -> list[int]:
    """The last `tokens` ids of a passage that is repeated as often as it takes."""
    text, ids = passage, tokenizer.encode(passage)
    if not ids:
        raise SpecdiagError("the text is empty", help="name a file with text in it")
    while len(ids) < tokens:
        text *= 2
        ids = tokenizer.encode(text)
    return ids[-tokens:]


def part(tokenizer: Encoder, text: str, tokens: int, number: int, of: int) -> list[int]:
    """The last `tokens` ids before place `number` of `of` in a text, place 0 being its end.

    Raises SpecdiagError when the text has fewer.
    """
    whole = len(tokenizer.encode(text))
    if whole < tokens:
        raise SpecdiagError(
            f"the text has {whole} tokens, {tokens} are needed",
            help="name a longer file, or ask for shorter lengths",
        )
    spare = 1 - tokens / whole
    # Not all of it: a token has more characters in one place than in another.
    end = int(len(text) * (1 - 0.9 * spare * number / of))
    ids = tokenizer.encode(natural_end(text[:end]))
    return (ids if len(ids) >= tokens else tokenizer.encode(text))[-tokens:]


def natural_end(text: str) -> str:
    """The text up to its last whole line; where there is only one, up to its last whole word."""
    for mark, keep in (("\n", 1), (" ", 0)):
        at = text.rfind(mark)
        if at > len(text) // 2:
            return text[: at + keep]
    return text
