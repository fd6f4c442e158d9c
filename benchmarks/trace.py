"""What a step trace costs: the same prompts decoded with and without it.

    python benchmarks/trace.py [--target FOLDER --drafter FOLDER] [--rounds N] [--name steps.jsonl]

Greedy, batch 1, one thread. Every round decodes every prompt three times, in changing order:
without records, with records that nobody writes, and with a trace on disk. Each time is taken
from the first token on, so prefill is left out. Ratios are medians over pairs of neighbours, since
both see the same load of the machine; the microseconds are medians a step. The processor's time is
that of all threads, so it holds whatever the writer does beside the loop, and it says more than
the clock on a machine that is busy with other things. Encoding and writing are also timed alone,
one record after the other.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from specdiag.ddtree import corpus, pair, trace, writer
from specdiag.ddtree.decode import Options, Request, decode
from specdiag.ddtree.writer import TraceWriter

BUDGETS, PROMPTS, TOKENS, CHARACTERS = (8, 16, 32, 64), 3, 64, 600
GOAL = 1.03
ARMS = ("none", "record", "trace")


Times = tuple[float, float, int]  # wall and processor seconds after prefill, steps


def timed(found: pair.Pair, request: Request, options: Options, on_step) -> Times:
    heard: list[tuple[float, float]] = []
    (result,) = decode(
        found.target, found.drafter, [request], options,
        on_tokens=lambda *_: heard or heard.append((time.perf_counter(), time.process_time())),
        on_step=on_step,
    )  # fmt: skip
    wall, used = heard[0]
    return time.perf_counter() - wall, time.process_time() - used, result.steps


def once(found: pair.Pair, request: Request, options: Options, arm: str, path: Path) -> Times:
    if arm == "none":
        return timed(found, request, options, None)
    if arm == "record":
        return timed(found, request, options, lambda record: None)
    with TraceWriter(path) as writer:
        return timed(found, request, options, writer.write)


def alone(found: pair.Pair, requests: list[Request], options: Options, path: Path) -> list[float]:
    """Microseconds a record for encoding, and for what remains of writing it; bytes a record."""
    records: list[trace.StepRecord] = []
    for request in requests:
        decode(found.target, found.drafter, [request], options, on_step=records.append)
    encoded, written = [], []
    for _ in range(7):
        start = time.perf_counter()
        lines = [writer.encode(record) for record in records]
        encoded.append(time.perf_counter() - start)
        start = time.perf_counter()
        with open(path, "wb") as out:
            for line in lines:
                out.write(line + b"\n")
        written.append(time.perf_counter() - start)
    size = sum(map(len, lines)) / len(lines)
    return [1e6 * min(times) / len(records) for times in (encoded, written)] + [size]


def ratio(times: dict[str, list[float]], arm: str) -> float:
    """To the same step without records, median over pairs."""
    pairs = zip(times[arm], times["none"], strict=True)
    return statistics.median(with_it / without for with_it, without in pairs)


def measure(found: pair.Pair, budget: int, rounds: int, path: Path, detail: frozenset[str]) -> str:
    options = Options(budget=budget, detail=detail)
    texts = corpus.passages("code", PROMPTS, CHARACTERS, seed=5)
    requests = [
        Request(f"r{at}", found.tokenizer.encode(text), TOKENS) for at, text in enumerate(texts)
    ]
    walls: dict[str, list[float]] = {arm: [] for arm in ARMS}
    used: dict[str, list[float]] = {arm: [] for arm in ARMS}
    orders = itertools.cycle(itertools.permutations(ARMS))
    for request in requests:
        once(found, request, options, "none", path)
    for _, request in itertools.product(range(rounds), requests):
        for arm in next(orders):
            wall, processor, steps = once(found, request, options, arm, path)
            walls[arm].append(1e6 * wall / steps)
            used[arm].append(1e6 * processor / steps)
    plain = statistics.median(used["none"])
    built, whole = (plain * (ratio(used, arm) - 1) for arm in ("record", "trace"))
    encode_us, write_us, size = alone(found, requests, options, path)
    return (
        f"| {budget} | {statistics.median(walls['none']):,.0f} | {ratio(walls, 'trace'):.3f} "
        f"| {plain:,.0f} | {ratio(used, 'trace'):.3f} | {whole:.0f} | {built:.0f} "
        f"| {encode_us:.0f} | {write_us:.0f} | {size:,.0f} |"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--target", type=Path)
    options.add_argument("--drafter", type=Path)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    options.add_argument("--name", default="steps.jsonl", help="file name; its ending is the kind")
    options.add_argument("--detail", default="", help="optional parts, with commas between")
    given = options.parse_args()
    torch.set_num_threads(1)
    found = pair.load(given.target, given.drafter) if given.target else pair.bundled()
    detail = frozenset(filter(None, given.detail.split(",")))
    print(f"a step without and with a trace ({given.name}), microseconds; goal {GOAL}")
    print("| budget | step | ratio | step, processor | ratio | trace | of it record", end=" ")
    print("| encoding | writing | bytes |\n|" + "---|" * 10)
    with tempfile.TemporaryDirectory() as folder:
        for budget in given.budgets:
            row = measure(found, budget, given.rounds, Path(folder) / given.name, detail)
            print(row, flush=True)
    print(f"\ntorch {torch.__version__}, Python {sys.version.split()[0]}, one thread")


if __name__ == "__main__":
    main()
