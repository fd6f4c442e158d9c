"""Short runs of the bundled pairs, sound or with one fault, as the detection bench makes them."""

from __future__ import annotations

import copy
import dataclasses
import functools
import random
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from specdiag.ddtree import pair as pairs
from specdiag.ddtree import passages
from specdiag.ddtree.architecture import FULL, SLIDING, Architecture
from specdiag.ddtree.decode import Options, Request, Result, decode
from specdiag.ddtree.faults import Fault, Injection, all_faults, inject
from specdiag.ddtree.grammar import for_pair
from specdiag.ddtree.layers import lay_out
from specdiag.ddtree.model import Target
from specdiag.ddtree.pair import Pair
from specdiag.ddtree.prefix import Prefixes
from specdiag.ddtree.recording import Recording
from specdiag.ddtree.trace import DETAILS, RunRecord, StepRecord
from specdiag.ddtree.verify import Sampling

KINDS = ("full", "sliding", "hybrid")  # of targets
THOUGHT = (
    "Let me see.", "Wait, no.", "If x is 3, then 2x + 1 is 7.", "But is that right?",
    "Let me check it again.", "So the answer would be 42?", "Hmm, the second case is missing.",
    "Alternatively, count them one by one: 1, 2, 3, 5, 8.", "OK.", "Therefore we are done.",
)  # fmt: skip
LINES = r"(    [a-z_]{1,12} = [a-z_.]{1,16}(\([a-z_, ]{0,16}\))?\n)+"  # a grammar
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
    budget: int = 8
    top_k: int = 4
    temperature: float = 0.0
    top_p: float = 1.0
    stop: bool = True  # whether the end of a text ends a request
    cut: bool = False  # limits that fall on the last accepted draft of a step
    common_mask: bool = False  # a mask id that the target writes as well
    common_zero: bool = False  # a vocabulary whose token 0 is common
    simulated: bool = False  # acceptance, on purpose and said so
    line_stop: bool = False  # whether the end of a line ends a request
    grammar: str | None = None  # of all requests
    prefix: int = 0  # tokens between the checkpoints of a prefix cache; then all requests go on
    label: str = ""  # in front of the run's name
    dtype: torch.dtype = torch.float32
    detail: frozenset[str] = frozenset(DETAILS)

    @property
    def name(self) -> str:
        """As a run is called."""
        return f"{self.label}{self.kind}-b{self.batch}-s{self.seed}"


def suited(fault: Fault, kind: str, batch: int, seed: int) -> Trial | None:
    """A run in which the fault can act, if this kind of target has one."""
    needs = fault.needs
    recurrent, sliding = kind == "hybrid", kind == "sliding"
    if "recurrent" in needs and not recurrent:
        return None
    if fault.number == 7 and not sliding:
        return None
    trial = Trial(kind, 4 if "batch" in needs else batch, seed, label=f"{fault.name}-")
    if "window" in needs:
        trial = dataclasses.replace(trial, prompt_tokens=180)
    if "sampling" in needs:
        trial = dataclasses.replace(trial, temperature=1.0, max_new_tokens=80)
    if "top_p" in needs:
        trial = dataclasses.replace(trial, temperature=1.0, top_p=0.7, max_new_tokens=64)
    if "mask_id" in needs:
        trial = dataclasses.replace(trial, common_mask=True)
    if "zero" in needs:
        trial = dataclasses.replace(trial, common_zero=True, stop=False)
    if needs & {"cut", "no_bonus"}:
        trial = dataclasses.replace(trial, cut=True)
    if "grammar" in needs:
        mode = "linear" if seed % 2 else "ddtree"
        trial = dataclasses.replace(trial, grammar=LINES, mode=mode, stop=False)
    if "prefix" in needs:
        trial = dataclasses.replace(trial, prefix=4, max_new_tokens=90, stop=False)
    if "long" in needs:
        trial = dataclasses.replace(trial, text="repeated", max_new_tokens=480)
    if "steps" in needs:
        trial = dataclasses.replace(trial, max_new_tokens=90)
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
    rope = {FULL: of.rope[FULL if FULL in of.rope else SLIDING]}
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
    if trial.text == "thinking":
        texts = [_thinking(pair, max(lengths), trial.seed + row) for row in range(trial.batch)]
    else:
        texts = passages.held_out(pair.tokenizer, trial.text, trial.batch, max(lengths), trial.seed)
    found = [
        Request(
            f"r{row}",
            text[-length:],
            trial.max_new_tokens + LONGER * row,
            None if row == 0 else max(1, trial.budget - row),
            Sampling(trial.temperature, trial.top_p, trial.seed + row),
        )
        for row, (text, length) in enumerate(zip(texts, lengths, strict=True))
    ]
    if trial.grammar is not None:
        grammar = for_pair(trial.grammar, pair)
        found = [dataclasses.replace(one, grammar=grammar) for one in found]
    return _limited(pair, trial, found) if trial.cut else found


def _thinking(pair: Pair, tokens: int, seed: int) -> list[int]:
    """A text as no drafter here has seen: prose that goes back and forth."""
    words = list(THOUGHT)
    random.Random(seed).shuffle(words)
    return passages.repeated(pair.tokenizer, "<think> " + " ".join(words), tokens)


def _limited(pair: Pair, trial: Trial, requests: list[Request]) -> list[Request]:
    """The same requests, each with a limit that leaves no room for the bonus of a later step."""
    room: dict[str, int] = {}
    told: dict[str, int] = {request.name: 1 for request in requests}

    def see(record: StepRecord) -> None:
        if record.step >= 6 and len(record.accepted) > 2:
            room.setdefault(record.request, told[record.request] + len(record.accepted) - 1)
        told[record.request] += len(record.emitted)

    decode(pair.target, pair.drafter, requests, options_of(pair, trial), on_step=see)
    return [
        dataclasses.replace(one, max_new_tokens=room.get(one.name, one.max_new_tokens))
        for one in requests
    ]


def options_of(pair: Pair, trial: Trial) -> Options:
    """The options of a trial."""
    stop_ids = pair.stop_ids if trial.stop else frozenset[int]()
    if trial.line_stop:
        stop_ids |= {pair.tokenizer.encode("\n")[0]}
    return Options(
        trial.mode, trial.budget, trial.top_k, stop_ids=stop_ids, run=trial.name,
        detail=trial.detail,
    )  # fmt: skip


def with_common_mask(pair: Pair) -> Pair:
    """The pair with a mask id that the target writes as well: the space."""
    assert pair.drafter is not None
    drafter = copy.copy(pair.drafter)
    space = pair.tokenizer.encode(" ")[0]
    drafter.architecture = dataclasses.replace(pair.drafter.architecture, mask_token_id=space)
    return dataclasses.replace(pair, drafter=drafter)


@functools.cache
def with_common_zero(kind: str, dtype: torch.dtype) -> Pair:
    """A pair whose vocabulary has the space as token 0; requests of it are `spaced`."""
    pair = pair_of(kind, dtype)
    target = copy.deepcopy(pair.target)
    rows = target.embed_tokens.weight.data
    space = pair.tokenizer.encode(" ")[0]
    rows[[0, space]] = rows[[space, 0]]
    lay_out(target)
    return dataclasses.replace(pair, target=target)


def spaced(pair: Pair, requests: list[Request]) -> list[Request]:
    """The same texts in that vocabulary."""
    space = pair.tokenizer.encode(" ")[0]
    other = {0: space, space: 0}
    return [
        dataclasses.replace(one, prompt=[other.get(token, token) for token in one.prompt])
        for one in requests
    ]


def _said(drafts: float) -> AbstractContextManager[Any]:
    """The run record says that acceptance is simulated."""
    original = Recording._run_record

    def record(self: Recording, requests: Any) -> RunRecord:
        return dataclasses.replace(original(self, requests), simulated_acceptance=drafts)

    return patch.object(Recording, "_run_record", record)


def run(trial: Trial, path: Path, fault: Fault | None = None, start: int = 0) -> Injection | None:
    """Write the trace of one run; what there is to know of its fault comes back."""
    pair = pair_of(trial.kind, trial.dtype)
    requests = requests_of(pair, trial)
    if trial.common_mask:
        pair = with_common_mask(pair)
    if trial.common_zero:
        pair, requests = with_common_zero(trial.kind, trial.dtype), spaced(pair, requests)
    with ExitStack() as stack:
        at = stack.enter_context(inject(fault, start)) if fault else None
        if trial.simulated:
            stack.enter_context(inject(all_faults()[58]))
            stack.enter_context(_said(2.0))
        prefixes = Prefixes(every=trial.prefix) if trial.prefix else None
        options = options_of(pair, trial)
        recording = stack.enter_context(Recording(pair, options, path, prefixes=prefixes))
        results = recording.decode(requests)
        if prefixes is not None:
            recording.decode([_going_on(one) for one in results])
    return at


def _going_on(result: Result) -> Request:
    """A later request, with a prompt that begins with what an earlier one read and wrote."""
    request, written = result.request, result.tokens
    prompt = [*request.prompt, *written[: max(1, 2 * len(written) // 3)]]
    return dataclasses.replace(request, name=f"{request.name}-later", prompt=prompt)
