"""Short runs of the bundled pairs, sound or with one fault, as the detection bench makes them."""

from __future__ import annotations

import dataclasses
import functools
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from specdiag.ddtree import pair as pairs
from specdiag.ddtree import passages
from specdiag.ddtree.architecture import FULL, SLIDING, Architecture
from specdiag.ddtree.decode import Options, Request
from specdiag.ddtree.faults import Fault, Injection, inject
from specdiag.ddtree.layers import lay_out
from specdiag.ddtree.model import Target
from specdiag.ddtree.pair import Pair
from specdiag.ddtree.recording import Recording
from specdiag.ddtree.trace import DETAILS
from specdiag.ddtree.verify import Sampling

KINDS = ("full", "sliding", "hybrid")  # of targets
LONGER = 8  # tokens by which the requests of a batch differ in their prompts and limits


@dataclass(frozen=True)
class Trial:
    """What is run."""

    kind: str = "sliding"
    batch: int = 1
    seed: int = 0
    text: str = "code"  # a kind of corpus.KINDS
    prompt_tokens: int = 40
    max_new_tokens: int = 40
    mode: str = "ddtree"
    budget: int = 12
    top_k: int = 4
    temperature: float = 0.0
    top_p: float = 1.0
    stop: bool = True  # whether the end of a text ends a request
    dtype: torch.dtype = torch.float32
    detail: frozenset[str] = frozenset(DETAILS)

    @property
    def name(self) -> str:
        """As a run is called."""
        return f"{self.kind}-b{self.batch}-s{self.seed}"


def suited(fault: Fault, kind: str, batch: int, seed: int) -> Trial | None:
    """A run in which the fault can act, if this kind of target has one."""
    needs = fault.needs
    recurrent, sliding = kind == "hybrid", kind == "sliding"
    if "recurrent" in needs and not recurrent:
        return None
    if fault.number == 7 and not sliding:
        return None
    trial = Trial(kind, 4 if "batch" in needs else batch, seed)
    if "window" in needs:
        trial = dataclasses.replace(trial, prompt_tokens=180)
    if "sampling" in needs:
        trial = dataclasses.replace(trial, temperature=1.0, max_new_tokens=96)
    if "top_p" in needs:
        trial = dataclasses.replace(trial, temperature=1.0, top_p=0.7, max_new_tokens=64)
    if "mask_id" in needs:  # which nobody writes of his own accord
        trial = dataclasses.replace(trial, temperature=8.0, max_new_tokens=500)
    if "long" in needs:
        trial = dataclasses.replace(trial, text="repeated", max_new_tokens=700)
    if "many" in needs:
        trial = dataclasses.replace(trial, max_new_tokens=300)
    return trial


@functools.cache
def pair_of(kind: str, dtype: torch.dtype = torch.float32) -> Pair:
    """A bundled pair with a target of this kind; a full one is the sliding one without windows."""
    if kind != "full":
        return pairs.bundled("hybrid" if kind == "hybrid" else "plain", dtype=dtype)
    given = pairs.bundled("plain", dtype=dtype)
    of = given.target.architecture
    rope = {FULL: of.rope.get(FULL, of.rope.get(SLIDING))}
    types = (FULL,) * len(of.layer_types)
    full = Target(dataclasses.replace(of, layer_types=types, rope=rope, sliding_window=None))
    full.load_state_dict(given.target.state_dict())
    full = full.to(dtype).eval().requires_grad_(False)
    lay_out(full)
    assert isinstance(full.architecture, Architecture)
    return dataclasses.replace(given, target=full)


def requests_of(pair: Pair, trial: Trial) -> list[Request]:
    """Requests of different lengths and budgets, so that rows cannot be mixed up unseen."""
    lengths = [trial.prompt_tokens + LONGER * row for row in range(trial.batch)]
    texts = passages.held_out(
        pair.tokenizer, trial.text, trial.batch, max(lengths), trial.seed
    )  # the same number of tokens each: cut below
    return [
        Request(
            f"r{row}",
            text[-length:],
            trial.max_new_tokens + LONGER * row,
            None if row == 0 else max(1, trial.budget - row),
            Sampling(trial.temperature, trial.top_p, trial.seed + row),
        )
        for row, (text, length) in enumerate(zip(texts, lengths, strict=True))
    ]


def run(trial: Trial, path: Path, fault: Fault | None = None, start: int = 0) -> Injection | None:
    """Write the trace of one run; what there is to know of its fault comes back."""
    pair = pair_of(trial.kind, trial.dtype)
    stop_ids = pair.stop_ids if trial.stop else frozenset[int]()
    options = Options(
        trial.mode, trial.budget, trial.top_k, stop_ids=stop_ids, run=trial.name,
        detail=trial.detail,
    )  # fmt: skip
    with ExitStack() as stack:
        at = stack.enter_context(inject(fault, start)) if fault else None
        recording = stack.enter_context(Recording(pair, options, path))
        recording.decode(requests_of(pair, trial))
    return at
