"""What the passes of a step consume, seen at the inputs of their layers.

It is what reached the layers, whatever the loop intended: a fault in between is in the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from specdiag.ddtree.architecture import FULL, LINEAR
from specdiag.ddtree.cache import Place
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.layers import View
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
    first: dict[str, Tensor] = field(default_factory=dict)  # column that each row sees of these
    draft_first: dict[int | None, Tensor] = field(default_factory=dict)  # [batch, row]
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

    def look(self) -> None:
        """Look at the masks, of which `lowest` needs no more then."""
        self.first = {kind: _first(seen) for kind, seen in self.seen.items()}
        self.draft_first = {window: _first(seen) for window, seen in self.draft_seen.items()}

    def lowest(self, windows: Sequence[int | None], starts: Sequence[int]) -> list[list[int]]:
        """Column `window_low` of every batch row; the context ends at `starts`."""
        draft = {window: _lowest(first, starts) for window, first in self.draft_first.items()}
        unread = [-1] * len(starts)
        lows = [draft.get(window, unread) for window in windows]
        lows += [_lowest(self.first[kind], starts) for kind in sorted(self.first)]
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
        self.changed: list[nn.Module] = []
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
            self._around(layer, self._layer(kind))
        if drafter is not None:
            for window in {*self.windows}:
                layer = drafter.layers[self.windows.index(window)]
                self._around(layer, self._draft_layer(window))

    def close(self) -> None:
        """Leave the models as they were."""
        for hook in self.hooks:
            hook.remove()
        for layer in self.changed:
            del layer.forward

    def take(self) -> Consumed:
        """What was consumed since the last call."""
        taken, self.read = self.read, Consumed()
        return taken

    def _around(self, layer: nn.Module, note: Callable[..., None]) -> None:
        """Hear what a layer is called with, in a tenth of the time that a hook takes."""
        forward = layer.forward

        def heard(*args: Any) -> Any:
            note(*args)
            return forward(*args)

        layer.forward = heard
        self.changed.append(layer)

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

    def _layer(self, kind: str) -> Callable[..., None]:
        def keep(x: Tensor, angles: Any, view: View, recall: Any) -> None:
            self.read.seen[kind] = view.seen
            self.read.place = recall.args[1]  # a partial of Cache.update

        return keep

    def _draft_layer(self, window: int | None) -> Callable[..., None]:
        def keep(x: Tensor, angles: Any, view: View, recall: Any) -> None:
            self.read.draft_seen[window] = view.seen

        return keep


def _first(seen: Tensor) -> Tensor:
    """The first column that each row of `seen` [batch, row, column] sees; every row sees one."""
    if seen.device.type == "cpu":  # there torch reads on behind the first
        return torch.from_numpy(seen.numpy().argmax(-1))
    return seen.view(torch.uint8).argmax(-1)


def _lowest(first: Tensor, starts: Sequence[int]) -> list[int]:
    """The lowest of `first` [batch, row], -1 if it is not before its batch row's start."""
    lows = [min(rows) for rows in first.tolist()]
    return [low if low < start else -1 for low, start in zip(lows, starts, strict=True)]
