"""What the target is given: positions, ids, mask, windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from specdiag.ddtree import decode, model
from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.model import Target


@fault(1, "Positions are one too high in every row", "O")
def off_by_one(at: Injection) -> None:
    def compile(original: Wrapper, *args: Any) -> Any:
        given = original(*args)
        return replace(given, positions=given.positions + 1)

    at.around(decode, "compile", compile)


@fault(2, "Positions follow the row, not the depth", "O", "branches")
def by_row(at: Injection) -> None:
    def compile(original: Wrapper, trees: Any, starts: Any, width: int, device: Any) -> Any:
        given = original(trees, starts, width, device)
        rows = torch.tensor(starts)[:, None] + torch.arange(width)
        if any(not tree.is_chain() for tree in trees):
            at.acted()
        return replace(given, positions=rows.to(device))

    at.around(decode, "compile", compile, quiet=True)


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

    at.around(decode, "compile", compile, always=True, quiet=True)
    at.around(decode._Loop, "_draft", draft, always=True, quiet=True)
    at.around(decode._Loop, "_commit", commit, always=True, quiet=True)
    at.around(decode._Loop, "prefill", prefill, always=True, quiet=True)


@fault(4, "Keys and queries are turned by their slot instead of their position", "O", "branches")
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

    at.around(decode, "verify", verify, quiet=True)
    at.around(model, "angles_by_type", angles, quiet=True)


@fault(5, "Rows see all rows before them, siblings included", "O", "branches")
def plain_causal(at: Injection) -> None:
    def compile(original: Wrapper, trees: Any, starts: Any, width: int, device: Any) -> Any:
        given = original(trees, starts, width, device)
        if any(not tree.is_chain() for tree in trees):
            at.acted()
        return replace(given, visible=torch.ones_like(given.visible).tril())

    at.around(decode, "compile", compile, quiet=True)


@fault(6, "Rows of the mask are off by one", "O")
def mask_stride(at: Injection) -> None:
    def compile(original: Wrapper, *args: Any) -> Any:
        given = original(*args)
        return replace(given, visible=given.visible.roll(1, dims=1))

    at.around(decode, "compile", compile)


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


@fault(35, "The tree rectangle of the step before is not cleared", "O", "branches", shown=0)
def stale_rectangle(at: Injection) -> None:
    last: dict[str, Any] = {}

    def verify(original: Wrapper, target: Any, given: Any, cache: Any, taps: Any) -> Any:
        seen = given.visible
        batch, rows, _ = seen.shape
        starts = cache.known_lengths.tolist()
        if at.on and last.get("cache") is cache:
            columns = cache.columns(rows)
            whole = torch.zeros(batch, rows, columns, dtype=torch.bool, device=seen.device)
            for row, start in enumerate(starts):
                whole[row, :, :start] = True
                whole[row, :, start : start + rows] = seen[row]
                before = last["starts"][row]
                stale = last["visible"][row][:, : start - before]
                whole[row, :, before:start] &= stale
            if not bool(whole[at.active][:, :, : min(starts)].all()):
                at.acted()
            given = replace(given, visible=whole)
        out = original(target, given, cache, taps)
        last.update(cache=cache, starts=starts, visible=seen)
        return out

    at.around(decode, "verify", verify, always=True, quiet=True)


@fault(36, "A captured graph reads the ids of the step before", "O")
def stale_ids(at: Injection) -> None:
    last: dict[str, Any] = {}

    def verify(original: Wrapper, target: Any, given: Any, cache: Any, taps: Any) -> Any:
        ids = given.ids
        stale = last.get("ids")
        if at.on and stale is not None and last["cache"] is cache:
            at.acted()
            given = replace(given, ids=stale)
        last.update(cache=cache, ids=ids)
        return original(target, given, cache, taps)

    at.around(decode, "verify", verify, always=True, quiet=True)
