"""Write a server log of any size: decode, prefill, DDTREE, access and progress lines.

    python benchmarks/make_log.py build/server.log --size 100

The same arguments give the same bytes. `--size` is in MB (powers of ten).
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

ARGS = (
    "[{time}] server_args=ServerArgs(model_path='example/target-8b', tp_size=1, page_size=1, "
    "attention_backend='fa3', decode_log_interval=40, speculative_algorithm='DDTREE', "
    "speculative_eagle_topk=4, speculative_num_draft_tokens=33)"
)
DECODE = (
    "[{time} TP0] Decode batch, #running-req: {running}, #token: {tokens}, "
    "token usage: {usage:.2f}, "
    "accept len: {accept:.2f}, accept rate: {rate:.2f}, cuda graph: True, "
    "gen throughput (token/s): {speed:.2f}, #queue-req: {queued}"
)
PREFILL = (
    "[{time} TP0] Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: 0, "
    "token usage: {usage:.2f}, #running-req: {running}, #queue-req: {queued}, #pending-token: 0, "
    "cuda graph: False, input throughput (token/s): {speed:.2f}"
)
COUNTERS = (
    "[{time} TP0] DDTREE metrics: avg_accepted_depth={drafts:.2f} avg_accepted_drafts={drafts:.2f} "
    "avg_commit_len={accept:.2f} avg_tree_size=32.00 budget=32 ctx_len={ctx} step_ms={step:.2f}"
)
ACCESS = '[{time}] INFO:     127.0.0.1:{port} - "POST /generate HTTP/1.1" 200 OK'


def lines(seed: int) -> Iterator[str]:
    """Lines of a healthy server: step time is linear in the context, counters agree."""
    random.seed(seed)
    clock = datetime(2026, 5, 20, 10, 11, 12)
    yield ARGS.format(time=clock)
    ctx, running, accept = 2000.0, 8, 3.5
    for number in itertools.count():
        clock += timedelta(milliseconds=100)
        ctx = min(20_000.0, max(500.0, ctx + random.gauss(0, 120)))
        accept = min(5.0, max(2.0, accept + random.gauss(0, 0.05)))
        if number % 50 == 0:
            running = random.randint(1, 48)
        step = 8 + ctx * 0.0015
        facts = {
            "time": clock.strftime("%Y-%m-%d %H:%M:%S"), "running": running, "ctx": int(ctx),
            "tokens": int(ctx) * running, "usage": ctx * running / 1e6, "accept": accept,
            "rate": (accept - 1) / 32, "drafts": accept - 1, "step": step,
            "queued": number % 7 // 5,
            "speed": running * accept / step * 1000, "new": random.randint(64, 8192),
            "port": 32768 + number % 9999,
        }  # fmt: skip
        shape = (PREFILL if number % 10 == 1 else ACCESS if number % 12 == 2 else
                 COUNTERS if number % 100 == 3 else DECODE)  # fmt: skip
        yield shape.format(**facts)


def write(path: Path, megabytes: float, seed: int = 7) -> None:
    """A log of about that size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("w", encoding="utf-8") as out:
        for line in lines(seed):
            written += out.write(line + "\n")
            if written >= megabytes * 1e6:
                return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--size", type=float, default=100)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    write(given.path, given.size, given.seed)
