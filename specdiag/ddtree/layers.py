"""The parts of a decoder layer, and which rows see which columns.

A column is a slot of the KV cache. A batch row's slot t holds position t for all committed
tokens; the rows of the running pass follow them, in row order whatever their positions are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from specdiag.ddtree.architecture import Architecture, Rope

# Takes the keys and values of the running rows, gives those of all columns.
Recall = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class View(NamedTuple):
    """What the rows of a pass see in a layer: to be read, and as attention takes it."""

    seen: Tensor  # [batch, row, column]
    bias: Tensor  # [batch, 1, group * row, column], 0 where a row sees and -inf elsewhere


def view(seen: Tensor, groups: int, dtype: torch.dtype) -> View:
    """A view for layers whose query heads are `groups` to a kv head.

    Attention would make the same of `seen` itself, but in every layer again.
    """
    batch, rows, columns = seen.shape
    bias = torch.where(seen, 0.0, -torch.inf).to(dtype)[:, None]
    return View(seen, bias.expand(-1, groups, -1, -1).reshape(batch, 1, groups * rows, columns))


def visible(
    positions: Tensor, lengths: Tensor, columns: int, mask: Tensor | None, start: int | None = None
) -> tuple[Tensor, Tensor]:
    """Which columns each row sees [batch, row, column], and their positions [batch, column].

    `mask` is [batch, row, row] (the running rows; all past columns are seen), or it is
    [batch, row, column] and says everything. Without it the rows are a chain. `start` is the
    length, if it is the same for the whole batch and the columns end with the running rows.
    """
    batch, rows = positions.shape
    if start is not None and (mask is None or mask.shape[-1] == rows):
        if mask is None:
            mask = torch.ones(rows, rows, dtype=torch.bool, device=positions.device).tril()
            mask = mask.expand(batch, rows, rows)
        past = torch.arange(start, device=positions.device).expand(batch, start)
        return functional.pad(mask, (start, 0), value=True), torch.cat((past, positions), dim=1)
    slots = torch.arange(columns, device=positions.device).expand(batch, columns)
    row = slots - lengths[:, None]  # [batch, column], negative in the past
    running = (row >= 0) & (row < rows)
    nearest = row.clamp(0, rows - 1)
    places = torch.where(running, positions.gather(1, nearest), slots)
    if mask is None:
        mask = torch.ones(rows, rows, dtype=torch.bool, device=positions.device).tril()
        mask = mask.expand(batch, rows, rows)
    if mask.shape[-1] == rows:
        among = mask.gather(2, nearest[:, None].expand(batch, rows, columns))
        return (row < 0)[:, None] | (among & running[:, None]), places
    return mask, places


def within(seen: Tensor, places: Tensor, positions: Tensor, window: int | None) -> Tensor:
    """`seen` without the columns that are `window` or more positions away from the row's own.

    The distance counts in both directions: a chain or tree has nothing ahead, a block has.
    """
    if window is None:
        return seen
    distance = (positions[:, :, None] - places[:, None, :]).abs()  # [batch, row, column]
    return seen & (distance < window)


class RMSNorm(nn.Module):
    """Scales each vector to a root mean square of one, then by a weight."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Rotary:
    """Angles of rotary position embedding.

    No module and no buffer: a cast of the model to bfloat16 must not touch the frequencies.
    """

    def __init__(self, rope: Rope, head_dim: int) -> None:
        self.frequencies = _frequencies(rope, head_dim)  # [head_dim / 2], float32
        self.scale = 1.0
        if rope.kind == "yarn":
            stretched = 0.1 * math.log(rope.factor) + 1.0 if rope.factor > 1 else 1.0
            self.scale = stretched if rope.attention_factor is None else rope.attention_factor

    def angles(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosine and sine, [batch, 1, row, head_dim]."""
        if self.frequencies.device != positions.device:
            self.frequencies = self.frequencies.to(positions.device)
        turns = positions[:, None, :, None].float() * self.frequencies
        turns = torch.cat((turns, turns), dim=-1)
        return (turns.cos() * self.scale).to(dtype), (turns.sin() * self.scale).to(dtype)


def rotaries(ropes: Mapping[str, Rope], head_dim: int) -> dict[str, Rotary]:
    """The rotary embedding of each layer type; types with equal ropes share one."""
    shared = {rope: Rotary(rope, head_dim) for rope in ropes.values()}
    return {kind: shared[rope] for kind, rope in ropes.items()}


def angles_by_type(
    rotary: Mapping[str, Rotary], positions: Tensor, dtype: torch.dtype
) -> dict[str, tuple[Tensor, Tensor]]:
    """The angles of each layer type; what types share is computed once."""
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for kind, own in rotary.items():
        same = [found[other] for other in found if rotary[other] is own]
        found[kind] = same[0] if same else own.angles(positions, dtype)
    return found


def _frequencies(rope: Rope, head_dim: int) -> Tensor:
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
    plain = 1.0 / rope.theta**exponents
    if rope.kind != "yarn":
        return plain / rope.factor

    # YaRN keeps the dimensions that turn often within the trained length, stretches those that
    # turn less than once, and blends in between.
    def dimension(turns: float) -> float:
        wavelength = rope.trained_length / (turns * 2 * math.pi)
        return head_dim * math.log(wavelength) / (2 * math.log(rope.theta))

    low, high = dimension(rope.beta_fast), dimension(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    high = high if high != low else low + 0.001
    steps = torch.arange(head_dim // 2, dtype=torch.float32, device="cpu")
    stretch = ((steps - low) / (high - low)).clamp(0, 1)
    return plain / rope.factor * stretch + plain * (1 - stretch)


def rotate(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """`x` [batch, head, row, head_dim] turned by its row's angles; halves are paired."""
    cosine, sine = angles
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Attention(nn.Module):
    """Grouped-query attention with normalised queries and keys."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.head_dim = of.head_dim
        self.kv_heads = of.num_key_value_heads
        self.groups = of.groups
        width, kv_width = of.num_attention_heads * of.head_dim, self.kv_heads * of.head_dim
        self.q_proj = nn.Linear(of.hidden_size, width, of.attention_bias)
        self.k_proj = nn.Linear(of.hidden_size, kv_width, of.attention_bias)
        self.v_proj = nn.Linear(of.hidden_size, kv_width, of.attention_bias)
        self.o_proj = nn.Linear(width, of.hidden_size, of.attention_bias)
        self.q_norm = RMSNorm(of.head_dim, of.rms_norm_eps)
        self.k_norm = RMSNorm(of.head_dim, of.rms_norm_eps)

    def keys_values(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Turned keys, and values, of rows [batch, row, hidden]: [batch, kv head, row, head_dim]"""
        shape = (*x.shape[:2], self.kv_heads, self.head_dim)
        keys = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
        values: Tensor = self.v_proj(x).view(shape).transpose(1, 2)
        return rotate(keys, angles), values

    def forward(
        self, x: Tensor, angles: tuple[Tensor, Tensor], view: View, recall: Recall
    ) -> Tensor:
        batch, rows, _ = x.shape
        keys, values = recall(*self.keys_values(x, angles))
        queries = self.q_norm(self.q_proj(x).view(batch, rows, -1, self.head_dim)).transpose(1, 2)
        queries = rotate(queries, angles)
        # The query heads of one kv head become rows: no kernel has to repeat keys and values.
        queries = queries.reshape(batch, self.kv_heads, self.groups * rows, self.head_dim)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=view.bias)
        mixed = mixed.view(batch, -1, rows, self.head_dim).transpose(1, 2)
        out: Tensor = self.o_proj(mixed.reshape(batch, rows, -1))
        return out


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(of.hidden_size, of.intermediate_size, bias=False)
        self.up_proj = nn.Linear(of.hidden_size, of.intermediate_size, bias=False)
        self.down_proj = nn.Linear(of.intermediate_size, of.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class AttentionLayer(nn.Module):
    """Attention and feed-forward, each behind a norm and added to the stream."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        self.self_attn = Attention(of)
        self.post_attention_layernorm = RMSNorm(of.hidden_size, of.rms_norm_eps)
        self.mlp = FeedForward(of)

    def forward(
        self, x: Tensor, angles: tuple[Tensor, Tensor], view: View, recall: Recall
    ) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), angles, view, recall)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


def lay_out(module: nn.Module) -> None:
    """Store matrices in the order in which a CPU multiplies a few rows by them fastest.

    Values and shapes stay. For 8 rows in float32 that takes two thirds of the time; in bfloat16,
    which is packed anew for each product, and on a GPU it changes nothing.
    """
    for each in module.modules():
        if not isinstance(each, nn.Linear):
            continue
        if each.weight.device.type == "cpu" and each.weight.dtype == torch.float32:
            each.weight.data = each.weight.data.T.contiguous().T


def initialise(module: nn.Module, std: float = 0.02) -> None:
    """Random matrices of small size; norms stay at one."""
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() > 1:
            nn.init.normal_(parameter, std=std)
