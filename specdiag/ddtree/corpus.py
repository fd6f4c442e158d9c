"""Text that every machine has: the sources of Python's own standard library.

One module in sixteen is held out, chosen by its name, so that training and measuring agree about
it on every machine. Two more kinds of text are made from the same words: repeated passages, which
are as predictable as text can be, and shuffled words, which nobody can predict.

This module does not import torch.
"""

from __future__ import annotations

import random
import re
import sysconfig
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HELD_OUT = 16  # one module in so many
LEAST, MOST = 1_000, 300_000  # characters of a module that is read

# Tables of data, generated files and tests, which not every machine has.
_LEFT_OUT = {"site-packages", "dist-packages", "encodings", "pydoc_data", "test", "tests",
             "__pycache__", "lib2to3", "turtledemo"}  # fmt: skip


@cache
def modules(held_out: bool) -> tuple[str, ...]:
    """The sources of one part, in order of their names."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if _LEFT_OUT & {*name.parts} or name.stem.startswith("_sysconfigdata"):
            continue
        if (zlib.crc32(name.as_posix().encode()) % HELD_OUT == 0) != held_out:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if LEAST <= len(text) <= MOST:
            found.append(text)
    return tuple(found)


def code(draw: random.Random, characters: int, held_out: bool = True) -> str:
    """A passage of a module that begins at a line, chosen by its size among all modules."""
    known = modules(held_out)
    module = draw.choices(known, [len(text) for text in known])[0]
    at = draw.randrange(max(len(module) - characters, 1))
    at = module.find("\n", at) + 1
    return module[at : at + characters]


def repeated(draw: random.Random, characters: int, held_out: bool = True) -> str:
    """A passage of a few lines, again and again."""
    passage = code(draw, draw.randrange(100, 400), held_out).rsplit("\n", 1)[0] + "\n"
    return (passage * (characters // len(passage) + 1))[:characters]


def shuffled(draw: random.Random, characters: int, held_out: bool = True) -> str:
    """Words of several modules in an order of no meaning."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < characters:
        found = re.findall(r"[A-Za-z]{2,}", code(draw, 4_000, held_out))
        words += draw.sample(found, len(found) // 2)
    draw.shuffle(words)
    return " ".join(words)[:characters]


KINDS = {"code": code, "repeated": repeated, "shuffled": shuffled}


def passages(kind: str, count: int, characters: int, seed: int = 0) -> list[str]:
    """Held-out passages of one kind, the same for the same seed."""
    draw = random.Random(seed)
    return [KINDS[kind](draw, characters) for _ in range(count)]


def stream(seed: int) -> Iterator[str]:
    """Documents for training without end: modules, mixed with the two other kinds."""
    draw = random.Random(seed)
    while True:
        order = list(modules(held_out=False))
        draw.shuffle(order)
        for module in order:
            yield module
            chance = draw.random()
            if chance < 0.4:
                yield repeated(draw, draw.randrange(1_000, 5_000), held_out=False)
            elif chance < 0.8:
                yield shuffled(draw, draw.randrange(1_000, 5_000), held_out=False)
