"""Decoding: requests and options in, tokens out. One loop serves every mode.

The modes differ in the tree that is verified, and in nothing else:

autoregressive  the root alone
linear          the chain of the drafter's first choices
ddtree          the best-first tree of `budget` nodes
shadow_linear   the chain; the tree is built, and walked along the text afterwards by a reader

The target chooses behind every row, and a path is followed as far as the choices are in the tree
(sample and match), so each mode emits the target's own text. A grammar is part of the choice: it
leaves of the logits behind a row what the row's own path allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.grammar import Grammar
from specdiag.ddtree.loop import Loop
from specdiag.ddtree.model import Target
from specdiag.ddtree.prefix import Prefixes
from specdiag.ddtree.record import Recorder
from specdiag.ddtree.trace import DETAILS, StepRecord
from specdiag.ddtree.verify import Sampling
from specdiag.errors import SpecdiagError

ALGORITHMS = {  # under the names that servers have for them
    "autoregressive": "NONE", "linear": "DFLASH", "ddtree": "DDTREE", "shadow_linear": "DDTREE",
}  # fmt: skip
MODES = tuple(ALGORITHMS)


@dataclass(frozen=True)
class Request:
    """What to continue, and until when."""

    name: str
    prompt: Sequence[int]
    max_new_tokens: int
    budget: int | None = None  # of its own, instead of the options'
    sampling: Sampling = field(default_factory=Sampling)
    grammar: Grammar | None = None  # what its text may be


@dataclass(frozen=True)
class Options:
    """What holds for all requests of a batch."""

    mode: str = "ddtree"
    budget: int = 32
    top_k: int = 8
    depth_limit: int | None = None
    depth_bonus: float = 0.0
    stop_ids: frozenset[int] = frozenset()
    run: str = "run"
    detail: frozenset[str] = frozenset()  # optional parts of step records, of trace.DETAILS
    backend: str | None = None  # of torch.compile, such as inductor; None runs op by op

    @property
    def algorithm(self) -> str:
        """The mode under the name that servers have for it."""
        return ALGORITHMS[self.mode]

    @property
    def draws_trees(self) -> bool:
        """Whether budget and top-k count; the other modes draft a chain or nothing."""
        return self.mode in ("ddtree", "shadow_linear")

    def budget_of(self, request: Request) -> int:
        """The request's own budget, or else that of all."""
        return self.budget if request.budget is None else request.budget


@dataclass
class Result:
    """What a request received. The first token is prefill's; every step adds to the others."""

    request: Request
    tokens: list[int] = field(default_factory=list)
    finish: str | None = None
    steps: int = 0

    @property
    def commit_len(self) -> float:
        """Mean tokens a step."""
        return (len(self.tokens) - 1) / self.steps if self.steps else float("nan")


@torch.no_grad()
def decode(
    target: Target,
    drafter: Drafter | None,
    requests: Sequence[Request],
    options: Options,
    on_tokens: Callable[[Request, list[int]], None] | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
    prefixes: Prefixes | None = None,
) -> list[Result]:
    """Continue all requests together, each to its own end.

    `on_tokens` streams what a request receives, `on_step` the record of each of its steps.
    `prefixes` has what earlier calls left for prompts that begin alike, and takes what these leave.
    Raises SpecdiagError for options that do not fit and for a context that is too long.
    """
    check(target, drafter, requests, options)
    results = [Result(request) for request in requests]
    loop = Loop(target, drafter, results, options, on_tokens, prefixes)
    loop.prefill()
    if on_step is None:
        loop.run()
    else:
        with Recorder(target, loop.drafter, loop.cache, results, options, on_step) as recorder:
            loop.run(recorder)
    return results


def check(
    target: Target, drafter: Drafter | None, requests: Sequence[Request], options: Options
) -> None:
    """Raise SpecdiagError for options and requests that do not fit the models."""
    if options.mode not in MODES:
        raise SpecdiagError(f"{options.mode!r} is no mode", "mode", f"one of {', '.join(MODES)}")
    if options.mode != "autoregressive" and drafter is None:
        raise SpecdiagError("nothing to draft with", options.mode, "add a drafter")
    if options.budget < 0 or options.top_k < 1:
        given = f"budget {options.budget}, top-k {options.top_k}"
        raise SpecdiagError("this drafts nothing", given, "budget is 0 or more, top-k 1 or more")
    for name in sorted(options.detail - {*DETAILS}):
        raise SpecdiagError("no such part of a trace", name, f"one of {', '.join(DETAILS)}")
    longest = target.architecture.max_position_embeddings
    for request in requests:
        if not request.prompt or request.max_new_tokens < 1:
            raise SpecdiagError(
                "no prompt, or no room for a token", request.name, "both need 1 token or more"
            )
        if len(request.prompt) + request.max_new_tokens > longest:
            raise SpecdiagError(
                f"{len(request.prompt)} + {request.max_new_tokens} tokens are more than the "
                f"target's {longest} positions",
                request.name, "shorten the prompt, or ask for fewer tokens",
            )  # fmt: skip
