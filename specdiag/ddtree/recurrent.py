"""Linear attention by the gated delta rule, for chains and for trees.

The state before a node is the one after its parent; the convolution of a node reads the inputs of
its ancestors. The canonical state is read and never written: what a pass leaves behind is one
state per node, and the commit promotes that of the last accepted node.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from specdiag.ddtree.architecture import Architecture, Recurrence
from specdiag.ddtree.cache import State
from specdiag.ddtree.layers import FeedForward, RMSNorm


def parents_of(mask: Tensor) -> Tensor:
    """The nearest visible row before each row, -1 if there is none. [batch, row]

    `mask` is [batch, row, row]; parents come before their children, so the parent is the last
    visible row.
    """
    rows = mask.shape[-1]
    row = torch.arange(rows, device=mask.device)
    before = mask & (row[None, :] < row[:, None])
    return torch.where(before, row, -1).amax(-1)


def chain(batch: int, rows: int, device: torch.device) -> Tensor:
    """Each row's parent is the row before it. [batch, row]"""
    return torch.arange(-1, rows - 1, device=device).expand(batch, rows)


def empty_state(of: Recurrence, batch: int, dtype: torch.dtype, device: torch.device) -> State:
    """The state before the first token."""
    delta = (batch, of.value_heads, of.key_dim, of.value_dim)
    return State(
        torch.zeros(delta, dtype=torch.float32, device=device),
        torch.zeros(batch, of.kernel - 1, channels(of), dtype=dtype, device=device),
    )


def channels(of: Recurrence) -> int:
    """The width of what the convolution sees: queries, keys and values."""
    return 2 * of.key_heads * of.key_dim + of.value_heads * of.value_dim


class GatedDelta(nn.Module):
    """A short causal convolution, then the gated delta rule."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        assert of.recurrence is not None
        self.sizes = of.recurrence
        width = self.sizes.value_heads * self.sizes.value_dim
        self.in_proj_qkv = nn.Linear(of.hidden_size, channels(self.sizes), bias=False)
        self.in_proj_z = nn.Linear(of.hidden_size, width, bias=False)
        self.in_proj_b = nn.Linear(of.hidden_size, self.sizes.value_heads, bias=False)
        self.in_proj_a = nn.Linear(of.hidden_size, self.sizes.value_heads, bias=False)
        # One filter per channel; the middle axis is only there for the checkpoint's shape.
        self.conv1d = nn.Conv1d(
            channels(self.sizes),
            channels(self.sizes),
            self.sizes.kernel,
            groups=channels(self.sizes),
            bias=False,
        )
        self.A_log = nn.Parameter(torch.zeros(self.sizes.value_heads))
        self.dt_bias = nn.Parameter(torch.ones(self.sizes.value_heads))
        self.norm = RMSNorm(self.sizes.value_dim, of.rms_norm_eps)
        self.out_proj = nn.Linear(width, of.hidden_size, bias=False)

    def forward(self, x: Tensor, state: State, parents: Tensor) -> tuple[Tensor, State]:
        """The rows' output [batch, row, hidden], and the state after each of them."""
        inputs = self.in_proj_qkv(x)  # [batch, row, channel]
        windows = _windows(state.conv, inputs, parents)  # [batch, row, kernel, channel]
        filters = self.conv1d.weight[:, 0].T  # [kernel, channel]
        mixed = functional.silu((windows * filters).sum(2))
        query, key, value = self._heads(mixed)
        decay = -self.A_log.float().exp() * functional.softplus(
            self.in_proj_a(x).float() + self.dt_bias.float()
        )
        strength = self.in_proj_b(x).sigmoid().float()  # [batch, row, value head]
        read, after = _delta_rule(
            state.delta, parents, query, key, value, decay.exp(), strength
        )  # read: [batch, row, value head, value_dim]
        gate = self.in_proj_z(x).view(read.shape).float()
        gated = self.norm(read.to(x.dtype)).float() * functional.silu(gate)
        out: Tensor = self.out_proj(gated.to(x.dtype).flatten(2))
        return out, State(after, windows[:, :, 1:])

    def _heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Unit queries and keys, and values, per value head in float32."""
        of = self.sizes
        width = of.key_heads * of.key_dim
        shape = (*mixed.shape[:2], -1, of.key_dim)
        query = _unit(mixed[..., :width].float().view(shape)) * of.key_dim**-0.5
        key = _unit(mixed[..., width : 2 * width].float().view(shape))
        value = mixed[..., 2 * width :].float().view(*mixed.shape[:2], -1, of.value_dim)
        each = of.value_heads // of.key_heads  # consecutive value heads share a key head
        return query.repeat_interleave(each, 2), key.repeat_interleave(each, 2), value


def _unit(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def _windows(past: Tensor, inputs: Tensor, parents: Tensor) -> Tensor:
    """The convolution's inputs of each row: its ancestors', oldest first, and its own.

    Rows and the past are one list: the past's `kernel - 1` inputs, then those of the rows.
    """
    batch, old, _ = past.shape
    both = torch.cat((past, inputs), dim=1)
    first = torch.arange(-1, old - 1, device=past.device).clamp(min=0).expand(batch, old)
    before = torch.cat((first, parents + old), dim=1)  # the entry before each entry
    at = torch.arange(old, both.shape[1], device=past.device).expand(batch, -1)
    steps = [at]
    for _ in range(old):
        steps.append(before.gather(1, steps[-1]))
    order = torch.stack(steps[::-1], dim=2)  # [batch, row, kernel]
    return both[torch.arange(batch, device=past.device)[:, None, None], order]


def _delta_rule(
    canonical: Tensor,
    parents: Tensor,  # [batch, row]
    query: Tensor,  # [batch, row, value head, key_dim]
    key: Tensor,
    value: Tensor,  # [batch, row, value head, value_dim]
    decay: Tensor,  # [batch, row, value head]
    strength: Tensor,
) -> tuple[Tensor, Tensor]:
    """What each row reads from its state, and the state [key_dim, value_dim] after each row.

    Row by row, so that a row's arithmetic is the same in a tree, in a chain and alone.
    """
    batch = torch.arange(parents.shape[0], device=parents.device)
    after = canonical.new_empty(parents.shape[1] + 1, *canonical.shape)
    after[0] = canonical
    reads = []
    for row in range(parents.shape[1]):
        state = after[parents[:, row] + 1, batch]
        state = state * decay[:, row, :, None, None]
        known = (state * key[:, row, :, :, None]).sum(-2)  # what the state has for this key
        change = (value[:, row] - known) * strength[:, row, :, None]
        state = state + key[:, row, :, :, None] * change[:, :, None, :]
        reads.append((state * query[:, row, :, :, None]).sum(-2))
        after[row + 1] = state
    return torch.stack(reads, 1), after[1:].transpose(0, 1)


class RecurrentLayer(nn.Module):
    """The gated delta rule and feed-forward, each behind a norm and added to the stream."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        self.linear_attn = GatedDelta(of)
        self.post_attention_layernorm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        self.mlp = FeedForward(of)

    def forward(self, x: Tensor, state: State, parents: Tensor) -> tuple[Tensor, State]:
        mixed, after = self.linear_attn(self.input_layernorm(x), state, parents)
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), after
