"""The passes of a step, run op by op or each compiled as one graph.

A compiled pass has fixed shapes: it reads all columns of its cache, used or not, and asks the host
for nothing. Caches have few different sizes then, since each takes a compilation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from specdiag.ddtree.cache import Cache
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.model import Output, Target
from specdiag.ddtree.verify import Pass, verify

GRAPHS = 64  # of one model, for other widths, batches and caches; torch gives up after 8


class Passes:
    """Drafts and verifies; `backend` is that of torch.compile, None compiles nothing."""

    def __init__(self, target: Target, drafter: Drafter | None, backend: str | None) -> None:
        self.target, self.backend = target, backend
        self.run_target: Callable[..., Output] = self._whole(target)
        self.run_drafter: Callable[..., Tensor] | None = drafter and self._whole(drafter)

    def room(self, needed: int) -> int:
        """How many slots a cache is to have where `needed` are enough."""
        return needed if self.backend is None else max(256, 1 << (needed - 1).bit_length())

    def verify(self, given: Pass, cache: Cache, taps: Sequence[int]) -> Output:
        """One pass of the target over the rows of `given`; the cache's lengths stay."""
        return verify(self.run_target, given, cache, taps, self._columns(cache))

    def draft(self, block: Tensor, cache: Cache) -> Tensor:
        """Logits [batch, depth, vocab] of a block [batch, slot]."""
        assert self.run_drafter is not None
        return self.run_drafter(block, cache, self.target, columns=self._columns(cache))

    def _columns(self, cache: Cache) -> int | None:
        return None if self.backend is None else cache.max_len

    def _whole(self, model: nn.Module) -> Callable[..., Any]:
        """The model as one graph."""
        if self.backend is None:
            return model
        compiled = torch.compile(model, backend=self.backend, fullgraph=True, dynamic=False)

        def run(*args: Any, **named: Any) -> Any:
            # A watch adds hooks to layers, which a graph from before would skip.
            with torch._dynamo.config.patch(
                skip_nnmodule_hook_guards=False, recompile_limit=GRAPHS
            ):
                return compiled(*args, **named)

        return run
