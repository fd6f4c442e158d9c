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

CHUNK = 64  # rows of a chain that are trained at once


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

    def forward(self, x: Tensor, state: State, parents: Tensor | None) -> tuple[Tensor, State]:
        """The rows' output [batch, row, hidden], and the state after each of them.

        Without `parents` [batch, row] the rows are a chain, and of the states only the last is
        returned.
        """
        inputs = self.in_proj_qkv(x)  # [batch, row, channel]
        links = chain(x.shape[0], x.shape[1], x.device) if parents is None else parents
        windows = _windows(state.conv, inputs, links)  # [batch, row, kernel, channel]
        filters = self.conv1d.weight[:, 0].T  # [kernel, channel]
        mixed = functional.silu((windows * filters).sum(2))
        query, key, value = self._heads(mixed)
        decay = -self.A_log.float().exp() * functional.softplus(
            self.in_proj_a(x).float() + self.dt_bias.float()
        )
        strength = self.in_proj_b(x).sigmoid().float()  # [batch, row, value head]
        if parents is None:
            read, after = _delta_chunks(state.delta, query, key, value, decay, strength)
        else:
            read, after = _delta_rule(
                state.delta, parents, query, key, value, decay, strength
            )  # read: [batch, row, value head, value_dim]
        gate = self.in_proj_z(x).view(read.shape).float()
        gated = self.norm(read.to(x.dtype)).float() * functional.silu(gate)
        out: Tensor = self.out_proj(gated.to(x.dtype).flatten(2))
        left = windows[:, -after.shape[1] :, 1:]
        return out, State(after, left)

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
    decay: Tensor,  # [batch, row, value head], as a logarithm
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
        after[row + 1], read = _delta_row(
            state, query[:, row], key[:, row], value[:, row], decay[:, row], strength[:, row]
        )
        reads.append(read)
    return torch.stack(reads, 1), after[1:].transpose(0, 1)


def _delta_row(
    state: Tensor,  # [batch, value head, key_dim, value_dim]
    query: Tensor,  # [batch, value head, key_dim]
    key: Tensor,
    value: Tensor,  # [batch, value head, value_dim]
    decay: Tensor,  # [batch, value head], as a logarithm
    strength: Tensor,
) -> tuple[Tensor, Tensor]:
    """The state after one row, and what the row reads from it."""
    state = state * decay.exp()[:, :, None, None]
    known = (state * key[:, :, :, None]).sum(-2)  # what the state has for this key
    change = (value - known) * strength[:, :, None]
    state = state + key[:, :, :, None] * change[:, :, None, :]
    return state, (state * query[:, :, :, None]).sum(-2)


def _delta_chunks(
    state: Tensor, query: Tensor, key: Tensor, value: Tensor, decay: Tensor, strength: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for a chain, many rows at once: for training, where a loop over rows is too slow.

    Within a chunk every change of the state is a linear function of the changes before it, so all
    of them solve one triangular system (Gated DeltaNet, arXiv 2412.06464, section 3.3). The sums
    are rounded in another order than row by row. Of the states, only the last one is returned.
    """
    reads = []
    for rows in torch.split(torch.arange(query.shape[1], device=query.device), CHUNK):
        q, k, v = (each[:, rows].transpose(1, 2) for each in (query, key, value))
        beta = strength[:, rows].transpose(1, 2)[..., None]  # [batch, value head, row, 1]
        total = decay[:, rows].cumsum(1).transpose(1, 2)  # [batch, value head, row]
        span = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
        grown = total.exp()[..., None]
        before = beta * span.tril(-1) * (k @ k.transpose(-1, -2))
        wanted = beta * (v - grown * (k @ state))
        change = torch.linalg.solve_triangular(
            before, wanted, upper=False, unitriangular=True
        )  # [batch, value head, row, value_dim]
        reads.append(grown * (q @ state) + (span * (q @ k.transpose(-1, -2))) @ change)
        last = span[..., -1, :, None]
        state = grown[..., -1:, :] * state + (last * k).transpose(-1, -2) @ change
    return torch.cat(reads, 2).transpose(1, 2), state[:, None]


class RecurrentLayer(nn.Module):
    """The gated delta rule and feed-forward, each behind a norm and added to the stream."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        self.linear_attn = GatedDelta(of)
        self.post_attention_layernorm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        self.mlp = FeedForward(of)

    def forward(self, x: Tensor, state: State, parents: Tensor | None) -> tuple[Tensor, State]:
        mixed, after = self.linear_attn(self.input_layernorm(x), state, parents)
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), after
