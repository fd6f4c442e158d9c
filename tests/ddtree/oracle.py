"""The draft tree as its definition says it, slowly and in plain Python: what tree.py must equal.

A row is (parent, depth, rank, token, score). No torch: tables are lists of lists, [L][K].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import product

Row = tuple[int, int, int, int, float]
Path = tuple[int, ...]  # the rank at each depth


def build(
    root: int,
    tokens: list[list[int]],
    log_probs: list[list[float]],
    budget: int,
    depth_limit: int | None = None,
    depth_bonus: float = 0.0,
) -> list[Row]:
    """The rows by a heap of (-score, path): pop one, push its next sibling and its first child."""
    levels = len(log_probs) if depth_limit is None else min(depth_limit, len(log_probs))
    rows: list[Row] = [(-1, 0, 0, root, 0.0)]
    heap: list[tuple[float, Path, int, float]] = []

    def add(path: Path, parent: int) -> None:
        depth, rank = len(path), path[-1]
        if depth > levels or rank >= len(log_probs[depth - 1]):
            return
        score = rows[parent][4] + log_probs[depth - 1][rank]
        if score > -1e30:  # -inf, or the lowest float in its place: a masked token
            heappush(heap, (-score - depth_bonus * depth, path, parent, score))

    add((0,), 0)
    while heap and len(rows) <= budget:
        _, path, parent, score = heappop(heap)
        *above, rank = path
        depth = len(path)
        rows.append((parent, depth, rank, tokens[depth - 1][rank], score))
        add((*above, rank + 1), parent)
        add((*path, 0), len(rows) - 1)
    return rows


def paths(log_probs: list[list[float]]) -> list[tuple[float, Path]]:
    """Every path with its score, best first, equal ones in lexicographic order."""
    found = []
    for depth in range(1, len(log_probs) + 1):
        for path in product(*(range(len(row)) for row in log_probs[:depth])):
            score = 0.0
            for row, rank in zip(log_probs, path, strict=False):
                score += row[rank]
            found.append((score, path))
    return sorted(found, key=lambda one: (-one[0], one[1]))


def trees(levels: int, width: int, above: Path = ()) -> Iterator[frozenset[Path]]:
    """Every tree over `width` candidates and at most `levels` depths, as its set of paths."""
    if levels == 0:
        yield frozenset()
        return
    below = [
        [frozenset[Path]()]
        + [{(*above, rank)} | tree for tree in trees(levels - 1, width, (*above, rank))]
        for rank in range(width)
    ]
    for choice in product(*below):
        yield frozenset[Path]().union(*choice)


def ancestors(parents: list[int], row: int) -> set[int]:
    """The row itself and all above it."""
    found = set()
    while row != -1:
        found.add(row)
        row = parents[row]
    return found


def longest(tokens: list[int], parents: list[int], target: list[int], row: int = 0) -> list[int]:
    """The longest path from `row` that the target follows; the earlier of equally long ones."""
    best: list[int] = []
    for child, parent in enumerate(parents):
        if parent == row and tokens[child] == target[row]:
            below = longest(tokens, parents, target, child)
            # Of equally long paths the one whose end is listed first.
            if (len(below), -below[-1]) > (len(best), -best[-1] if best else -math.inf):
                best = below
    return [row, *best]
