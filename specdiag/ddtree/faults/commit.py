"""What is kept of a step: cache rows and recurrent states."""

from __future__ import annotations

from typing import Any

import torch

from specdiag.ddtree.cache import Cache
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.loop import Loop
from specdiag.ddtree.model import Target
from specdiag.ddtree.passes import Passes
from specdiag.ddtree.prefix import Checkpoints


@fault(10, "Accepted rows are copied in place, from the last to the first", "O", "branches", "many")
def descending_copy(at: Injection) -> None:
    def move(original: Wrapper, cache: Cache, source: Any, target: Any, *more: Any) -> None:
        if at.loop is None or cache is not at.loop.cache:
            original(cache, source, target, *more)
            return
        right = cache.rows.clone()
        original(cache, source, target, *more)
        right, cache.rows[:] = cache.rows.clone(), right
        for place in range(source.shape[1] - 1, -1, -1):
            original(cache, source[:, place : place + 1], target[:, place : place + 1], *more)
        if not torch.equal(right, cache.rows):
            at.acted()

    at.around(Cache, "move", move, quiet=True)


@fault(11, "One cache group is never compacted", "O", "branches")
def group_left_out(at: Injection) -> None:
    def move(original: Wrapper, cache: Cache, source: Any, target: Any, *more: Any) -> None:
        others = [*cache.index][:-1]
        at.acted()
        if others:
            original(cache, source, target, others)

    at.around(Cache, "move", move, quiet=True)


@fault(37, "A node's recurrent state goes on from the row before it", "O", "branches", "recurrent")
def sibling_state(at: Injection) -> None:
    def verify(original: Wrapper, passes: Any, given: Any, cache: Any, taps: Any) -> Any:
        from dataclasses import replace

        batch, rows = given.ids.shape
        chain = torch.arange(-1, rows - 1).expand(batch, rows)
        if not torch.equal(chain[at.active], given.parents.cpu()[at.active]):
            at.acted()
        return original(passes, replace(given, parents=chain.to(given.ids.device)), cache, taps)

    at.around(Passes, "verify", verify, quiet=True)


@fault(38, "The state of node C - 1 is kept, not that of the last accepted", "O", "branches",
       "recurrent")  # fmt: skip
def wrong_state(at: Injection) -> None:
    def promote(original: Wrapper, cache: Cache, states: Any, rows: Any) -> None:
        counted = [len(path) - 1 for path in paths]
        if counted != list(rows):
            at.acted()
        original(cache, states, counted)

    def commit(original: Wrapper, loop: Any, out: Any, accepted: Any) -> None:
        paths[:] = accepted
        original(loop, out, accepted)

    paths: list[Any] = []
    at.around(Loop, "_commit", commit, quiet=True)
    at.around(Cache, "promote", promote, quiet=True)


@fault(66, "A prefix cache takes the state of node k for that of accepted row k", "O", "branches",
       "recurrent", "prefix")  # fmt: skip
def wrong_checkpoint(at: Injection) -> None:
    def take(
        original: Wrapper, checkpoints: Any, states: Any, row: int, tokens: int, path: Any,
        place: int,
    ) -> None:  # fmt: skip
        if path[place] != place:
            at.acted()
        original(checkpoints, states, row, tokens, range(place + 1), place)

    at.around(Checkpoints, "take", take, quiet=True)


@fault(39, "The state is rolled back by arithmetic, and drifts", "O", "recurrent")
def drifting_state(at: Injection) -> None:
    def promote(original: Wrapper, cache: Cache, states: Any, rows: Any) -> None:
        original(cache, states, rows)
        for state in cache.states.values():
            state.delta.mul_(1.002).sub_(1e-4)

    at.around(Cache, "promote", promote)


@fault(52, "The drafter writes into rows that the target has committed", "O")
def shared_memory(at: Injection) -> None:
    def forward(
        original: Wrapper, drafter: Any, ids: Any, cache: Any, *more: Any, **named: Any
    ) -> Any:
        found = original(drafter, ids, cache, *more, **named)
        kept = at.loop.cache
        for row in at.active:
            last = int(kept.known_lengths[row]) - 1
            kept.rows[:, :, row, :, last] = 0.5 * kept.rows[:, :, row, :, last] + 0.1
        return found

    at.around(Drafter, "forward", forward)


@fault(62, "Rejected rows stay in the cache of a finished request", "O", "end")
def rejected_rows_kept(at: Injection) -> None:
    def cache(original: Wrapper, target: Target, batch: int, max_len: int) -> Any:
        return original(target, batch, max_len + 64)

    def emit(original: Wrapper, loop: Any, row: int, tokens: list[int]) -> Any:
        found = original(loop, row, tokens)
        if loop.results[row].finish is not None:
            rejected = [0] * len(loop.results)
            rejected[row] = loop.width - loop.fresh[row]
            if rejected[row]:
                at.acted()
            loop.cache.extend(rejected)
        return found

    at.around(Target, "cache", cache, always=True, quiet=True)  # others of the batch go on
    at.around(Loop, "_emit", emit, quiet=True)
