"""The target: a Qwen3-style decoder that can verify a tree of tokens in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from specdiag.ddtree.architecture import LINEAR, SLIDING, Architecture
from specdiag.ddtree.cache import Cache, Place, State
from specdiag.ddtree.layers import (
    AttentionLayer,
    Recall,
    RMSNorm,
    angles_by_type,
    initialise,
    rotaries,
    view,
    visible,
    within,
)
from specdiag.ddtree.recurrent import RecurrentLayer, chain, empty_state, parents_of

PREFILL_ROWS = 512  # rows of a prompt in one pass; bounds the memory that a long prompt takes


@dataclass
class Output:
    """What one pass of the target gives. Row i's logits choose the token after row i."""

    logits: Tensor  # [batch, row, vocab], float32
    features: Tensor | None  # [batch, row, tap * hidden], the stream after each tapped layer
    states: dict[int, State] = field(default_factory=dict)  # after each row; recurrent layers only
    parents: Tensor | None = None  # [batch, row] whose state each row started from; -1: canonical


@dataclass
class Sight:
    """What the rows of a pass see, by layer type."""

    seen: Mapping[str, Tensor]  # [batch, row, column]
    columns: int
    place: Place


class Target(nn.Module):
    """Names of its parameters are those of the checkpoint, without the prefix `model.`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        of = self.architecture = architecture
        self.embed_tokens = nn.Embedding(of.vocab_size, of.hidden_size)
        self.layers = nn.ModuleList(
            RecurrentLayer(of) if each == LINEAR else AttentionLayer(of) for each in of.layer_types
        )
        self.norm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        if not of.tie_word_embeddings:
            self.lm_head = nn.Linear(of.hidden_size, of.vocab_size, bias=False)
        self.rotary = rotaries(of.rope, of.head_dim)
        self.recurrent = [at for at, each in enumerate(of.layer_types) if each == LINEAR]

    @classmethod
    def random(cls, architecture: Architecture, std: float = 0.02) -> Target:
        """A target with random weights."""
        target = cls(architecture)
        initialise(target, std)
        return target

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """What the weights are stored as."""
        return self.embed_tokens.weight.dtype

    def cache(self, batch: int, max_len: int) -> Cache:
        """An empty cache for this target; `max_len` counts the rows of a running pass too."""
        of = self.architecture
        attention = [at for at in range(len(self.layers)) if at not in self.recurrent]
        shape = (batch, of.num_key_value_heads, max_len, of.head_dim)
        cache = Cache.empty(attention, shape, self.dtype, self.device)
        cache.states = self._empty_states(batch)
        return cache

    def forward(
        self,
        ids: Tensor,  # [batch, row]
        positions: Tensor,  # [batch, row]
        cache: Cache | None = None,
        mask: Tensor | None = None,
        taps: Sequence[int] = (),
        *,
        parents: Tensor | None = None,
        logit_rows: Tensor | None = None,
        columns: int | None = None,
    ) -> Output:
        """One pass over rows that follow the cache's committed ones, as a chain or as a tree.

        `mask` is [batch, row, row], true where the row sees the other row, or with all cache
        columns as its last axis; without it the rows are a chain. `parents` says which row's
        state a recurrent layer continues (from the mask if left out). `logit_rows` [batch, k]
        limits the logits to these rows. `columns` fixes how many cache columns are read, for
        static shapes. Without a cache there is no past, gradients flow, and the states after the
        rows of a chain are not kept.
        """
        sight = self.sight(positions, cache, mask, columns)
        if self.recurrent and parents is None and (cache is not None or mask is not None):
            parents = self._parents(ids, sight, mask)
        x: Tensor = self.embed_tokens(ids)  # [batch, row, hidden]
        angles = angles_by_type(self.rotary, positions, x.dtype)
        groups = self.architecture.groups
        views = {each: view(seen, groups, x.dtype) for each, seen in sight.seen.items()}
        old = self._empty_states(len(ids)) if cache is None else cache.states
        after: dict[int, State] = {}
        tapped: dict[int, Tensor] = {}
        for at, (layer, kind) in enumerate(
            zip(self.layers, self.architecture.layer_types, strict=True)
        ):
            if kind == LINEAR:
                x, after[at] = layer(x, old[at], parents)
            else:
                x = layer(x, angles[kind], views[kind], _recall(cache, at, sight))
            if at in taps:
                tapped[at] = x
        if logit_rows is not None:
            x = x.gather(1, logit_rows[:, :, None].expand(-1, -1, x.shape[-1]))
        features = torch.cat([tapped[tap] for tap in taps], dim=-1) if taps else None
        return Output(self.head(self.norm(x)), features, after, parents)

    def sight(
        self, positions: Tensor, cache: Cache | None, mask: Tensor | None, columns: int | None
    ) -> Sight:
        """What the rows of a pass see; `forward` uses it, and a trace can record it."""
        batch, rows = positions.shape
        if cache is None:
            lengths, columns = positions.new_zeros(batch), rows
            place = Place(torch.arange(rows, device=positions.device).expand(batch, rows), 0)
        else:
            lengths, place = cache.lengths, cache.place(rows, fixed=columns is not None)
            columns = cache.columns(rows) if columns is None else columns
        seen, places = visible(positions, lengths, columns, mask, place.start)
        window = self.architecture.sliding_window
        by_type = {
            each: within(seen, places, positions, window if each == SLIDING else None)
            for each in self.rotary
        }
        return Sight(by_type, columns, place)

    def head(self, x: Tensor) -> Tensor:
        """Logits in float32 of normed rows [..., hidden]."""
        tied = self.architecture.tie_word_embeddings
        weight = self.embed_tokens.weight if tied else self.lm_head.weight
        return functional.linear(x, weight).float()

    @torch.no_grad()
    def prefill(
        self, prompts: Sequence[Sequence[int]], cache: Cache, taps: Sequence[int] = ()
    ) -> Output:
        """Run and commit prompts, behind what the cache already holds.

        Logits are [batch, 1, vocab], of each prompt's last token. Features of shorter prompts
        are padded at their end. An empty prompt leaves its batch row alone.
        """
        most = max(len(prompt) for prompt in prompts)
        ids = torch.tensor([[*prompt, *[0] * (most - len(prompt))] for prompt in prompts])
        ids = ids.to(self.device)
        logits, features = None, []
        for start in range(0, most, PREFILL_ROWS):
            part = ids[:, start : start + PREFILL_ROWS]
            counts = [min(max(len(each) - start, 0), part.shape[1]) for each in prompts]
            last = torch.tensor([[max(count - 1, 0)] for count in counts], device=self.device)
            out = self(part, cache.slots(part.shape[1]), cache, taps=taps, logit_rows=last)
            cache.commit([range(count) for count in counts], out.states)
            ends = torch.tensor([count > 0 for count in counts], device=self.device)
            logits = (
                out.logits
                if logits is None
                else torch.where(ends[:, None, None], out.logits, logits)
            )
            features.append(out.features)
        assert logits is not None
        return Output(
            logits, torch.cat([each for each in features if each is not None], 1) if taps else None
        )

    def _parents(self, ids: Tensor, sight: Sight, mask: Tensor | None) -> Tensor:
        batch, rows = ids.shape
        if mask is None:
            return chain(batch, rows, ids.device)
        if mask.shape[-1] != rows:  # the running rows' part of a mask over all columns
            mask = mask.gather(2, sight.place.slots[:, None].expand(batch, rows, rows))
        return parents_of(mask)

    def _empty_states(self, batch: int) -> dict[int, State]:
        of = self.architecture.recurrence
        if of is None:
            return {}
        return {at: empty_state(of, batch, self.dtype, self.device) for at in self.recurrent}


def _recall(cache: Cache | None, layer: int, sight: Sight) -> Recall:
    if cache is None:
        return lambda keys, values: (keys, values)
    return partial(cache.update, layer, sight.place, sight.columns)


def spread_taps(count: int, layers: int) -> tuple[int, ...]:
    """Where a drafter that names no taps reads: evenly from the second to the third-last layer."""
    if count == 1:
        return (layers // 2,)
    return tuple(round(1 + at * (layers - 4) / (count - 1)) for at in range(count))
