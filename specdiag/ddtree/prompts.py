"""Text in, text out: the prompts of a file, and what is continued, as it is committed.

This module does not import torch: the command line reads its limits.
"""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiag.errors import SpecdiagError, reason

if TYPE_CHECKING:
    from specdiag.ddtree.pair import Pair
    from specdiag.ddtree.tokenizer import Tokenizer

LARGEST_SEED = 2**63 - 1
LARGEST_BUDGET = 4096  # its mask takes 16 million entries a request
UNFINISHED = "\ufffd"  # what bytes show as that are no character yet


@dataclass(frozen=True)
class Prompt:
    """A text to continue, and what it wants in place of the options."""

    text: str
    where: str
    max_new_tokens: int | None = None
    budget: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None


def read(path: str) -> list[Prompt]:
    """The prompt of a text file, those of a .jsonl file, or the text on stdin for `-`.

    Raises SpecdiagError for a file that cannot be read and for an object that is no prompt.
    """
    where = "<stdin>" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SpecdiagError(
            f"the prompt is not UTF-8: {error.reason} at byte {error.start}", where,
            "convert the file to UTF-8",
        ) from None  # fmt: skip
    except OSError as error:
        raise SpecdiagError(
            f"the prompt cannot be read: {reason(error)}", where, "check --file"
        ) from None
    if not path.endswith(".jsonl"):
        return [Prompt(text, where)]
    lines = enumerate(text.split("\n"), start=1)
    found = [_parse(line, f"{where}:{number}") for number, line in lines if line.strip()]
    if not found:
        raise SpecdiagError("the file holds no prompt", where, 'write lines of {"prompt": "..."}')
    return found


def encode(pair: Pair, prompt: Prompt) -> list[int]:
    """The ids of a prompt."""
    try:
        prompt.text.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates: bytes of the command line, or \ud800
        raise SpecdiagError(
            "the prompt is not UTF-8", prompt.where, "convert the text to UTF-8"
        ) from None
    ids = pair.tokenizer.encode(prompt.text)
    if not ids:
        raise SpecdiagError("the prompt is empty", prompt.where, "give at least one character")
    vocab = pair.target.architecture.vocab_size
    if max(ids) >= vocab:
        raise SpecdiagError(
            f"the prompt has token id {max(ids)}, the target {vocab} ids", prompt.where,
            "take the tokenizer and the weights from the same model",
        )  # fmt: skip
    return ids


_LIMITS: dict[str, tuple[type | tuple[type, ...], Callable[[Any], bool], str]] = {
    "max_new_tokens": (int, lambda value: value >= 1, "a whole number from 1 on"),
    "budget": (int, lambda v: 0 <= v <= LARGEST_BUDGET, f"a whole number to {LARGEST_BUDGET}"),
    "temperature": ((int, float), lambda v: math.isfinite(v) and v >= 0, "a number from 0 on"),
    "top_p": ((int, float), lambda value: 0 < value <= 1, "a number above 0, up to 1"),
    "seed": (int, lambda v: 0 <= v <= LARGEST_SEED, f"a whole number from 0 to {LARGEST_SEED}"),
}


def _parse(line: str, where: str) -> Prompt:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SpecdiagError(
            f"not a line of JSON: {reason(error)}", where, 'write lines of {"prompt": "..."}'
        ) from None
    if not isinstance(values, dict) or not isinstance(values.get("prompt"), str):
        raise SpecdiagError("not a prompt", where, 'write {"prompt": "..."}')
    text = values.pop("prompt")
    for key, value in values.items():
        if key not in _LIMITS:
            known = ", ".join(["prompt", *_LIMITS])
            raise SpecdiagError(f"`{key}` is not known", where, f"known are {known}")
        types, fits, wanted = _LIMITS[key]
        if isinstance(value, bool) or not isinstance(value, types) or not fits(value):
            raise SpecdiagError(f"`{key}` is {value!s:.60}", where, f"write {wanted}")
    return Prompt(text, where, **values)


class Stream:
    """The text of tokens as they come. Bytes of a character that is not complete wait for it."""

    def __init__(self, tokenizer: Tokenizer, write: Callable[[str], None]) -> None:
        self.tokenizer, self.write = tokenizer, write
        self.pending: list[int] = []  # tokens since the last complete character
        self.shown = 0  # characters of theirs that are out

    def add(self, tokens: Iterable[int]) -> None:
        """Write what these tokens complete."""
        self.pending += tokens
        text = self.tokenizer.decode(self.pending)
        # Only the end can be unfinished; a broken sequence before it stays a broken one.
        whole = text.removesuffix(UNFINISHED)
        if len(whole) > self.shown:
            self.write(whole[self.shown :])
        self.shown = max(self.shown, len(whole))
        if whole == text:
            self.pending, self.shown = [], 0

    def close(self) -> None:
        """Write what stays incomplete."""
        text = self.tokenizer.decode(self.pending)
        if len(text) > self.shown:
            self.write(text[self.shown :])
        self.pending, self.shown = [], 0


def harmless(text: str) -> str:
    """The text for a terminal: line ends and tabs stay, other controls are written out."""
    return "".join(
        each if each in "\n\t" or unicodedata.category(each) not in _CONTROLS
        else each.encode("unicode_escape").decode()
        for each in text
    )  # fmt: skip


_CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")


def without(tokens: Sequence[int], stop_ids: frozenset[int]) -> list[int]:
    """The tokens that are text: a stop token ends a text, and is none."""
    return [token for token in tokens if token not in stop_ids]
