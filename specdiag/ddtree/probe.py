"""The probe: predictable and hard text at several context lengths, to tell what length does.

Greedy continuations of a small model on words without order soon repeat themselves, which is easy
to draft. So the hard text is sampled, while the predictable one and plain decoding are greedy.
The cells take turns, text by text, so that a machine that slows down slows all lengths.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specdiag import __version__
from specdiag.ddtree import passages
from specdiag.ddtree.architecture import FULL, SLIDING, Architecture
from specdiag.ddtree.bench import SHARES, environment, named, steps_of
from specdiag.ddtree.conclusion import Cell, Expected, conclude
from specdiag.ddtree.decode import Options, Request, decode
from specdiag.ddtree.pair import Pair
from specdiag.ddtree.recording import Recording
from specdiag.ddtree.verify import Sampling
from specdiag.errors import SpecdiagError
from specdiag.report import files

LENGTHS = (128, 512, 1024, 2048)
HARD_TOKENS = 48  # at most, since each step adds few
PLAIN_TOKENS = 24  # at most: only the step time is needed
WARM_UP = 8
KINDS = {"predictable": "speculating", "hard": "speculating", "plain": "autoregressive"}
PERIOD = 24  # tokens that stand twice where a text repeats
STAGES = SHARES | {"step": ("step_ms",)}  # columns of the trace


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured. No text ends before its length."""

    lengths: tuple[int, ...] | None = None  # None: those of LENGTHS that the target has room for
    max_new_tokens: int = 96
    repeats: int = 5  # texts of each kind
    mode: str = "ddtree"
    budget: int = 32
    top_k: int = 8
    temperature: float = 1.0  # of the hard text
    text: str | None = None  # predictable text of the user's own
    hard_text: str | None = None
    seed: int = 0


def run(
    pair: Pair, settings: Settings, folder: Path | None = None,
    done: Callable[[], None] = lambda: None,
) -> dict[str, Any]:  # fmt: skip
    """Measure all cells and conclude; traces and `probe.json` go into a folder, if one is given.

    Raises SpecdiagError for lengths or a mode that the pair cannot do.
    """
    lengths = lengths_of(pair, settings)
    requests = list(_requests(pair, settings, lengths))
    for kind in KINDS:
        warm = next(request for each, request in requests if each == kind)
        warm = Request("warm-up", warm.prompt, WARM_UP)
        decode(pair.target, pair.drafter, [warm], _options(settings, kind), on_step=lambda _: None)
    with _folder(folder) as place:
        with ExitStack() as stack:
            open_ = {
                kind: stack.enter_context(
                    Recording(
                        pair, _options(settings, kind), place / kind / "steps.jsonl",
                        place / kind / "server.log",
                    )
                )
                for kind in KINDS
            }  # fmt: skip
            kept: dict[str, float] = {}  # by request, of the predictable text
            for kind, request in requests:
                (result,) = open_[kind].decode([request])
                if kind == "predictable":
                    kept[request.name] = followed(request.prompt, result.tokens)
                done()
        cells = [
            cell for kind in KINDS for cell in _cells(kind, place / kind / "steps.jsonl", kept)
        ]
    assert pair.drafter is not None
    reach = pair.drafter.depths
    if settings.mode == "ddtree":
        reach = min(reach, settings.budget)
    expected = Expected(*(work(one.architecture, _weights(one), lengths)
                          for one in (pair.target, pair.drafter)))  # fmt: skip
    found = _result(pair, settings, lengths, cells, conclude(cells, reach, expected))
    text = json.dumps(found, indent=1)
    if folder is not None:
        files.write(folder / "probe.json", text + "\n")
    return dict(json.loads(text))


def decodes(pair: Pair, settings: Settings) -> int:
    """How many decodes `run` does; it reports each of them."""
    return len(lengths_of(pair, settings)) * settings.repeats * len(KINDS)


def lengths_of(pair: Pair, settings: Settings) -> tuple[int, ...]:
    """The context lengths to measure, each with room for the new tokens.

    Raises SpecdiagError where one has none, and for other settings that measure nothing.
    """
    if pair.drafter is None:
        raise SpecdiagError("a probe of speculation needs a drafter", help="name its folder")
    if settings.mode == "autoregressive":
        raise SpecdiagError("mode autoregressive drafts nothing", "--mode", "linear or ddtree")
    if settings.max_new_tokens < 2 or settings.repeats < 1:
        raise SpecdiagError("a probe needs 1 repeat or more, and 2 new tokens or more")
    room = pair.target.architecture.max_position_embeddings - settings.max_new_tokens
    given = settings.lengths
    lengths = tuple(sorted(set(given or [each for each in LENGTHS if each <= room])))
    if not lengths or lengths[-1] > room or lengths[0] < 1:
        raise SpecdiagError(
            f"a context of {lengths[-1] if lengths else LENGTHS[0]} tokens has no room: with "
            f"{settings.max_new_tokens} new ones the target's positions allow 1 to {room}",
            "--lengths",
            "name shorter lengths, or ask for fewer tokens",
        )
    return lengths


def _options(settings: Settings, kind: str) -> Options:
    plain = kind == "plain"
    return Options(
        mode="autoregressive" if plain else settings.mode,
        budget=0 if plain else settings.budget, top_k=settings.top_k, run=kind,
    )  # fmt: skip


def _requests(
    pair: Pair, settings: Settings, lengths: Sequence[int]
) -> Iterator[tuple[str, Request]]:
    """Kind and request of each decode, in the order in which they take turns."""
    greedy = Sampling()
    for repeat in range(settings.repeats):
        seed = settings.seed + repeat
        for length in lengths:
            name = f"{length}-{repeat}"
            easy = _predictable(pair, settings, length, repeat)
            hard = _hard(pair, settings, length, repeat)
            tokens = settings.max_new_tokens
            sampled = Sampling(settings.temperature, 1.0, seed)
            yield "predictable", Request(name, easy, tokens, None, greedy)
            yield "hard", Request(name, hard, min(tokens, HARD_TOKENS), None, sampled)
            yield "plain", Request(name, easy, min(tokens, PLAIN_TOKENS), None, greedy)


def _predictable(pair: Pair, settings: Settings, length: int, repeat: int) -> list[int]:
    """The same passages at every length. A text of the user's is repeated where it is too short."""
    if settings.text is None:
        return passages.predictable(pair.tokenizer, length, settings.seed + repeat)
    lines = settings.text.splitlines(keepends=True)
    turned = lines[-repeat % len(lines) :] + lines[: -repeat % len(lines)] if lines else []
    return passages.repeated(pair.tokenizer, "".join(turned), length)


def _hard(pair: Pair, settings: Settings, length: int, repeat: int) -> list[int]:
    if settings.hard_text is None:
        seed = settings.seed + repeat
        return passages.held_out(pair.tokenizer, "shuffled", 1, length, seed)[0]
    return passages.part(pair.tokenizer, settings.hard_text, length, repeat, settings.repeats)


@contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
    else:
        with tempfile.TemporaryDirectory(prefix="specdiag-probe-") as made:
            yield Path(made)


def followed(prompt: Sequence[int], tokens: Sequence[int]) -> float:
    """Which share of new tokens repeats what stands one period before; 1 where there is none.

    A period is the least distance at which the prompt's last tokens stand a second time.
    """
    size = min(len(prompt) // 3, PERIOD)
    last = list(prompt[len(prompt) - size :])
    for period in range(1, len(prompt) - size + 1):
        at = len(prompt) - size - period
        if size and list(prompt[at : at + size]) == last:
            text = [*prompt, *tokens]
            new = range(len(prompt), len(text))
            return sum(text[place] == text[place - period] for place in new) / len(new)
    return 1.0


def _cells(kind: str, trace: Path, kept: Mapping[str, float]) -> Iterator[Cell]:
    """The cells of one kind, from its trace: a mean commit length and median times of each text."""
    texts: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for record in steps_of(trace):
        length, repeat = map(int, record["request"].split("-"))
        texts.setdefault((length, repeat), []).append(
            {"commit": record["commit_len"]}
            | {
                stage: sum(record.get(column) or 0.0 for column in columns)
                for stage, columns in STAGES.items()
            }
        )
    for length in sorted({length for length, _ in texts}):
        mine = [steps for (each, _), steps in sorted(texts.items()) if each == length]
        yield Cell(
            kind, length, sum(map(len, mine)),
            [statistics.fmean(step["commit"] for step in steps) for steps in mine],
            {
                stage: [statistics.median(step[stage] for step in steps) for steps in mine]
                for stage in STAGES
            },
            [kept[f"{length}-{repeat}"] for each, repeat in sorted(texts) if each == length]
            if kind == "predictable" else (),
        )  # fmt: skip


def work(of: Architecture, weights: int, lengths: Sequence[int]) -> dict[int, float]:
    """Multiplications of one row at each context length: its weights, and its attention.

    Reading keys and values instead of weights grows more slowly, since heads share them.
    """
    found = {}
    for length in lengths:
        seen = [length for each in of.layer_types if each == FULL]
        seen += [min(length, of.sliding_window or length) for e in of.layer_types if e == SLIDING]
        found[length] = weights + 2.0 * of.num_attention_heads * of.head_dim * sum(seen)
    return found


def _weights(model: Any) -> int:
    """Weights that a row passes: all but an embedding that is no head."""
    total: int = sum(one.numel() for name, one in model.named_parameters() if "embed" not in name)
    of: Architecture = model.architecture
    # The head is the target's own, or the one that the drafter borrows.
    has_head = any("lm_head" in name for name, _ in model.named_parameters())
    return total + (0 if has_head else of.vocab_size * of.hidden_size)


def _result(
    pair: Pair, settings: Settings, lengths: Sequence[int], cells: Sequence[Cell],
    conclusions: Sequence[Any],
) -> dict[str, Any]:  # fmt: skip
    hidden = {"text": bool(settings.text), "hard_text": bool(settings.hard_text)}
    return {
        "schema": 1,
        "specdiag": __version__,
        "pair": named(pair),
        "environment": environment(pair),
        "settings": asdict(settings) | hidden | {"lengths": list(lengths)},
        "cells": [asdict(cell) for cell in cells],
        "conclusions": [asdict(one) for one in conclusions],
    }
