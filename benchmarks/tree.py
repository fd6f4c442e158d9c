"""Time building a draft tree beside the plain heap that defines it.

    python benchmarks/tree.py

One thread, the best of many, both in this process and in turns: what counts are the ratios. Both
begin at the candidates [15, K] and end at the five tensors of the tree. The logits are of two
shapes: peaked, as of a good drafter on easy text, and flat.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from specdiag.ddtree.tree import Candidates, build, candidates, pad, walk

ORACLE = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "ddtree" / "oracle.py"))["build"]
DEPTHS, VOCAB, ROUNDS = 15, 32_000, 300
GOALS = {(64, 64): 0.2, (512, 64): 2.0, (512, 512): 2.0}  # (budget, K): ms


def draft(peak: float) -> Tensor:
    """Logits [L, V] whose best tokens stand out by `peak` at first and by half of it at last."""
    logits = torch.randn(DEPTHS, VOCAB, generator=torch.Generator().manual_seed(1))
    logits[:, :40] -= 2 * torch.arange(40).sqrt()
    logits[:, :40] += peak * torch.linspace(1, 0.5, DEPTHS)[:, None]
    return logits


def plain(found: Candidates, budget: int) -> list[Tensor]:
    """The oracle's rows as tensors."""
    rows = ORACLE(0, found.tokens.tolist(), found.log_probs.tolist(), budget)
    parents, depths, ranks, tokens, scores = zip(*rows, strict=True)
    return [*map(torch.tensor, (tokens, parents, depths, ranks)), torch.tensor(scores)]


def best(*works: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Milliseconds of each, taken in turns."""
    found = [float("inf")] * len(works)
    for _ in range(rounds):
        for at, work in enumerate(works):
            start = time.perf_counter()
            work()
            found[at] = min(found[at], 1000 * (time.perf_counter() - start))
    return found


def measure(name: str, logits: Tensor, budget: int, width: int) -> None:
    found = candidates(logits, width)
    made = build(0, found, budget)
    expected = plain(found, budget)
    ours = [made.tokens, made.parents, made.depths, made.ranks, made.log_probs]
    assert all(map(torch.equal, ours, expected)), "the two trees differ"
    took, slow = best(lambda: build(0, found, budget), lambda: plain(found, budget))
    target = torch.zeros(made.nodes + 1, dtype=torch.int64)
    seen, walked, padded = best(
        made.visible, lambda: walk(made, target), lambda: pad([made] * 8, budget + 1), rounds=100
    )
    print(
        f"| {name} | {budget} | {width} | {int(made.depths.max())} | {took:.3f} "
        f"| {GOALS[budget, width]:.1f} | {slow:.3f} | {slow / took:.1f} "
        f"| {seen:.3f} | {walked:.3f} | {padded:.3f} |"
    )


def main() -> None:
    torch.set_num_threads(1)
    print("| logits | budget | K | depth | build ms | goal ms | plain heap ms | ratio", end=" ")
    print("| visible ms | walk ms | pad of 8 ms |\n|" + "---|" * 11)
    for name, peak in (("peaked", 18.0), ("flat", 6.0)):
        for budget, width in GOALS:
            measure(name, draft(peak), budget, width)
    logits = draft(18.0)
    ours, alone = best(
        lambda: candidates(logits, 64), lambda: logits.log_softmax(-1).topk(64), rounds=20
    )
    print(f"\ncandidates [15, {VOCAB}], K 64: {ours:.1f} ms; log_softmax and topk: {alone:.1f} ms")
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, one thread")


if __name__ == "__main__":
    main()
