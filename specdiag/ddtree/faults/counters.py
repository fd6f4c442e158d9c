"""What the loop counts, and what it waits for."""

from __future__ import annotations

import time
from typing import Any

from specdiag.ddtree import loop as looping
from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.loop import Loop
from specdiag.ddtree.passes import Passes
from specdiag.ddtree.step import Counters, Step


def _counting(at: Injection, changed: Any) -> None:
    def counters(original: Wrapper, step: Step, row: int) -> Counters:
        found: Counters = changed(step, row, original(step, row))
        if found != original(step, row):
            at.acted()
        return found

    at.around(looping, "count", counters, quiet=True)


@fault(20, "The accepted depth reports the depth of the tree", "M")
def depth_of_tree(at: Injection) -> None:
    def changed(step: Step, row: int, right: Counters) -> Counters:
        return right._replace(depth=float(step.drafted.trees[row].depths.max()))

    _counting(at, changed)


@fault(21, "The root counts as an accepted draft", "M")
def root_counted(at: Injection) -> None:
    _counting(at, lambda step, row, right: right._replace(drafts=right.drafts + 1))


@fault(59, "The depth is the largest of the batch, the other counters are the request's", "M",
       "batch")  # fmt: skip
def largest_of_batch(at: Injection) -> None:
    def changed(step: Step, row: int, right: Counters) -> Counters:
        return right._replace(depth=float(max(len(step.accepted[one]) - 1 for one in step.active)))

    _counting(at, changed)


@fault(60, "The accepted depth is a mean over all steps so far", "M")
def running_mean(at: Injection) -> None:
    seen: dict[int, list[int]] = {}

    def counters(original: Wrapper, step: Step, row: int) -> Counters:
        right: Counters = original(step, row)
        seen.setdefault(row, []).append(len(step.accepted[row]) - 1)
        mean = sum(seen[row]) / len(seen[row])
        if not at.on or mean == right.depth:
            return right
        at.acted()
        return right._replace(depth=mean)

    def prefill(original: Wrapper, loop: Any) -> None:
        seen.clear()
        original(loop)

    at.around(Loop, "prefill", prefill, always=True, quiet=True)
    at.around(looping, "count", counters, always=True, quiet=True)


@fault(67, "Drafts are derived as emitted - 1, also where no bonus was sent", "M", "no_bonus")
def drafts_from_emitted(at: Injection) -> None:
    def changed(step: Step, row: int, right: Counters) -> Counters:
        if step.cuts[row] is None or len(step.emitted[row]) != right.drafts:
            return right
        return right._replace(drafts=right.drafts - 1)

    _counting(at, changed)


@fault(48, "The walk waits for the device at every node", "S", "steps")
def waits(at: Injection) -> None:
    lasted = 0.0

    def verify(original: Wrapper, passes: Any, *args: Any) -> Any:
        nonlocal lasted
        begin = time.perf_counter()
        out = original(passes, *args)
        lasted = time.perf_counter() - begin
        return out

    def accept(original: Wrapper, tree: Any, chosen: Any) -> Any:
        until = time.perf_counter() + lasted * len(tree.tokens) / 8
        while time.perf_counter() < until:
            pass
        return original(tree, chosen)

    at.around(Passes, "verify", verify, quiet=True)
    at.around(looping, "accept", accept)


@fault(
    49, "Every head of every layer has a dense mask of its own, filled entry by entry", "S", "long"
)
def dense_mask(at: Injection) -> None:
    def compile(original: Wrapper, trees: Any, starts: Any, width: int, device: Any) -> Any:
        of = at.loop.target.architecture
        masks = len(of.layer_types) * of.num_attention_heads
        for start in [start for start in starts for _ in range(masks)]:
            [[float(column <= start) for column in range(start + width)] for _ in range(width)]
        return original(trees, starts, width, device)

    at.around(looping, "compile", compile)
