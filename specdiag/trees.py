"""What the tree of a traced step is: rows that hang below the root, and the path to be accepted.

Row 0 is the root. What a trace does not say is None, and what contradicts itself is read as far as
it goes: rows of a circle, and rows whose parent does not exist, have no depth.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CHOICES = "the target's choices"
TEXT = "the text that follows"
STEPS = 64  # a step and later ones whose text says where the walk should have gone

# How a row stands to the two paths.
TAKEN = "*"  # accepted as it should be
AGAINST = "!"  # accepted against what the target chose
MISSED = ">"  # should have been accepted


@dataclass
class Tree:
    """The columns of a step as they can be trusted: every list has one entry a row."""

    parents: list[int | None]
    tokens: list[int | None]
    targets: list[int | None]
    ranks: list[int | None]
    log_probs: list[float | None]
    children: dict[int, list[int]] = field(default_factory=dict)
    depths: dict[int, int] = field(default_factory=dict)  # of the rows that hang below the root

    @property
    def drafted(self) -> bool:
        """Whether there is a tree, and a token in it that the target could choose."""
        return bool(self.depths) and any(token is not None for token in self.tokens[1:])


def whole(value: Any) -> list[int | None] | None:
    """A list of row numbers or tokens, with None for what is no number; None if it is no list."""
    if not isinstance(value, (list, tuple)):
        return None
    return [int(one) if isinstance(one, (int, float)) and math.isfinite(one) else None
            for one in value]  # fmt: skip


def read(step: Mapping[str, Any]) -> Tree:
    """The tree of a step: columns of table `step`, all of them optional.

    Lists that are too short or too long are fitted to the rows that have a parent or a token.
    """
    parents = whole(step.get("parents")) or []
    tokens = whole(step.get("node_tokens")) or []
    rows = max(len(parents), len(tokens))

    def padded(values: list[Any]) -> list[Any]:
        return [*values[:rows], *[None] * (rows - len(values))]

    scores = step.get("log_probs")
    tree = Tree(
        padded(parents), padded(tokens), padded(whole(step.get("target_tokens")) or []),
        padded(whole(step.get("ranks")) or []),
        padded(list(scores) if isinstance(scores, (list, tuple)) else []),
    )  # fmt: skip
    for row, parent in enumerate(tree.parents):
        if row and parent is not None and 0 <= parent < rows and parent != row:
            tree.children.setdefault(parent, []).append(row)
    waiting = deque([0] if rows else [])
    if rows:
        tree.depths[0] = 0
    while waiting:  # rows of a circle are never reached
        row = waiting.popleft()
        for child in tree.children.get(row, []):
            if child and child not in tree.depths:
                tree.depths[child] = tree.depths[row] + 1
                waiting.append(child)
    return tree


def expected(step: Mapping[str, Any], tree: Tree) -> tuple[list[int] | None, str]:
    """The rows that the walk should have taken, and what says so; None if nothing does.

    It is the target's choices or, without any, `text`: the token ids that the request received
    from this step on.
    """
    known = whole(step.get("text")) or []
    if not tree.drafted:
        return None, ""
    if any(token is not None for token in tree.targets):
        return _follow(tree, lambda row, depth: tree.targets[row]), CHOICES
    if known:
        return _follow(tree, lambda row, depth: known[depth] if depth < len(known) else None), TEXT
    return None, ""


def text(emitted: list[list[int] | None]) -> list[int]:
    """The tokens of successive steps, up to the first step that does not say."""
    tokens: list[int] = []
    for some in emitted:
        if some is None or any(token is None for token in some):
            break
        tokens += some
    return tokens


def _follow(tree: Tree, wanted: Callable[[int, int], int | None]) -> list[int]:
    """The longest path of wanted tokens; of equal siblings all are followed, the lower row wins."""
    above: dict[int, int] = {}
    frontier, last = [0], 0
    while frontier:
        last = min(frontier)
        reached = []
        for row in frontier:
            token = wanted(row, tree.depths[row])
            for child in tree.children.get(row, []):
                new = child and child not in above
                if new and token is not None and tree.tokens[child] == token:
                    above[child] = row
                    reached.append(child)
        frontier = reached
    path = [last]
    while path[-1]:
        path.append(above[path[-1]])
    return path[::-1]


def marks(tree: Tree, recorded: set[int], expected: set[int]) -> dict[int, str]:
    """How each row of either path stands to both."""
    found = dict.fromkeys(recorded & expected, TAKEN)
    found |= dict.fromkeys(recorded - expected, AGAINST)
    return found | dict.fromkeys(expected - recorded, MISSED)


def sizes(tree: Tree) -> dict[int, int]:
    """Rows of the subtree of every row that hangs below the root."""
    found = dict.fromkeys(tree.depths, 1)
    for row in reversed(list(tree.depths)):  # breadth first, so that children come before parents
        for child in tree.children.get(row, []):
            if tree.depths.get(child) == tree.depths[row] + 1:
                found[row] += found[child]
    return found
