"""The static KV cache and the recurrent states of a batch: written in place, never reallocated.

A pass writes its rows behind each batch row's committed ones and changes no length: what was not
accepted is simply overwritten by the next pass. Only `commit` and its parts move lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from specdiag.errors import SpecdiagError

if TYPE_CHECKING:
    from specdiag.ddtree.prefix import Checkpoints


@dataclass
class State:
    """What a recurrent layer remembers: one of it per batch row, or one per node in a pass."""

    delta: Tensor  # [batch, (node,) value head, key_dim, value_dim], float32
    conv: Tensor  # [batch, (node,) kernel - 1, channel], the last inputs of the convolution


class Place(NamedTuple):
    """Where a pass writes its rows."""

    slots: Tensor  # [batch, row]
    start: int | None  # the first of them, where it is the same for the whole batch


@dataclass
class Cache:
    """Committed keys and values, and the canonical recurrent states."""

    rows: Tensor  # [key or value, attention layer, batch, kv head, slot, head_dim]
    index: Mapping[int, int]  # model layer -> attention layer
    lengths: Tensor  # [batch] committed rows, on the device
    known_lengths: Tensor  # [batch] the same on the host, so that no step has to ask the device
    states: dict[int, State] = field(default_factory=dict)  # by model layer
    promoted: Sequence[int] = ()  # the node of each batch row whose state was kept last
    checkpoints: Checkpoints | None = None  # of these states, for a prefix cache

    @classmethod
    def empty(
        cls,
        layers: Sequence[int],
        shape: tuple[int, int, int, int],  # batch, kv head, slot, head_dim
        dtype: torch.dtype,
        device: torch.device,
    ) -> Cache:
        """A cache for attention layers of these numbers; a model adds its recurrent states."""
        batch, heads, slots, head_dim = shape
        rows = torch.zeros(
            2, len(layers), batch, heads, slots, head_dim, dtype=dtype, device=device
        )
        known = torch.zeros(batch, dtype=torch.long)
        lengths = known if device.type == "cpu" else known.to(device)
        return cls(rows, {layer: at for at, layer in enumerate(layers)}, lengths, known)

    @property
    def batch(self) -> int:
        """How many requests it holds."""
        return self.rows.shape[2]

    @property
    def max_len(self) -> int:
        """How many rows fit for each request, those of the running pass included."""
        return self.rows.shape[4]

    def select(self, start: int, stop: int) -> Cache:
        """The batch rows start..stop-1 as a cache of their own that shares this one's memory."""
        part = slice(start, stop)
        shared = self.lengths is self.known_lengths
        known = self.known_lengths[part]
        return Cache(
            self.rows[:, :, part],
            self.index,
            known if shared else self.lengths[part],
            known,
            {at: State(state.delta[part], state.conv[part]) for at, state in self.states.items()},
        )

    def columns(self, rows: int) -> int:
        """How many columns a pass of `rows` rows has to read; an error if they do not fit."""
        needed = int(self.known_lengths.max()) + rows
        if needed > self.max_len:
            raise SpecdiagError(
                f"{needed} tokens do not fit a cache of {self.max_len}",
                help="allow a longer context, or ask for fewer tokens",
            )
        return needed

    def slots(self, rows: int) -> Tensor:
        """The slots that a pass of `rows` rows writes. [batch, row]"""
        return self.lengths[:, None] + torch.arange(rows, device=self.lengths.device)

    def place(self, rows: int, fixed: bool = False) -> Place:
        """Where a pass of `rows` rows writes; `fixed` asks the host for nothing."""
        known = [] if fixed else self.known_lengths.tolist()
        if not known or known.count(known[0]) < len(known):
            return Place(self.slots(rows), None)
        slots = torch.arange(known[0], known[0] + rows, device=self.lengths.device)
        return Place(slots.expand(len(known), rows), known[0])

    def write(self, layer: int, place: Place, keys: Tensor, values: Tensor) -> None:
        """Put rows [batch, kv head, row, head_dim] into their slots."""
        # Detached: a cache must not keep the graph of the pass that filled it.
        keys, values = keys.detach(), values.detach()
        rows = self.rows[:, self.index[layer]]
        if place.start is not None:  # a plain copy, in a fraction of the time
            part = rows[:, :, :, place.start : place.start + keys.shape[2]]
            part[0].copy_(keys)
            part[1].copy_(values)
            return
        batch = torch.arange(self.batch, device=place.slots.device)[:, None]
        for part, new in zip(rows, (keys, values), strict=True):
            part[batch, :, place.slots] = new.transpose(1, 2)

    def read(self, layer: int, columns: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first columns, without a copy. [batch, kv head, column, dim]"""
        keys, values = self.rows[:, self.index[layer], :, :, :columns].unbind(0)
        return keys, values

    def update(
        self, layer: int, place: Place, columns: int, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Write the running rows, then read all columns."""
        self.write(layer, place, keys, values)
        return self.read(layer, columns)

    def commit(
        self, accepted: Sequence[Sequence[int]], states: Mapping[int, State] | None = None
    ) -> None:
        """Keep the accepted rows of the last pass, root first, and forget its other rows.

        An empty list leaves its batch row as it was. `states` are those of the nodes, as the pass
        returned them; the state of the last accepted row becomes the canonical one.
        """
        counts = [len(rows) for rows in accepted]
        if any(low >= high for rows in accepted for low, high in pairwise(rows)):
            raise ValueError("accepted rows must ascend, as parents come before their children")
        if any(list(rows) != list(range(len(rows))) for rows in accepted):
            # Shorter paths are filled up by rows that stay where they are.
            paths = [[*rows, *range(len(rows), max(counts))] for rows in accepted]
            source = torch.tensor(paths, device=self.lengths.device)
            self.move(self.lengths[:, None] + source, self.slots(max(counts)))
        if self.checkpoints is not None:
            self.checkpoints.commit(states or {}, self.known_lengths.tolist(), accepted)
        if self.states:
            self.promote(states or {}, [rows[-1] if rows else -1 for rows in accepted])
        self.extend(counts)

    def move(self, source: Tensor, target: Tensor, layers: Sequence[int] | None = None) -> None:
        """Copy slots `source` to slots `target` [batch, row]; all are read before any is written.

        Of `layers` only, if given; a cache whose layers disagree is broken (for fault tests).
        """
        batch = torch.arange(self.batch, device=source.device)[:, None]
        parts = [self.rows]
        if layers is not None:
            parts = [self.rows[:, at : at + 1] for at in map(self.index.__getitem__, layers)]
        for rows in parts:
            rows[:, :, batch, :, target] = rows[:, :, batch, :, source]

    def promote(self, states: Mapping[int, State], rows: Sequence[int]) -> None:
        """Make the state after each batch row's given node the canonical one; -1 keeps the old."""
        self.promoted = rows
        index = torch.tensor(rows, device=self.lengths.device)
        batch = torch.arange(self.batch, device=index.device)
        for layer, canonical in self.states.items():
            nodes = states[layer]
            for old, new in ((canonical.delta, nodes.delta), (canonical.conv, nodes.conv)):
                keep = (index < 0).view(-1, *[1] * (old.dim() - 1))
                old.copy_(torch.where(keep, old, new[batch, index.clamp(min=0)].detach()))

    def extend(self, counts: Sequence[int]) -> None:
        """Count the next rows of each batch row as committed."""
        self._set([old + new for old, new in zip(self.known_lengths.tolist(), counts, strict=True)])

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget all rows of each batch row from its given length on."""
        known = self.known_lengths.tolist()
        if any(new > old for new, old in zip(lengths, known, strict=True)):
            raise ValueError("a cache cannot be cropped to more rows than it has")
        if self.states and list(lengths) != known:
            raise ValueError("a recurrent state cannot go back to fewer tokens")
        self._set(lengths)

    def reset(self, row: int) -> None:
        """Make one batch row free for another request."""
        for state in self.states.values():
            state.delta[row].zero_()
            state.conv[row].zero_()
        known = self.known_lengths.tolist()
        self._set([0 if at == row else length for at, length in enumerate(known)])

    def _set(self, lengths: Sequence[int]) -> None:
        self.known_lengths.copy_(torch.tensor(lengths))
        if self.lengths is not self.known_lengths:
            self.lengths.copy_(self.known_lengths)
