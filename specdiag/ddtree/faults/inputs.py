"""What the target is given: positions, ids, mask, windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from specdiag.ddtree import loop as looping
from specdiag.ddtree import model
from specdiag.ddtree.cache import Cache
from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.loop import Loop
from specdiag.ddtree.model import Target
from specdiag.ddtree.passes import Passes


@fault(1, "Positions are one too high in every row", "O")
def off_by_one(at: Injection) -> None:
    def compile(original: Wrapper, *args: Any) -> Any:
        given = original(*args)
        return replace(given, positions=given.positions + 1)

    at.around(looping, "compile", compile)


@fault(2, "Positions follow the row, not the depth", "O", "branches")
def by_row(at: Injection) -> None:
    def compile(original: Wrapper, trees: Any, starts: Any, width: int, device: Any) -> Any:
        given = original(trees, starts, width, device)
        rows = torch.tensor(starts)[:, None] + torch.arange(width)
        if any(not tree.is_chain() for tree in trees):
            at.acted()
        return replace(given, positions=rows.to(device))

    at.around(looping, "compile", compile, quiet=True)


@fault(3, "Positions from a length that the host guessed before the device was done", "O")
def optimistic_length(at: Injection) -> None:
    # Until the results are there, all drafts of the step before count as accepted.
    pending: dict[int, int] = {}

    def compile(original: Wrapper, trees: Any, starts: Any, width: int, device: Any) -> Any:
        ahead = [pending.get(row, 0) for row in range(len(starts))]
        if at.on and any(ahead[row] for row in at.active):
            at.acted()
        return original(
            trees, [a + b for a, b in zip(starts, ahead, strict=True)] if at.on else starts,
            width, device,
        )  # fmt: skip

    def commit(original: Wrapper, loop: Any, out: Any, accepted: Any) -> None:
        original(loop, out, accepted)
        for row, path in enumerate(accepted):
            depth = int(drawn[row].depths.max()) if drawn else 0
            pending[row] = depth + 1 - len(path) if path else 0

    drawn: list[Any] = []

    def draft(original: Wrapper, loop: Any, active: Any) -> Any:
        drafted = original(loop, active)
        drawn[:] = drafted.trees
        return drafted

    def prefill(original: Wrapper, loop: Any) -> None:
        pending.clear()
        original(loop)

    at.around(looping, "compile", compile, always=True, quiet=True)
    at.around(Loop, "_draft", draft, always=True, quiet=True)
    at.around(Loop, "_commit", commit, always=True, quiet=True)
    at.around(Loop, "prefill", prefill, always=True, quiet=True)


@fault(4, "Keys and queries are turned by their slot instead of their position", "O", "branches",
       "steps")  # fmt: skip
def slot_as_phase(at: Injection) -> None:
    verifying = False

    def verify(original: Wrapper, *args: Any) -> Any:
        nonlocal verifying
        verifying = True
        out = original(*args)
        verifying = False
        return out

    def angles(original: Wrapper, rotaries: Any, positions: Any, dtype: Any) -> Any:
        if verifying:
            rows = torch.arange(positions.shape[1], device=positions.device)
            slots = positions[:, :1] + rows
            if not torch.equal(slots, positions):
                at.acted()
            positions = slots
        return original(rotaries, positions, dtype)

    at.around(Passes, "verify", verify, quiet=True)
    at.around(model, "angles_by_type", angles, quiet=True)


@fault(5, "Rows see all rows before them, siblings included", "O", "branches")
def plain_causal(at: Injection) -> None:
    def compile(original: Wrapper, trees: Any, starts: Any, width: int, device: Any) -> Any:
        given = original(trees, starts, width, device)
        if any(not tree.is_chain() for tree in trees):
            at.acted()
        return replace(given, visible=torch.ones_like(given.visible).tril())

    at.around(looping, "compile", compile, quiet=True)


@fault(6, "Rows of the mask are off by one", "O")
def mask_stride(at: Injection) -> None:
    def compile(original: Wrapper, *args: Any) -> Any:
        given = original(*args)
        return replace(given, visible=given.visible.roll(1, dims=1))

    at.around(looping, "compile", compile)


@fault(7, "Sliding layers of the target see all of the past", "O", "window")
def target_window(at: Injection) -> None:
    def sight(original: Wrapper, target: Target, positions: Any, *args: Any) -> Any:
        found = original(target, positions, *args)
        full = replace_window(original, target, positions, *args)
        if any(not torch.equal(found.seen[each], full.seen[each]) for each in found.seen):
            at.acted()
        return full

    def replace_window(original: Wrapper, target: Target, *args: Any) -> Any:
        of = target.architecture
        target.architecture = replace(of, sliding_window=of.max_position_embeddings)
        found = original(target, *args)
        target.architecture = of
        return found

    at.around(Target, "sight", sight, quiet=True)


@fault(35, "The tree rectangle of the step before is not cleared", "O", "branches")
def stale_rectangle(at: Injection) -> None:
    last: dict[str, Any] = {}

    def verify(original: Wrapper, passes: Any, given: Any, cache: Cache, taps: Any) -> Any:
        seen, starts = given.visible, cache.known_lengths.tolist()
        if at.on and last.get("cache") is cache:
            given = replace(
                given, visible=_with_stale(seen, starts, last, cache.columns(len(seen[0])))
            )
            past = [given.visible[row, :, : starts[row]] for row in at.active]
            if not all(bool(part.all()) for part in past):
                at.acted()
        out = original(passes, given, cache, taps)
        last.update(cache=cache, starts=starts, visible=seen)
        return out

    at.around(Passes, "verify", verify, always=True, quiet=True)


def _with_stale(seen: Any, starts: list[int], last: dict[str, Any], columns: int) -> Any:
    """The mask over all columns, with what the last one left where the past is now."""
    batch, rows, _ = seen.shape
    whole = torch.zeros(batch, rows, columns, dtype=torch.bool, device=seen.device)
    for row, (start, before) in enumerate(zip(starts, last["starts"], strict=True)):
        whole[row, :, :start] = True
        whole[row, :, start : start + rows] = seen[row]
        whole[row, :, before:start] &= last["visible"][row][:, : start - before]
    return whole


@fault(36, "A captured graph reads the ids of the step before", "O")
def stale_ids(at: Injection) -> None:
    last: dict[str, Any] = {}

    def verify(original: Wrapper, passes: Any, given: Any, cache: Any, taps: Any) -> Any:
        ids = given.ids
        stale = last.get("ids")
        if at.on and stale is not None and last["cache"] is cache:
            at.acted()
            given = replace(given, ids=stale)
        last.update(cache=cache, ids=ids)
        return original(passes, given, cache, taps)

    at.around(Passes, "verify", verify, always=True, quiet=True)
