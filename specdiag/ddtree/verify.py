"""Verification: trees side by side as one pass of the target, and what the target chooses in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from specdiag.ddtree.cache import Cache
from specdiag.ddtree.model import Output
from specdiag.ddtree.tree import Tree, pad, walk


@dataclass(frozen=True)
class Pass:
    """The input of a verification: every tree padded to the same number of rows."""

    ids: Tensor  # [batch, row]
    positions: Tensor  # [batch, row], siblings share one
    visible: Tensor  # [batch, row, row], the tree's part of the mask
    parents: Tensor  # [batch, row], -1 at the root and in padding


@dataclass(frozen=True)
class Sampling:
    """How a request chooses its tokens; temperature 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


def compile(trees: Sequence[Tree], starts: Sequence[int], width: int, device: torch.device) -> Pass:
    """Trees with roots at `starts` as one pass of `width` rows."""
    batch = pad(trees, width)
    first = torch.tensor(starts)[:, None]
    return Pass(
        batch.tokens.to(device),
        (first + batch.depths).to(device),
        batch.visible.to(device),
        batch.parents.to(device),
    )


def verify(
    target: Callable[..., Output], given: Pass, cache: Cache, taps: Sequence[int],
    columns: int | None = None,
) -> Output:  # fmt: skip
    """One pass of the target over the rows of `given`; the cache's lengths stay.

    `columns` fixes how many cache columns are read.
    """
    return target(
        given.ids, given.positions, cache, given.visible, taps,
        parents=given.parents, columns=columns,
    )  # fmt: skip


def choose(logits: Tensor, positions: Tensor, sampling: Sampling) -> Tensor:
    """The target's choice behind every row, [row], from logits [row, vocab].

    A sample is the largest of logits plus Gumbel noise, and the noise depends on the seed and the
    position alone. So every row draws from the target's own law, independently of what was drawn
    before its position; and a tree, a chain and plain decoding draw the same text.
    """
    return best(scores(logits, positions, sampling))


def scores(logits: Tensor, positions: Tensor, sampling: Sampling) -> Tensor:
    """What `choose` maximises, [row, vocab]; for a greedy request the logits themselves."""
    if sampling.temperature <= 0 or not len(positions):
        return logits
    scaled = nucleus(logits / sampling.temperature, sampling.top_p)
    places, vocab = positions.tolist(), logits.shape[-1]
    noise = {place: _gumbel(sampling.seed, place, vocab) for place in set(places)}
    return scaled + torch.stack([noise[place] for place in places]).to(logits.device)


def best(scores: Tensor) -> Tensor:
    """The first of the largest of each row [row, vocab]."""
    if scores.device.type == "cpu":  # there argmax of torch takes twenty times as long
        return torch.from_numpy(scores.detach().numpy().argmax(-1))
    return scores.argmax(-1)


def nucleus(logits: Tensor, top_p: float) -> Tensor:
    """Logits with -inf outside the smallest set of tokens that holds `top_p` of the mass."""
    if top_p >= 1:
        return logits
    ordered, order = logits.sort(-1, descending=True)
    mass = ordered.softmax(-1)
    outside = mass.cumsum(-1) - mass >= top_p  # the token that reaches top_p stays inside
    return logits.masked_fill(torch.zeros_like(outside).scatter(-1, order, outside), -torch.inf)


def law(logits: Tensor, sampling: Sampling) -> Tensor:
    """The probability of every token by which `choose` chooses, [row, vocab]."""
    if sampling.temperature <= 0:
        return functional.one_hot(best(logits), logits.shape[-1]).float()
    return nucleus(logits / sampling.temperature, sampling.top_p).softmax(-1)


def _gumbel(seed: int, position: int, vocab: int) -> Tensor:
    generator = torch.Generator().manual_seed((seed * 1_000_003 + position) % 2**63)
    uniform = torch.rand(vocab, generator=generator, dtype=torch.float64)
    return -torch.log(-torch.log(uniform.clamp(1e-300, 1 - 1e-16))).float()


def accept(tree: Tree, chosen: Tensor) -> tuple[list[int], int]:
    """The accepted rows of a tree, root first, and the bonus token; `chosen` is [row]."""
    return walk(tree, chosen[: tree.nodes + 1])
