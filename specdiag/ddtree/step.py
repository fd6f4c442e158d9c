"""What the loop knows of a step: what it drafted and verified, what it accepted and emitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from specdiag.ddtree.model import Output
from specdiag.ddtree.tree import Candidates, Tree
from specdiag.ddtree.verify import Pass


@dataclass
class Drafted:
    """What one step drafted; autoregressive steps have trees of the root alone."""

    trees: list[Tree]  # that are verified, one of each batch row
    kv_before: list[int] = field(default_factory=list)  # rows in the draft cache, before and
    kv_after: list[int] = field(default_factory=list)  # after the new context
    context_start: Tensor | None = None  # [batch] position of the first row of it
    block: Tensor | None = None  # [batch, block] the drafter's input
    logits: Tensor | None = None  # [batch, L, vocab]
    table: Candidates | None = None  # [batch, L, K]


class Counters(NamedTuple):
    """What is counted of a step: depth of its last row, drafts, and tokens with the bonus."""

    depth: float
    drafts: float
    commit: float


@dataclass
class Step:
    """What the loop knows of one step; lists have one entry for each batch row."""

    active: list[int]  # the batch rows that take part
    starts: list[int]  # position of each root
    context_rows: list[int]  # features that went into the draft cache,
    context_sources: list[list[int]]  # and the verify rows they come from, [] after prefill
    drafted: Drafted
    given: Pass
    out: Output
    chosen: list[Tensor]  # [N + 1] the target's choices
    accepted: list[list[int]]
    bonus: list[int]
    emitted: dict[int, list[int]] = field(default_factory=dict)
    cuts: dict[int, str | None] = field(default_factory=dict)
    counters: dict[int, Counters] = field(default_factory=dict)


def count(step: Step, row: int) -> Counters:
    """What is counted of a batch row."""
    path = step.accepted[row]
    depth = float(step.drafted.trees[row].depths[path[-1]])
    return Counters(depth, float(len(path) - 1), float(len(path)))
