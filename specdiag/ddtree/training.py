"""Training of a target on text, and of its drafter on the target's own continuations.

The drafter's loss is that of DFlash (arXiv 2602.06036): cross entropy at every slot of blocks that
begin anywhere in a continuation, where slot k weighs exp(-(k - 1) / decay), since a late slot only
matters when all before it are right.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from specdiag.ddtree import corpus
from specdiag.ddtree.decode import Options, Request, decode
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.model import Target
from specdiag.ddtree.recipes import Schedule
from specdiag.ddtree.tokenizer import END, MASK, Tokenizer
from specdiag.ddtree.verify import Sampling

Report = Callable[[float], None]  # takes the loss of each step


def train_target(
    target: Target, tokenizer: Tokenizer, schedule: Schedule, seed: int, report: Report
) -> None:
    """Train a target to predict the next token of the corpus."""
    ids = _ids(tokenizer, seed)
    optimiser = _Optimiser(target, schedule)
    for length in lengths(schedule):
        rows = max(schedule.tokens // length, 1)
        taken = [[next(ids) for _ in range(length + 1)] for _ in range(rows)]
        text = torch.tensor(taken)
        places = torch.arange(length).expand(rows, length)
        with _mixed():
            logits = target(text[:, :-1], places).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimiser.update(loss)
        report(float(loss.detach()))
    mask = tokenizer.id(MASK)
    assert mask is not None
    _place_mask(target, mask, seed)
    target.eval()


@torch.no_grad()
def _place_mask(target: Target, mask: int, seed: int) -> None:
    """Give the mask id an embedding to draft from.

    No text holds it, so where input and output share a table all that moved its row was the
    softmax, which pushed it to where no text is. The drafter would see nothing else.
    """
    table = target.embed_tokens.weight
    row = torch.randn(table.shape[1], generator=torch.Generator().manual_seed(seed))
    table[mask] = row / row.norm() * table.norm(dim=-1).median() / 2


def _ids(tokenizer: Tokenizer, seed: int) -> Iterator[int]:
    end = tokenizer.id(END)
    assert end is not None
    known: dict[str, list[int]] = {}  # modules come again, made texts do not
    modules = set(corpus.modules(held_out=False))
    for text in corpus.stream(seed):
        ids = known.get(text) or tokenizer.encode(text)
        if text in modules:
            known[text] = ids
        yield from ids
        yield end


@dataclass(frozen=True)
class Continuations:
    """Texts that a target wrote: prompts and what it made of them, all of one length."""

    ids: Tensor  # [text, token]
    begins: Tensor  # [text], where the continuation begins


def continuations(
    target: Target, tokenizer: Tokenizer, count: int, prompt: int, seed: int,
    report: Callable[[int], None], length: int = 256, batch: int = 64,
) -> Continuations:  # fmt: skip
    """Let a target continue `count` passages of the training text, two thirds of them greedily.

    Prompts have `prompt` tokens. Where a passage is shorter, all texts are cut to the length of
    the shortest; `report` hears how many were made.
    """
    draw = random.Random(seed)
    texts, begins = [], []
    for first in range(0, count, batch):
        requests = []
        for at in range(first, min(first + batch, count)):
            kind = draw.choices(list(corpus.KINDS), [0.7, 0.15, 0.15])[0]
            passage = tokenizer.encode(corpus.KINDS[kind](draw, 8 * prompt, held_out=False))
            ids = passage[:prompt]
            sampling = Sampling(temperature=1.0 if at % 3 == 0 else 0.0, seed=seed + at)
            requests.append(Request(str(at), ids, length, sampling=sampling))
        for result in decode(target, None, requests, Options(mode="autoregressive")):
            texts.append([*result.request.prompt, *result.tokens])
            begins.append(len(result.request.prompt))
        report(len(requests))
    # A long prompt is cut at its begin, so that all texts end with their continuation.
    shortest = min(map(len, texts))
    cut = [len(text) - shortest for text in texts]
    return Continuations(
        torch.tensor([text[at:] for text, at in zip(texts, cut, strict=True)]),
        torch.tensor([begin - at for begin, at in zip(begins, cut, strict=True)]),
    )


def train_drafter(
    drafter: Drafter, target: Target, texts: Sequence[Continuations], schedule: Schedule, seed: int,
    report: Report, shares: Sequence[float], decay: float = 5.0, blocks: int = 168,
) -> None:  # fmt: skip
    """Train a drafter to predict whole blocks of what its target goes on with.

    Each step takes one of `texts`, drawn by `shares`, and about `blocks` blocks of it.
    """
    target.requires_grad_(False)
    optimiser = _Optimiser(drafter, schedule)
    draw = torch.Generator().manual_seed(seed)
    weights = torch.exp(-torch.arange(drafter.depths) / decay)
    pick = random.Random(seed)
    for _ in range(schedule.steps):
        (pool,) = pick.choices(texts, shares)
        rows = max(schedule.tokens // pool.ids.shape[1], 1)
        # A row has fewer than 200 places to begin at: more than 96 blocks of one would repeat.
        each = min(blocks // rows, 96)
        loss = _block_loss(drafter, target, pool, rows, each, weights, draw)
        optimiser.update(loss)
        report(float(loss.detach()))
    drafter.eval()


def _block_loss(
    drafter: Drafter, target: Target, texts: Continuations, rows: int, blocks: int,
    weights: Tensor, draw: torch.Generator,
) -> Tensor:  # fmt: skip
    """The loss of `blocks` blocks in each of `rows` texts, all drawn."""
    length, block = texts.ids.shape[1], drafter.architecture.block_size
    chosen = torch.randint(len(texts.ids), (rows,), generator=draw)
    ids, begins = texts.ids[chosen], texts.begins[chosen]
    with torch.no_grad(), _mixed():
        places = torch.arange(length).expand(rows, length)
        features = target(ids, places, taps=drafter.taps).features
    spread = torch.rand(rows, blocks, generator=draw)
    starts = (begins[:, None] + spread * (length - block - begins)[:, None]).long()
    truth = ids.gather(1, (starts[:, :, None] + torch.arange(block)).flatten(1))
    truth = truth.view(rows, blocks, block)
    given = torch.full_like(truth, drafter.architecture.mask_token_id)
    given[:, :, 0] = truth[:, :, 0]
    with _mixed():
        logits = drafter.parallel(features, starts, given, target)
    losses = functional.cross_entropy(
        logits.flatten(0, 2), truth[:, :, 1:].flatten(), reduction="none"
    )
    return (losses.view(rows * blocks, -1) * weights).sum(-1).mean() / weights.sum()


def lengths(schedule: Schedule) -> Iterator[int]:
    """The sequence length of each step. Long ones come late: they are for positions."""
    for step in range(schedule.steps):
        long = step >= schedule.steps / 2 and step % 4 == 3
        yield schedule.long_length if long else schedule.length


def factor(schedule: Schedule, step: int) -> float:
    """Of the rate: up in a line, then down along a cosine."""
    warm = min((step + 1) / schedule.warmup, 1.0)
    return warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / schedule.steps)))


class _Optimiser:
    """Muon for matrices between layers, AdamW for embeddings, heads, filters and norms."""

    def __init__(self, model: nn.Module, schedule: Schedule) -> None:
        parts = dict(model.named_parameters())
        outer = ("embed_tokens", "lm_head")
        inner = {
            name: each
            for name, each in parts.items()
            if each.dim() == 2 and not name.startswith(outer)
        }
        others = [each for name, each in parts.items() if name not in inner]
        self.model = model
        self.both: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                inner.values(), lr=schedule.rate, weight_decay=0.01,
                adjust_lr_fn="match_rms_adamw",
            ),
            torch.optim.AdamW(others, lr=schedule.rate, betas=(0.9, 0.95), weight_decay=0.0),
        ]  # fmt: skip
        self.rates = [
            torch.optim.lr_scheduler.LambdaLR(each, partial(factor, schedule)) for each in self.both
        ]

    def update(self, loss: Tensor) -> None:
        """One step down."""
        self.model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser, rate in zip(self.both, self.rates, strict=True):
            optimiser.step()
            rate.step()


def _mixed() -> torch.autocast:
    """Matrices multiply in bfloat16, which recent processors do many times as fast."""
    warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")
    return torch.autocast("cpu", torch.bfloat16)
