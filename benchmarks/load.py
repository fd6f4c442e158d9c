"""Time reading a step trace into specdiag's tables beside DuckDB's own `read_json`.

    python benchmarks/load.py            # on a 100 MB trace that it makes
    python benchmarks/load.py FILE ...   # on your own

Both load the same file in the same process, in turns, so that a busy machine disturbs both alike.
What counts are the ratios: of the processor's time, and of the clock on a quiet machine. specdiag
also looks for lines that are broken and for keys that nobody reads, numbers the lines, and fills
its tables; `read_json` guesses the types and keeps what it reads.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from specdiag import bundled, parser, source, store

ROUNDS = 5
NODES = (4, 32)
VOCABULARY = 130_000


def write(path: Path, megabytes: int) -> None:
    """Flat records of drafted trees, four lists each, as people print them from a server."""
    draw = random.Random(7)
    path.parent.mkdir(parents=True, exist_ok=True)
    size = step = 0
    with open(path, "w") as out:
        while size < megabytes * 1_000_000:
            size += out.write(json.dumps(record(draw, step)) + "\n")
            step += 1


def record(draw: random.Random, step: int) -> dict[str, object]:
    nodes = draw.randint(*NODES) if draw.random() < 0.2 else NODES[1]
    parents = [-1, *(draw.randrange(row) for row in range(1, nodes + 1))]
    path = [0]
    while (later := [row for row, parent in enumerate(parents) if parent == path[-1]]) and (
        draw.random() < 0.75
    ):
        path.append(later[0])
    verify = 14 + 4 * draw.random()
    return {
        "run_id": "b32", "step": step // 8, "req": step % 8, "ctx_len": 1000 + 4 * (step // 8),
        "tree_size": nodes, "budget": NODES[1], "accepted_drafts": len(path) - 1,
        "commit_len": len(path), "draft_ms": 2.8, "build_ms": 0.4, "verify_ms": round(verify, 2),
        "commit_ms": 0.3, "step_ms": round(verify + 3.6, 2),
        "node_tokens": [draw.randrange(VOCABULARY) for _ in parents], "parents": parents,
        "target_predict": [draw.randrange(VOCABULARY) for _ in parents], "accepted_path": path,
    }  # fmt: skip


def spend(work: Callable[[], object]) -> tuple[float, float]:
    """(wall seconds, CPU seconds)."""
    wall, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - used


def measure(path: Path, parsers: list[parser.Parser]) -> None:
    def load() -> None:
        store.load(source.find([str(path)]), parsers).db.close()

    def read_json() -> None:
        with duckdb.connect() as db:
            db.execute("CREATE TABLE trace AS FROM read_json($1)", [str(path)])

    rounds = [(spend(load), spend(read_json)) for _ in range(ROUNDS)]
    print(f"\n{path.name}: {path.stat().st_size / 1e6:.0f} MB, best of {ROUNDS}\n")
    print("| | wall s | CPU s |\n|---|---|---|")
    for at, name in enumerate(("specdiag, file to tables", "DuckDB read_json")):
        wall, used = (min(one[at][kind] for one in rounds) for kind in (0, 1))
        print(f"| {name} | {wall:.3f} | {used:.2f} |")
    wall, used = (
        statistics.median(ours[kind] / theirs[kind] for ours, theirs in rounds) for kind in (0, 1)
    )
    print(f"\nMedian ratio: {wall:.2f} by the clock, {used:.2f} by the processor's time")


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[1:]]
    if not given:
        given = [Path("build/steps.jsonl")]
        write(given[0], 100)
    known = [parser.load(one) for one in bundled.definitions(bundled.PARSERS, [], suffix=".toml")]
    for one in given:
        measure(one, known)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak memory of this process: {peak:.0f} MB")
