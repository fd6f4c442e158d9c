"""What the drafter reads: features, context, block, windows; and its head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from specdiag.ddtree import drafter as drafting
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.loop import Loop
from specdiag.ddtree.passes import Passes


@fault(12, "Features of the first C rows instead of the accepted ones", "S", "branches", shown=1)
def first_rows(at: Injection) -> None:
    def commit(original: Wrapper, loop: Any, out: Any, accepted: Any) -> None:
        original(loop, out, accepted)
        first = [list(range(len(path))) for path in accepted]
        if any(first[row] != list(accepted[row]) for row in at.active):
            at.acted()
        loop.sources = first
        loop.features = out.features[:, : max(loop.fresh)]

    at.around(Loop, "_commit", commit, quiet=True)


@fault(13, "Features are taken one layer too late", "S")
def tap_off_by_one(at: Injection) -> None:
    def verify(original: Wrapper, passes: Any, given: Any, cache: Any, taps: Any) -> Any:
        return original(passes, given, cache, tuple(tap + 1 for tap in taps))

    at.around(Passes, "verify", verify)


@fault(14, "Features stand one position too far", "S")
def shifted_context(at: Injection) -> None:
    def append(original: Wrapper, drafter: Any, features: Any, counts: Any, cache: Any) -> Any:
        return original(drafter, features, counts, cache, cache.slots(features.shape[1]) + 1)

    at.around(Drafter, "append", append)


@fault(22, "Sliding layers of the drafter see all of the context", "S", "window")
def draft_window(at: Injection) -> None:
    _windows(at, lambda windows: [None] * len(windows))


@fault(23, "The drafter's full layer has a window, too", "S", "window")
def window_on_full(at: Injection) -> None:
    _windows(at, lambda windows: [min(one for one in windows if one)] * len(windows))


def _windows(at: Injection, changed: Any) -> None:
    def sight(original: Wrapper, drafter: Any, *args: Any) -> Any:
        kept = drafter.windows
        right = original(drafter, *args)
        drafter.windows = changed(kept)
        found = original(drafter, *args)
        drafter.windows = kept
        if any(not torch.equal(a, b) for a, b in zip(right, found, strict=True)):
            at.acted()
        return found

    def views(original: Wrapper, drafter: Any, seen: Any, dtype: Any) -> Any:
        return [original(drafter, [one] * len(seen), dtype)[0] for one in seen]

    at.around(Drafter, "sight", sight, quiet=True)
    at.around(Drafter, "_views", views, quiet=True)


@fault(24, "The drafter turns keys and queries by another base", "S")
def rope_base(at: Injection) -> None:
    def angles(original: Wrapper, rotaries: Any, positions: Any, dtype: Any) -> Any:
        if rotaries is not at.loop.drafter.rotary:
            return original(rotaries, positions, dtype)
        at.acted()
        kept = {id(one): one.frequencies for one in rotaries.values()}
        for one in rotaries.values():
            one.frequencies = kept[id(one)] ** 1.5  # 1e4 becomes 1e6
        found = original(rotaries, positions, dtype)
        for one in rotaries.values():
            one.frequencies = kept[id(one)]
        return found

    at.around(drafting, "angles_by_type", angles, quiet=True)


@fault(25, "The block holds another id in place of the mask id", "S")
def mask_id(at: Injection) -> None:
    def block(original: Wrapper, drafter: Any, root: Any) -> Any:
        found = original(drafter, root)
        found[:, 1:] = 0
        return found

    at.around(Drafter, "block", block)


@fault(26, "Slot 0 of the block holds the mask id", "S")
def masked_root(at: Injection) -> None:
    def block(original: Wrapper, drafter: Any, root: Any) -> Any:
        found = original(drafter, root)
        found[:, 0] = drafter.architecture.mask_token_id
        return found

    at.around(Drafter, "block", block)


@fault(27, "Draft ids are not mapped back to the target's tokens", "S", "many")
def unmapped_head(at: Injection) -> None:
    def head(original: Wrapper, drafter: Any, x: Any, target: Any) -> Any:
        return original(drafter, x, target).roll(13, -1)

    at.around(Drafter, "head", head)


@fault(41, "The block is narrower than the drafter was trained for", "S")
def block_width(at: Injection) -> None:
    def block(original: Wrapper, drafter: Any, root: Any) -> Any:
        return original(drafter, root)[:, :-2]

    at.around(Drafter, "block", block)


@fault(45, "Block rows stay in the draft cache as context", "S", shown=1)
def block_kept(at: Injection) -> None:
    def cache(original: Wrapper, drafter: Any, batch: int, max_len: int) -> Any:
        return original(drafter, batch, max_len * (drafter.architecture.block_size + 1))

    def forward(
        original: Wrapper, drafter: Any, ids: Any, cache: Any, *more: Any, **named: Any
    ) -> Any:
        found = original(drafter, ids, cache, *more, **named)
        cache.extend([ids.shape[1]] * len(ids))
        return found

    at.around(Drafter, "cache", cache, always=True, quiet=True)
    at.around(Drafter, "forward", forward)


@fault(46, "The draft context is made anew in every step", "S")
def rebuilt_context(at: Injection) -> None:
    past: dict[str, Any] = {}

    def append(
        original: Wrapper, drafter: Any, features: Any, counts: Any, cache: Any, *more: Any
    ) -> Any:
        if past.get("cache") is not cache:
            past.update(cache=cache, rows=[features[row, :0] for row in range(len(counts))])
        if not (at.on and at.step):
            past["rows"] = [
                torch.cat((old, features[row, :count]))
                for row, (old, count) in enumerate(zip(past["rows"], counts, strict=True))
            ]
        return original(drafter, features, counts, cache, *more)

    def step(original: Wrapper, loop: Any, active: Any, recorder: Any) -> Any:
        # The loop's own step begins with what is fresh: here that is everything again.
        if loop.results[active[0]].steps >= max(at.start, 1) and past.get("rows"):
            past["rows"] = [
                torch.cat((old, loop.features[row, :count]))
                for row, (old, count) in enumerate(zip(past["rows"], loop.fresh, strict=True))
            ]
            loop.fresh = [len(rows) for rows in past["rows"]]
            most = max(loop.fresh)
            loop.features = torch.stack(
                [torch.cat((rows, rows.new_zeros(most - len(rows), rows.shape[1])))
                 for rows in past["rows"]]
            )  # fmt: skip
            loop.sources = [[] for _ in loop.fresh]
            loop.draft_cache.crop([0] * len(loop.fresh))
            at.first = loop.results[active[0]].steps if at.first is None else at.first
        return original(loop, active, recorder)

    at.around(Drafter, "append", append, always=True, quiet=True)
    at.around(Loop, "step", step, always=True, quiet=True)


@fault(50, "A request begins with the draft cache of another one", "S", "start")
def left_over(at: Injection) -> None:
    def cache(original: Wrapper, drafter: Any, batch: int, max_len: int) -> Any:
        return original(drafter, batch, max_len + 3)

    def draft(original: Wrapper, loop: Any, active: Any) -> Any:
        if at.step == 0:
            at.first = 0
            loop.draft_cache.extend([3] * len(loop.results))
        return original(loop, active)

    at.around(Drafter, "cache", cache, always=True, quiet=True)
    at.around(Loop, "_draft", draft, always=True, quiet=True)


@fault(61, "All taps name one buffer, which the last tapped layer overwrites", "S")
def aliased_taps(at: Injection) -> None:
    def verify(original: Wrapper, passes: Any, given: Any, cache: Any, taps: Any) -> Any:
        out = original(passes, given, cache, taps)
        last = out.features.chunk(len(taps), -1)[-1]
        return replace(out, features=last.repeat(1, 1, len(taps)))

    at.around(Passes, "verify", verify)


@fault(63, "The drafter's context is lost, as after a retraction", "S")
def lost_context(at: Injection) -> None:
    def draft(original: Wrapper, loop: Any, active: Any) -> Any:
        if at.step == max(at.start, 1):
            at.acted()
            loop.draft_cache.crop([0] * len(loop.results))
        return original(loop, active)

    at.around(Loop, "_draft", draft, quiet=True)
