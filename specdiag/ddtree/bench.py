"""The benchmark: every mode on the same prompts, with a trace of each.

An arm is a mode with its budget. All arms decode one prompt, then the next, in an order that
rotates, so that a machine that slows down slows all arms. The time of an arm runs from the first
token, which prefill makes, until the trace has the last step: tokens per second are the emitted
tokens after the first, divided by it. Writing a trace is part of it, in every arm alike.

Prompts are the unit of the statistics: a speed-up is the ratio of summed tokens over summed times,
and its 95 % interval comes from drawing prompts again, the same ones for both sides.
"""

from __future__ import annotations

import json
import platform
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from specdiag import __version__
from specdiag.ddtree import passages
from specdiag.ddtree.decode import Options, Request, Result, decode
from specdiag.ddtree.pair import Pair
from specdiag.ddtree.recording import Recording
from specdiag.ddtree.verify import Sampling
from specdiag.errors import SpecdiagError
from specdiag.report import files

BUDGETS = tuple(2**power for power in range(9))
PLAIN, CHAIN = "autoregressive", "linear"
WARM_UP = 8  # tokens of the decode that is thrown away
DRAWS = 2000  # of the bootstrap
FEWEST = 5  # prompts below which an interval would say too much
SHARES = {"draft": ("draft_ms",), "build": ("topk_ms", "build_ms"), "verify": ("verify_ms",)}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured. No text ends before its length: every arm is to do the same work."""

    kind: str = "code"
    prompts: int = 16
    prompt_tokens: int = 256
    max_new_tokens: int = 128
    budgets: tuple[int, ...] = BUDGETS
    shadow_budget: int = 32
    top_k: int = 8
    batch: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass
class Arm:
    """A mode with its budget, and what was measured of it: one value a batch of prompts."""

    name: str
    options: Options
    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    texts: dict[str, list[int]] = field(default_factory=dict)


def arms(settings: Settings) -> list[Arm]:
    """Plain decoding, the chain, the shadow tree, and a tree of every budget."""
    named = [(PLAIN, PLAIN, 0), (CHAIN, CHAIN, 0)]
    named += [("shadow_linear", "shadow_linear", settings.shadow_budget)]
    named += [(f"ddtree-{budget}", "ddtree", budget) for budget in settings.budgets]
    return [
        Arm(name, Options(mode=mode, budget=budget, top_k=settings.top_k, run=name))
        for name, mode, budget in named
    ]


def turns(settings: Settings) -> int:
    """How many decodes `run` measures; it reports each of them."""
    return -(-settings.prompts // settings.batch) * len(arms(settings))


def run(
    pair: Pair, settings: Settings, folder: Path, done: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Measure all arms, write their traces and `bench.json` into a folder, return its content.

    Raises SpecdiagError for settings that do not fit the pair.
    """
    _check(pair, settings)
    batches = list(_batches(pair, settings))
    _clear(folder)
    measured = arms(settings)
    for arm in measured:
        first = [Request("warm-up", batches[0][0].prompt, WARM_UP, None, batches[0][0].sampling)]
        decode(pair.target, pair.drafter, first, arm.options, on_step=lambda record: None)
    context = {key: value for key, value in asdict(settings).items() if key != "budgets"}
    with ExitStack() as stack:
        open_ = {
            arm.name: stack.enter_context(
                Recording(
                    pair, arm.options, folder / arm.name / "steps.jsonl",
                    folder / arm.name / "server.log", context,
                )
            )
            for arm in measured
        }  # fmt: skip
        for number, requests in enumerate(batches):
            first_arm = number % len(measured)
            for arm in (*measured[first_arm:], *measured[:first_arm]):
                _measure(arm, open_[arm.name], requests)
                done()
    found = _result(pair, settings, measured, folder)
    text = json.dumps(found, indent=1)
    files.write(folder / "bench.json", text + "\n")
    return dict(json.loads(text))


def _check(pair: Pair, settings: Settings) -> None:
    if pair.drafter is None:
        raise SpecdiagError("a benchmark of speculation needs a drafter", help="name its folder")
    if min(settings.prompts, settings.batch, settings.prompt_tokens) < 1:
        raise SpecdiagError("prompts, their tokens and the batch are 1 or more")
    if not settings.budgets or min(settings.budgets) < 0:
        raise SpecdiagError("a tree needs a budget of 0 or more", "--budgets")
    if settings.max_new_tokens < 2:
        raise SpecdiagError("the first token comes from prefill; ask for 2 or more")
    longest = pair.target.architecture.max_position_embeddings
    if settings.prompt_tokens + settings.max_new_tokens > longest:
        raise SpecdiagError(
            f"{settings.prompt_tokens} + {settings.max_new_tokens} tokens are more than the "
            f"target's {longest} positions",
            help="shorten the prompts, or ask for fewer tokens",
        )


def _batches(pair: Pair, settings: Settings) -> Iterator[list[Request]]:
    """The requests, in groups that are decoded together; every row samples with its own seed."""
    texts = passages.held_out(
        pair.tokenizer, settings.kind, settings.prompts, settings.prompt_tokens, settings.seed
    )
    requests = [
        Request(
            f"p{number:03d}", ids, settings.max_new_tokens, None,
            Sampling(settings.temperature, settings.top_p, settings.seed + number),
        )
        for number, ids in enumerate(texts)
    ]  # fmt: skip
    for start in range(0, len(requests), settings.batch):
        yield requests[start : start + settings.batch]


def _clear(folder: Path) -> None:
    """Take away what an earlier benchmark left here: arms of two runs are no comparison."""
    for name in ("autoregressive", "linear", "shadow_linear", "ddtree-*"):
        for old in folder.glob(name):
            for file in ("steps.jsonl", "server.log"):
                (old / file).unlink(missing_ok=True)
    (folder / "bench.json").unlink(missing_ok=True)


def _measure(arm: Arm, recording: Recording, requests: list[Request]) -> None:
    heard: dict[str, float] = {}

    def first_token(request: Request, tokens: list[int]) -> None:
        if request.name not in heard:
            heard[request.name] = time.perf_counter()

    results: list[Result] = recording.decode(requests, on_tokens=first_token)
    arm.seconds.append(time.perf_counter() - max(heard.values()))
    arm.tokens.append(sum(len(result.tokens) - 1 for result in results))
    arm.texts |= {result.request.name: result.tokens for result in results}


# What the measurements say


def _result(pair: Pair, settings: Settings, measured: list[Arm], folder: Path) -> dict[str, Any]:
    plain = measured[0]
    rows = [_row(arm, plain, settings, folder) for arm in measured]
    for row in rows:
        row["break_even_commit_len"] = row["step_ms"] / rows[0]["step_ms"]
    return {
        "schema": 1,
        "specdiag": __version__,
        "pair": named(pair),
        "environment": environment(pair),
        "settings": asdict(settings),
        "arms": rows,
        "differences": differences(plain, measured[1:]),
    }


def named(pair: Pair) -> dict[str, str]:
    """Which models were measured."""
    return {
        "name": pair.name, "target": str(pair.target_folder), "drafter": str(pair.drafter_folder),
    }  # fmt: skip


def environment(pair: Pair) -> dict[str, Any]:
    """What the numbers depend on beside the models."""
    return {
        "python": platform.python_version(), "torch": torch.__version__,
        "system": platform.platform(), "device": str(pair.target.device),
        "dtype": str(pair.target.dtype).removeprefix("torch."), "threads": torch.get_num_threads(),
    }  # fmt: skip


def _row(arm: Arm, plain: Arm, settings: Settings, folder: Path) -> dict[str, Any]:
    steps, rounds, committed, shares = 0, set[tuple[int, int]](), 0.0, dict.fromkeys(SHARES, 0.0)
    for record in steps_of(folder / arm.name / "steps.jsonl"):
        steps += 1
        committed += record["commit_len"]
        # The rows of a batch share a step, and each record has the whole time of it.
        turn = (int(record["request"][1:]) // settings.batch, record["step"])
        if turn not in rounds:
            rounds.add(turn)
            for name, columns in SHARES.items():
                shares[name] += sum(record.get(column) or 0.0 for column in columns)
    seconds = sum(arm.seconds)
    parts = {name: ms / (1000 * seconds) for name, ms in shares.items()}
    ratio, interval = speed_up(arm, plain, settings.seed)
    return {
        "arm": arm.name, "mode": arm.options.mode, "budget": arm.options.budget,
        "tokens_per_s": sum(arm.tokens) / seconds, "commit_len": committed / steps,
        "steps": steps, "step_ms": 1000 * seconds / len(rounds),
        "shares": parts | {"other": 1 - sum(parts.values())},
        "speed_up": ratio, "speed_up_interval": interval,
        "tokens": sum(arm.tokens), "seconds": seconds, "seconds_by_batch": arm.seconds,
        "trace": f"{arm.name}/steps.jsonl",
    }  # fmt: skip


def steps_of(path: Path) -> Iterator[dict[str, Any]]:
    """The step records of a trace, as they stand in it."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            record: dict[str, Any] = json.loads(line)
            if record["record"] == "step":
                yield record


def speed_up(arm: Arm, plain: Arm, seed: int) -> tuple[float, tuple[float, float] | None]:
    """Tokens per second over those of plain decoding, and the 95 % interval of the ratio."""
    count = len(arm.seconds)

    def ratio(taken: Sequence[int]) -> float:
        speed = [
            sum(one.tokens[at] for at in taken) / sum(one.seconds[at] for at in taken)
            for one in (arm, plain)
        ]
        return speed[0] / speed[1]

    if count < FEWEST:
        return ratio(range(count)), None
    draw = random.Random(seed)
    drawn = sorted(ratio(draw.choices(range(count), k=count)) for _ in range(DRAWS))
    return ratio(range(count)), (drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS) - 1])


def differences(plain: Arm, others: Sequence[Arm]) -> list[dict[str, Any]]:
    """Where an arm emits another text than plain decoding: the first place of each."""
    found = []
    for arm in others:
        apart = [name for name, text in plain.texts.items() if arm.texts[name] != text]
        if apart:
            pairs = zip(plain.texts[apart[0]], arm.texts[apart[0]], strict=False)
            at = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
            found.append({"arm": arm.name, "prompts": len(apart), "first": apart[0], "token": at})
    return found
