"""The bundled pairs made from scratch: tokenizer, target, its continuations, drafter, and a table.

Each pair is trained in a process of its own on one thread: two small models side by side are
faster than two threads at each, and a busy machine slows them down without stopping them.
"""

from __future__ import annotations

import json
import multiprocessing
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specdiag.ddtree import corpus, pair, training
from specdiag.ddtree.checkpoint import save_drafter, save_target
from specdiag.ddtree.decode import Options, Request, decode
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.model import Target
from specdiag.ddtree.pair import Pair
from specdiag.ddtree.recipes import BLOCK, RECIPES, VOCAB, Recipe
from specdiag.ddtree.tokenizer import MASK, Tokenizer
from specdiag.ddtree.verify import Sampling
from specdiag.errors import SpecdiagError
from specdiag.report import files

RECORD, TABLE = "training.json", "README.md"
STAGES = ("target", "continuations", "drafter", "measuring")
# What the finished pair is measured on: kind of text, temperature, and tokens of the prompt.
MEASURED = (
    ("code", 0.0, 96), ("code", 0.0, 512), ("code", 1.0, 96), ("repeated", 0.0, 96),
    ("repeated", 0.0, 512), ("shuffled", 0.0, 96), ("shuffled", 1.0, 96),
)  # fmt: skip


@dataclass(frozen=True)
class Progress:
    """How far a stage is. `loss` is that of its last step, if it has one."""

    pair: str
    stage: str
    done: int
    total: int
    loss: float | None = None


@dataclass(frozen=True)
class Failure:
    """Why a pair could not be made."""

    pair: str
    text: str


def train(
    names: Sequence[str], out: Path, seed: int, quick: bool, on_progress: Callable[[Progress], None]
) -> dict[str, dict[str, Any]]:
    """Make pairs below `out`, and return the record of each: losses, seconds, what it is worth.

    Raises SpecdiagError when a pair cannot be made; pairs that were finished stay.
    """
    if not hasattr(torch.optim, "Muon"):
        raise SpecdiagError(
            f"torch {torch.__version__} has no Muon", help="pip install 'torch>=2.9' to train"
        )
    context = multiprocessing.get_context("spawn")
    events: multiprocessing.Queue[Progress | Failure] = context.Queue()
    workers = {
        name: context.Process(target=_work, args=(name, out, seed, quick, events), daemon=True)
        for name in names
    }
    for worker in workers.values():
        worker.start()
    try:
        for event in _events(events, workers):
            if isinstance(event, Failure):
                raise SpecdiagError(event.text, f"pair {event.pair}")
            on_progress(event)
    finally:
        for worker in workers.values():
            worker.terminate()
    records = {name: json.loads((out / name / RECORD).read_text("utf-8")) for name in names}
    files.write(out / TABLE, readme(records))
    return records


def _events(events: Any, workers: Mapping[str, Any]) -> Iterator[Progress | Failure]:
    """What the workers say, until all have ended well; a Failure if one ended otherwise."""
    while True:
        try:
            yield events.get(timeout=0.5)
        except queue.Empty:
            for name, worker in workers.items():
                if worker.exitcode not in (None, 0):
                    yield Failure(name, f"the training ended with exit status {worker.exitcode}")
            if all(worker.exitcode == 0 for worker in workers.values()):
                return


def _work(name: str, out: Path, seed: int, quick: bool, events: Any) -> None:
    torch.set_num_threads(1)
    recipe = RECIPES[name].quick() if quick else RECIPES[name]
    try:
        make(name, recipe, out / name, seed, events.put)
    except SpecdiagError as error:
        events.put(Failure(name, error.what))
    except KeyboardInterrupt:
        pass


def make(
    name: str, recipe: Recipe, folder: Path, seed: int, tell: Callable[[Progress], None]
) -> None:
    """Make one pair; its folder appears when both models are trained, its record last."""
    torch.manual_seed(seed)
    clock = Clock(name, recipe, tell)
    tokenizer = Tokenizer.train(corpus.modules(held_out=False), VOCAB)
    assert tokenizer.id(MASK) == recipe.draft_architecture().mask_token_id
    target = Target.random(recipe.architecture())
    training.train_target(target, tokenizer, recipe.target, seed, clock.loss("target"))
    finish(target, tokenizer, recipe, folder, seed, clock)


def finish(
    target: Target, tokenizer: Tokenizer, recipe: Recipe, folder: Path, seed: int, clock: Clock
) -> None:
    """Make the drafter of a trained target, write both, and measure them."""
    texts = [
        training.continuations(
            target, tokenizer, pool.texts, pool.prompt, seed + pool.prompt, clock.count,
            recipe.continuation,
        )
        for pool in recipe.pools
    ]  # fmt: skip
    drafter = Drafter.random(recipe.draft_architecture())
    # It borrows the target's head, so its last norm begins as the one that the head is used to.
    drafter.norm.load_state_dict(target.norm.state_dict())
    training.train_drafter(
        drafter, target, texts, recipe.drafter, seed, clock.loss("drafter"),
        [pool.share for pool in recipe.pools],
    )  # fmt: skip
    save_target(target, folder / "target", torch.bfloat16)
    tokenizer.save(folder / "target")
    save_drafter(drafter, folder / "drafter", torch.bfloat16)
    made = pair.load(folder / "target", folder / "drafter", dtype=torch.float32, name=clock.name)
    rows = []
    for at, (kind, temperature, prompt) in enumerate(MEASURED):
        rows.append(measure(made, kind, temperature, prompt, recipe))
        clock.tell(Progress(clock.name, "measuring", at + 1, len(MEASURED)))
    record = {
        "pair": clock.name, "seed": seed, "torch": torch.__version__,
        "minutes": round((time.monotonic() - clock.began) / 60, 1), "losses": clock.losses,
        "parameters": {"target": _size(target), "drafter": _size(drafter)}, "measured": rows,
    }  # fmt: skip
    files.write(folder / RECORD, json.dumps(record) + "\n")


class Clock:
    """Turns steps into progress, and keeps the losses."""

    def __init__(self, name: str, recipe: Recipe, tell: Callable[[Progress], None]) -> None:
        self.name, self.tell = name, tell
        self.began = time.monotonic()
        self.totals = {"target": recipe.target.steps, "drafter": recipe.drafter.steps}
        self.texts = sum(pool.texts for pool in recipe.pools)
        self.made = 0
        self.losses: dict[str, list[float]] = {"target": [], "drafter": []}

    def loss(self, stage: str) -> Callable[[float], None]:
        """Hears the loss of each step of a stage."""

        def hear(loss: float) -> None:
            self.losses[stage].append(round(loss, 4))
            done = len(self.losses[stage])
            self.tell(Progress(self.name, stage, done, self.totals[stage], loss))

        return hear

    def count(self, more: int) -> None:
        """Hears how many more continuations there are."""
        self.made += more
        self.tell(Progress(self.name, "continuations", self.made, self.texts))


def measure(
    made: Pair, kind: str, temperature: float, prompt: int, recipe: Recipe
) -> dict[str, Any]:
    """Tokens a step of the chain and of the tree of 32 nodes behind `prompt` held-out tokens."""
    count = recipe.measured
    requests = [
        Request(str(at), made.tokenizer.encode(text)[:prompt], recipe.measured_tokens,
                sampling=Sampling(temperature=temperature, seed=at))
        for at, text in enumerate(corpus.passages(kind, count, 8 * prompt))
    ]  # fmt: skip
    row: dict[str, Any] = {
        "text": kind, "temperature": temperature, "tokens": prompt, "prompts": count
    }  # fmt: skip
    for arm, options in (("chain", Options(mode="linear")), ("tree", Options(budget=32))):
        tokens, steps = 0, 0
        for first in range(0, count, 8):
            part = requests[first : first + 8]
            for result in decode(made.target, made.drafter, part, options):
                tokens += len(result.tokens) - 1
                steps += result.steps
        row[arm] = round(tokens / steps, 3)
    return row


def _size(model: torch.nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def readme(records: Mapping[str, Mapping[str, Any]]) -> str:
    """What the pairs are, and what they are worth, as Markdown."""
    lines = [
        "# The bundled pairs", "",
        "Tiny targets and their DFlash drafters, trained from scratch on the sources of Python's",
        "standard library by `specdiag ddtree train`. The layout is that of Hugging Face; weights",
        "are bfloat16. `training.json` holds every loss.", "",
        "Tokens a step, the bonus included, on held-out text: the linear chain of block "
        f"{BLOCK}, and",
        "the tree of 32 nodes.", "",
        table(records), "",
        "| pair | parameters of target and drafter | trained in |", "|---|---|---|",
    ]  # fmt: skip
    for name, record in records.items():
        sizes = record["parameters"]
        lines.append(
            f"| {name} | {sizes['target'] / 1e6:.2f} and {sizes['drafter'] / 1e6:.2f} million "
            f"| {record['minutes']:.0f} minutes on one thread |"
        )
    return "\n".join(lines) + "\n"


def table(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Tokens a step of each pair on each kind of text, as a table of Markdown."""
    lines = [
        "| pair | text | temperature | prompts | tokens of each | chain | tree of 32 "
        "| tree / chain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        lines += [
            f"| {name} | {row['text']} | {row['temperature']:g} | {row['prompts']} "
            f"| {row['tokens']} "
            f"| {row['chain']:.2f} | {row['tree']:.2f} | {row['tree'] / row['chain']:.2f} |"
            for row in record["measured"]
        ]
    return "\n".join(lines)


def curve(losses: Sequence[float], width: int = 60) -> str:
    """A loss curve as one line: first value, blocks, last value."""
    if not losses:
        return ""
    size = max(len(losses) / width, 1.0)
    starts = [int(at * size) for at in range(min(width, len(losses)))]
    means = [
        sum(part) / len(part)
        for part in (losses[at : max(int(at + size), at + 1)] for at in starts)
    ]
    low, high = min(means), max(means)
    blocks = "▁▂▃▄▅▆▇█"
    marks = [blocks[round(7 * (mean - low) / (high - low or 1))] for mean in means]
    return f"{means[0]:.2f} {''.join(marks)} {means[-1]:.2f}"
