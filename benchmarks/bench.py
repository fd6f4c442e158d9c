"""Measure specdiag beside the tools that people have, and say which bounds hold.

    make bench                     # 1 GB, five rounds, memory and growth up to 1 GB
    make bench SIZE=1GB ROUNDS=7 LARGEST=5GB
    make bench-quick               # 10 MB, two rounds: for CI

Inputs are made once, in build/bench. Prints the tables, keeps them in build/bench/results.md and
.json, and writes README.md and growth.svg where the input has 1 GB or more. Exits with 1 when a
bound does not hold or an answer is wrong. Bounds are in bounds.py, what is run in sections.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

from benchmarks import growth, inputs, sections, tables
from benchmarks.bounds import WHOLE, Verdict, judge
from benchmarks.make_log import parsed_size

README = inputs.HERE / "README.md"
PICTURE = inputs.HERE / "growth.svg"
QUICK_SIZE, QUICK_ROUNDS, STEPS = 10_000_000, 2, 10_000_000


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--size", type=parsed_size, help="of the log and the trace; 1GB")
    options.add_argument("--rounds", type=int, help="5")
    options.add_argument("--largest", type=parsed_size, help="for memory and growth; SIZE if less")
    options.add_argument("--quick", action="store_true", help="short, with margins for noise")
    given = options.parse_args(arguments)
    quick = given.quick
    size = given.size or (QUICK_SIZE if quick else WHOLE)
    rounds = given.rounds or (QUICK_ROUNDS if quick else 5)
    largest = max(size, given.largest or 0)
    os.chdir(inputs.HERE.parent)  # so that `-m specdiag` is the code beside this file
    inputs.FOLDER.mkdir(parents=True, exist_ok=True)

    results = sections.Results()
    steps = int(STEPS * min(1.0, size / WHOLE))
    parts: dict[str, Callable[[], None]] = {
        "logs": lambda: sections.logs(results, size, rounds, quick),
        "traces": lambda: sections.traces(results, size, rounds),
        "rules": lambda: sections.rules(results, steps, rounds),
        "memory": lambda: sections.memory(results, largest),
        "start-up": lambda: sections.start_up(results, 7 if quick else 15),
        "growth": lambda: growth.grow(results, largest, 1 if quick or size >= WHOLE else rounds),
    }
    if quick:
        del parts["memory"], parts["growth"]  # too short to be flat, and to tell an exponent
    for name, work in parts.items():
        start = time.perf_counter()
        print(f"{name} ...", file=sys.stderr, flush=True)
        work()
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)

    verdicts = judge(results.values, results.missing, largest, quick)
    text = tables.render(results, verdicts, size, rounds, largest)
    kept = asdict(results) | {
        "size": size, "rounds": rounds, "largest": largest, "quick": quick,
        "machine": sections.machine(),
        "verdicts": {one.bound.name: one.said for one in verdicts},
    }  # fmt: skip
    (inputs.FOLDER / "results.json").write_text(json.dumps(kept, indent=1) + "\n")
    (inputs.FOLDER / "results.md").write_text(text)
    print(text)
    if results.growth:
        drawn = growth.picture(results.growth, tables.exponents(results))
        (inputs.FOLDER / "growth.svg").write_text(drawn)
        if size >= WHOLE and not quick:
            PICTURE.write_text(drawn)
    if size >= WHOLE and not quick:
        README.write_text(tables.placed(README.read_text(encoding="utf-8"), text))
    return exit_code(results, verdicts)


def exit_code(results: sections.Results, verdicts: list[Verdict]) -> int:
    """1 where a bound does not hold, or an answer is not the truth."""
    return int(bool(results.wrong) or any(one.broken for one in verdicts))


if __name__ == "__main__":
    sys.exit(main())
