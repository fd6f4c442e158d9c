"""What the passes of a step consume, seen at the inputs of their layers.

It is what reached the layers, whatever the loop intended: a fault in between is in the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from specdiag.ddtree.architecture import FULL, LINEAR
from specdiag.ddtree.cache import Place
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.model import Target


@dataclass
class Consumed:
    """What the last pass of target and drafter consumed."""

    ids: Tensor | None = None
    positions: Tensor | None = None
    features: Tensor | None = None
    place: Place | None = None  # of the target's rows; nowhere without attention layers
    # What rows see [batch, row, column], by layer type of the target and window of the drafter.
    seen: dict[str, Tensor] = field(default_factory=dict)
    draft_seen: dict[int | None, Tensor] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)  # of each layer of the target
    # Cosine and sine of each layer of the drafter, [batch, 1, slot, head_dim].
    draft_angles: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def mask(self) -> Tensor | None:
        """What rows see in full layers, or in sliding ones if the target has no others."""
        return self.seen.get(FULL, next(iter(self.seen.values()), None))

    @property
    def slots(self) -> list[list[int]]:
        """Where each row of each batch row was written."""
        if self.place is None:
            return []
        if self.place.start is None:
            found: list[list[int]] = self.place.slots.tolist()
            return found
        batch, rows = self.place.slots.shape
        return [list(range(self.place.start, self.place.start + rows))] * batch

    def lowest(self, windows: Sequence[int | None], starts: Sequence[int]) -> list[list[int]]:
        """Column `window_low` of every batch row; the context ends at `starts`."""
        draft = {window: _lowest(seen, starts) for window, seen in self.draft_seen.items()}
        unread = [-1] * len(starts)
        lows = [draft.get(window, unread) for window in windows]
        lows += [_lowest(self.seen[kind], starts) for kind in sorted(self.seen)]
        return [[low[row] for low in lows] for row in range(len(starts))]

    def tapped(self, features: Tensor | None, row: int) -> list[int] | None:
        """The layers whose output the features of the last pass are; -1: of none."""
        if features is None or not self.outputs:
            return None
        size = next(iter(self.outputs.values())).shape[-1]
        found = []
        for part in torch.split(features[row], size, dim=-1):
            same = (at for at, out in self.outputs.items() if torch.equal(out[row], part))
            found.append(next(same, -1))
        return found

    def turns(self, row: int) -> list[float] | None:
        """By which angle each draft layer turned the slowest pair of the root's query."""
        found = []
        for cosine, sine in self.draft_angles.values():
            at = min(row, cosine.shape[0] - 1), 0, 0, cosine.shape[-1] // 2 - 1
            found.append(math.atan2(float(sine[at]), float(cosine[at])))
        return found or None


class Watch:
    """Notes what passes consume, at the inputs of their layers.

    Layers that have the type or the window in common get the same, and the first of them is asked.
    """

    def __init__(self, target: Target, drafter: Drafter | None, wanted: Set[str]) -> None:
        self.read = Consumed()
        self.windows = drafter.windows if drafter else []
        self.hooks = []
        if "inputs" in wanted:
            self.hooks.append(target.register_forward_pre_hook(self._target))
            for at, layer in enumerate(target.layers):
                self.hooks.append(layer.register_forward_hook(self._output(at)))
            for at, layer in enumerate(drafter.layers if drafter else ()):
                self.hooks.append(layer.register_forward_pre_hook(self._turned(at)))
        if "checksums" in wanted and drafter is not None:
            self.hooks.append(drafter.fc.register_forward_pre_hook(self._features))
        types = target.architecture.layer_types
        for kind in {*types} - {LINEAR}:
            layer = target.layers[types.index(kind)]
            self.hooks.append(layer.register_forward_pre_hook(self._layer(kind)))
        if drafter is not None:
            for window in {*self.windows}:
                layer = drafter.layers[self.windows.index(window)]
                self.hooks.append(layer.register_forward_pre_hook(self._draft_layer(window)))

    def close(self) -> None:
        """Leave the models as they were."""
        for hook in self.hooks:
            hook.remove()

    def take(self) -> Consumed:
        """What was consumed since the last call."""
        taken, self.read = self.read, Consumed()
        return taken

    def _target(self, module: Any, args: tuple[Any, ...]) -> None:
        self.read.ids, self.read.positions = args[:2]

    def _output(self, at: int) -> Callable[..., None]:
        def keep(module: Any, args: tuple[Any, ...], out: Any) -> None:
            self.read.outputs[at] = out[0] if isinstance(out, tuple) else out

        return keep

    def _turned(self, at: int) -> Callable[[Any, tuple[Any, ...]], None]:
        def keep(module: Any, args: tuple[Any, ...]) -> None:
            self.read.draft_angles[at] = args[1]

        return keep

    def _features(self, module: Any, args: tuple[Any, ...]) -> None:
        (self.read.features,) = args

    def _layer(self, kind: str) -> Callable[[Any, tuple[Any, ...]], None]:
        def keep(module: Any, args: tuple[Any, ...]) -> None:
            _, _, view, recall = args
            self.read.seen[kind] = view.seen
            self.read.place = recall.args[1]  # a partial of Cache.update

        return keep

    def _draft_layer(self, window: int | None) -> Callable[[Any, tuple[Any, ...]], None]:
        def keep(module: Any, args: tuple[Any, ...]) -> None:
            self.read.draft_seen[window] = args[2].seen

        return keep


def _lowest(seen: Tensor, starts: Sequence[int]) -> list[int]:
    """The lowest column that any row of a batch row reads, -1 if none is before its start."""
    on_host = seen.device.type == "cpu"  # a whole mask is too large to fetch
    read = seen.numpy().any(1) if on_host else seen.view(torch.uint8).amax(1).cpu().numpy()
    lows = read.argmax(-1).tolist()
    return [low if low < start else -1 for low, start in zip(lows, starts, strict=True)]
