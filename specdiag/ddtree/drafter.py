"""The DFlash drafter: predicts a whole block of tokens in one pass from the target's features.

It reads the committed text only through features of the target, whose keys and values are put
into the cache of every draft layer once. Slot 0 of a block holds the root token, the others the
mask id; slot i gives the token at the root's position + i.

A drafter may know a part of the vocabulary only. Its head then has a row for each draft id, and
`d2t` [draft vocab] holds offsets, as EAGLE and speculators write them: the token is the draft id
plus d2t[draft id]. Logits are those of the whole vocabulary all the same, -inf for other tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from specdiag.ddtree.architecture import DraftArchitecture
from specdiag.ddtree.cache import Cache
from specdiag.ddtree.layers import (
    Attention,
    AttentionLayer,
    RMSNorm,
    View,
    angles_by_type,
    initialise,
    rotaries,
    view,
    visible,
    within,
)
from specdiag.ddtree.model import Target, spread_taps


class Drafter(nn.Module):
    """Names of its parameters are those of the checkpoint."""

    def __init__(
        self,
        architecture: DraftArchitecture,
        taps: Sequence[int],
        *,
        own_embedding: bool = False,
        own_head: bool = False,
    ) -> None:
        super().__init__()
        of = self.architecture = architecture
        self.taps = tuple(taps)  # layers of the target whose output it reads
        self.fc = nn.Linear(len(self.taps) * of.hidden_size, of.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        self.layers = nn.ModuleList(AttentionLayer(of) for _ in of.layer_types)
        self.norm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        self.embed_tokens = nn.Embedding(of.vocab_size, of.hidden_size) if own_embedding else None
        drafted = of.draft_vocab_size
        own_head = own_head or drafted is not None
        width = of.vocab_size if drafted is None else drafted
        self.lm_head = nn.Linear(of.hidden_size, width, bias=False) if own_head else None
        self.d2t: Tensor | None
        zeros = None if drafted is None else torch.zeros(drafted, dtype=torch.int64)
        self.register_buffer("d2t", zeros)
        self.rotary = rotaries(of.rope, of.head_dim)
        # One window and one direction per layer: lists, so that a fault test can change one.
        layers = range(len(of.layer_types))
        self.windows = [of.window(layer) for layer in layers]
        self.causal = [of.causal(layer) for layer in layers]

    @classmethod
    def random(cls, architecture: DraftArchitecture, taps: int = 5, std: float = 0.02) -> Drafter:
        """A drafter with random weights; `taps` counts only if the architecture names none."""
        named = architecture.target_layer_ids
        layers = architecture.num_target_layers or len(architecture.layer_types)
        drafter = cls(architecture, named or spread_taps(taps, layers))
        initialise(drafter, std)
        return drafter

    @property
    def depths(self) -> int:
        """How many tokens it predicts at once: the block without its root."""
        return self.architecture.block_size - 1

    def cache(self, batch: int, max_len: int) -> Cache:
        """An empty cache; `max_len` counts the block too."""
        of = self.architecture
        shape = (batch, of.num_key_value_heads, max_len, of.head_dim)
        weight = self.fc.weight
        return Cache.empty(range(len(self.layers)), shape, weight.dtype, weight.device)

    def context(self, features: Tensor) -> Tensor:
        """The context rows H [batch, row, hidden] of features [batch, row, tap * hidden]."""
        rows: Tensor = self.hidden_norm(self.fc(features))
        return rows

    @torch.no_grad()
    def append(
        self,
        features: Tensor,  # [batch, row, tap * hidden] of the rows committed since the last call
        counts: Sequence[int],  # how many of these rows are real
        cache: Cache,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Put the keys and values of newly committed rows into the cache; where they stand.

        Returns the position of the first of them in each batch row.
        """
        rows = features.shape[1]
        cache.columns(rows)
        place = cache.place(rows)
        hidden = self.context(features)
        positions = place.slots if positions is None else positions
        angles = self._angles(positions, hidden.dtype)
        for at, attention in enumerate(self._attentions()):
            cache.write(at, place, *attention.keys_values(hidden, angles[at]))
        cache.extend(counts)
        return positions[:, 0]

    def block(self, root: Tensor) -> Tensor:
        """The input of a pass, [batch, block]: the root token, then mask ids. `root` is [batch]."""
        masks = root.new_full((len(root), self.depths), self.architecture.mask_token_id)
        return torch.cat((root[:, None], masks), dim=1)

    def forward(
        self,
        ids: Tensor,  # [batch, slot]
        cache: Cache,
        target: Target,
        positions: Tensor | None = None,  # [batch, slot], behind the context if left out
        columns: int | None = None,
    ) -> Tensor:
        """Logits [batch, depth, vocab] in float32 from slots 1 on. The cache keeps no block row."""
        place = cache.place(ids.shape[1], fixed=columns is not None)
        positions = place.slots if positions is None else positions
        columns = cache.columns(ids.shape[1]) if columns is None else columns
        seen = self.sight(positions, cache.lengths, columns, place.start)
        x = self.embed(ids, target)
        angles, views = self._angles(positions, x.dtype), self._views(seen, x.dtype)
        for at, layer in enumerate(self.layers):
            x = layer(x, angles[at], views[at], partial(cache.update, at, place, columns))
        return self.head(self.norm(x[:, 1:]), target)

    def sight(
        self, positions: Tensor, lengths: Tensor, columns: int, start: int | None = None
    ) -> list[Tensor]:
        """What the slots of a block see in each layer, [batch, slot, column]: context and block.

        Layers of one window and direction have the same tensor. `start`: see `visible`.
        """
        batch, rows = positions.shape
        everything = torch.ones(batch, rows, rows, dtype=torch.bool, device=positions.device)
        seen, places = visible(positions, lengths, columns, everything, start)
        return self._limited(seen, places, positions)

    def parallel(
        self,
        features: Tensor,  # [batch, token, tap * hidden] of a whole text
        starts: Tensor,  # [batch, block] position of each block's root
        ids: Tensor,  # [batch, block, slot]
        target: Target,
    ) -> Tensor:
        """Logits [batch, block, depth, vocab] of many blocks at once, without a cache.

        Each block sees the text before its root and itself. For training: gradients flow.
        """
        batch, blocks, width = ids.shape
        tokens = features.shape[1]
        device = features.device
        text = torch.arange(tokens, device=device).expand(batch, tokens)
        positions = (starts[:, :, None] + torch.arange(width, device=device)).flatten(1)
        block = torch.arange(blocks, device=device).repeat_interleave(width)
        same = (block[:, None] == block).expand(batch, -1, -1)
        before = text[:, None, :] < starts.repeat_interleave(width, 1)[:, :, None]
        seen = torch.cat((before, same), dim=-1)  # [batch, block * slot, token + block * slot]
        places = torch.cat((text, positions), dim=1)

        hidden = self.context(features)
        x = self.embed(ids.flatten(1), target)
        angles, text_angles = self._angles(positions, x.dtype), self._angles(text, x.dtype)
        pasts = [
            attention.keys_values(hidden, text_angles[at])
            for at, attention in enumerate(self._attentions())
        ]
        views = self._views(self._limited(seen, places, positions), x.dtype)
        for at, layer in enumerate(self.layers):
            x = layer(x, angles[at], views[at], partial(_behind, pasts[at]))
        x = x.view(batch, blocks, width, -1)[:, :, 1:]
        return self.head(self.norm(x), target)

    def embed(self, ids: Tensor, target: Target) -> Tensor:
        """Embeddings from the drafter's own table, or else the target's."""
        table = target.embed_tokens if self.embed_tokens is None else self.embed_tokens
        rows: Tensor = table(ids)
        return rows

    def head(self, x: Tensor, target: Target) -> Tensor:
        """Logits in float32 from the drafter's own head, or else the target's."""
        own: nn.Linear | nn.Embedding | None = self.lm_head
        if own is None and self.architecture.tie_word_embeddings:
            own = self.embed_tokens
        if own is None:
            return target.head(x)
        logits = functional.linear(x, own.weight).float()
        if self.d2t is None:
            return logits
        everything = logits.new_full((*logits.shape[:-1], self.architecture.vocab_size), -torch.inf)
        return everything.index_copy(-1, self.known_tokens(self.d2t), logits)

    @staticmethod
    def known_tokens(d2t: Tensor) -> Tensor:
        """The token of each draft id. [draft vocab]"""
        return d2t + torch.arange(len(d2t), device=d2t.device)

    def _limited(self, seen: Tensor, places: Tensor, positions: Tensor) -> list[Tensor]:
        """What each layer leaves of `seen` [batch, slot, column]; `places` are the columns'."""
        found: dict[tuple[int | None, bool], Tensor] = {}
        kinds = list(zip(self.windows, self.causal, strict=True))
        for window, causal in kinds:
            if (window, causal) not in found:
                near = within(seen, places, positions, window)
                back = places[:, None, :] <= positions[:, :, None] if causal else None
                found[window, causal] = near if back is None else near & back
        return [found[kind] for kind in kinds]

    def _views(self, seen: Sequence[Tensor], dtype: torch.dtype) -> list[View]:
        """What each layer sees, as attention takes it."""
        groups = self.architecture.groups
        kinds = list(zip(self.windows, self.causal, strict=True))
        found: dict[tuple[int | None, bool], View] = {}
        for kind, own in zip(kinds, seen, strict=True):
            if kind not in found:
                found[kind] = view(own, groups, dtype)
        return [found[kind] for kind in kinds]

    def _attentions(self) -> list[Attention]:
        return [each.self_attn for each in self.layers if isinstance(each, AttentionLayer)]

    def _angles(self, positions: Tensor, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
        by_type = angles_by_type(self.rotary, positions, dtype)
        return [by_type[each] for each in self.architecture.layer_types]


def _behind(past: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cat((past[0], keys), dim=2), torch.cat((past[1], values), dim=2)
