"""Write a server log of any size, with what it holds.

    python -m benchmarks.make_log build/server.log --size 100MB

Of a hundred records 80 are decode lines, 10 prefill lines, 8 access lines (a tenth of them in
colour), one is a line of DDTREE counters and one is something else: warnings, Unicode, progress
bars, tracebacks, torn lines. One simulated server drives the numbers: context and acceptance walk
slowly, a step takes as long as its context asks for, throughput is running x C / step. Every start
of the server is another version of it, with another way to write a decode line.

The same arguments give the same bytes. `Truth` counts while it writes what a reader must find.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

LIFE = 5_000  # records between two starts, a megabyte
STEPS = 40  # decode steps between two decode lines
MIX = ("decode",) * 80 + ("prefill",) * 10 + ("access",) * 8 + ("counters", "rest")
POOL = 1_000_000  # tokens in the KV cache
DAY = 86_400

CLOCK = [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in range(DAY)]
PERCENT = [f"{n // 100}.{n % 100:02}" for n in range(1_000)]  # 0.00 to 9.99
REQUESTS = (
    ("POST /generate HTTP/1.1", "200 OK"), ("POST /v1/chat/completions HTTP/1.1", "200 OK"),
    ("GET /metrics HTTP/1.1", "200 OK"), ("GET /health HTTP/1.1", "200 OK"),
    ("POST /generate HTTP/1.1", "400 Bad Request"),
)  # fmt: skip
PLAIN = tuple(f'INFO:     {{}} - "{asked}" {said}' for asked, said in REQUESTS)
COLOURED = tuple(
    f'\x1b[32mINFO\x1b[0m:     {{}} - "\x1b[1m{asked}\x1b[0m" \x1b[32m{said}\x1b[0m'
    for asked, said in REQUESTS
)
ARGUMENTS = (
    "server_args=ServerArgs(model_path='example/target-8b', tokenizer_path='example/target-8b', "
    "trust_remote_code=False, mem_fraction_static=0.82, chunked_prefill_size=8192, page_size=1, "
    "tp_size=1, attention_backend='fa3', decode_log_interval=40, disable_cuda_graph=False, "
    "speculative_algorithm='DDTREE', speculative_draft_model_path='example/draft-8b', "
    "speculative_eagle_topk=4, speculative_num_draft_tokens=33)"
)
BAR = "".join(
    f"\rCapturing batches (bs={48 - 2 * done} avail_mem=9.{90 - done} GB): {100 * done // 23:3}%|"
    f"{'█' * (done * 10 // 23):<10}| {done}/23 [00:{done:02}<00:{23 - done:02},  1.02it/s]"
    for done in range(24)
)
WARNING = (
    "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds."
)
PROMPT = "Received prompt: 'Grüße, 世界! Разбор журнала – naïve café 🚀'"
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/app/sglang/srt/entrypoints/http_server.py", line 412, in generate_request',
    "    ret = await tokenizer_manager.generate_request(obj, request).__anext__()",
    '  File "/app/sglang/srt/managers/tokenizer_manager.py", line 388, in _validate_one_request',
    '    raise ValueError("The input is longer than the context of the model.")',
    "ValueError: The input is longer than the context of the model.",
)


@dataclass
class Truth:
    """Counts and exact sums of what was written; throughput in hundredths of a token a second."""

    lines: int = 0
    bytes: int = 0
    starts: int = 0
    decode: int = 0  # complete decode lines
    running: int = 0
    tokens: int = 0
    speed: int = 0
    queued: int = 0
    torn: int = 0  # decode lines that another writer broke off
    prefill: int = 0
    new_tokens: int = 0
    counters: int = 0
    context: int = 0  # ctx_len of the counters


class Server:
    """One simulated server: hands out what it prints, block by block, and keeps the truth."""

    def __init__(self, seed: int, rank: int = 0) -> None:
        self.draw = random.Random(seed)
        self.truth = Truth()
        self.rank = f" TP{rank}"
        self.second = 11.0 * 3600  # since 2026-05-20
        self.context, self.running, self.accept = 2000.0, 8, 350.0  # accept: C in hundredths
        self.day, self.date = 0, "2026-05-20"
        self.dialect = -1
        self.others = itertools.cycle(
            (self._warning, self._prompt, self._torn, self._bar, self._warning, self._traceback)
        )

    def start(self) -> list[str]:
        """The server comes up, a version later."""
        self.dialect = (self.dialect + 1) % 3
        self.second += 60
        self.context, self.running, self.accept = 2000.0, 8, 350.0
        self.truth.starts += 1
        return [f"[{self._now()}] {ARGUMENTS}"]

    def block(self, records: int) -> list[str]:
        """That many records, most of them one line."""
        order: list[str] = []
        while len(order) < records:
            part = list(MIX)
            self.draw.shuffle(part)
            order += part
        out: list[str] = []
        write: dict[str, Callable[[], list[str]]] = {
            "prefill": self._prefill, "access": self._access, "counters": self._counters,
            "rest": self._rest,
        }  # fmt: skip
        for kind in order[:records]:
            if kind == "decode":
                out.append(self._decode())
            else:
                out += write[kind]()
        return out

    def _now(self) -> str:
        day, second = divmod(int(self.second), DAY)
        if day != self.day:
            self.day, self.date = day, str(date(2026, 5, 20) + timedelta(day))
        return f"{self.date} {CLOCK[second]}"

    def _step_ms(self) -> float:
        return 8 + self.context * 0.0015

    def _decode(self) -> str:
        draw, truth = self.draw.random, self.truth
        self.context = context = min(20_000.0, max(500.0, self.context + 400 * (draw() - 0.5)))
        self.accept = accept = min(500.0, max(200.0, self.accept + 16 * (draw() - 0.5)))
        if draw() < 0.02:
            self.running = 1 + int(47 * draw())
        running = self.running
        step = 8 + context * 0.0015
        self.second += STEPS * step / 1000
        tokens = int(context) * running
        mean = int(accept)
        speed = int(running * mean * 1000 / step)
        queued = int(3 * draw()) if running > 40 else 0
        truth.decode += 1
        truth.running += running
        truth.tokens += tokens
        truth.speed += speed
        truth.queued += queued
        head = f"[{self._now()}{self.rank}] Decode batch"
        usage = PERCENT[tokens * 100 // POOL]
        if self.dialect == 0:
            return (
                f"{head}. #running-req: {running}, #token: {tokens}, token usage: {usage}, "
                f"accept len: {PERCENT[mean]}, gen throughput (token/s): {speed / 100:.2f}, "
                f"largest-len: {int(context) + 900}, #queue-req: {queued}, "
            )
        dot, end = (".", ", ") if self.dialect == 1 else (",", "")
        return (
            f"{head}{dot} #running-req: {running}, #token: {tokens}, token usage: {usage}, "
            f"accept len: {PERCENT[mean]}, accept rate: {PERCENT[(mean - 100) // 32]}, "
            f"cuda graph: True, gen throughput (token/s): {speed / 100:.2f}, #queue-req: {queued}"
            f"{end}"
        )

    def _prefill(self) -> list[str]:
        new = 64 + int(8128 * self.draw.random())
        took = 0.02 + new / 24_000
        self.second += took
        self.truth.prefill += 1
        self.truth.new_tokens += new
        usage = PERCENT[int(self.context) * self.running * 100 // POOL]
        return [
            f"[{self._now()}{self.rank}] Prefill batch{',' if self.dialect == 2 else '.'} "
            f"#new-seq: 1, #new-token: {new}, #cached-token: 0, token usage: {usage}, "
            f"#running-req: {self.running}, #queue-req: 0"
            + (f", input throughput (token/s): {new / took:.2f}" if self.dialect == 2 else ", ")
        ]

    def _access(self) -> list[str]:
        client = f"127.0.0.1:{32_768 + int(9_999 * self.draw.random())}"
        pick = int(50 * self.draw.random())
        shapes = COLOURED if pick < len(COLOURED) else PLAIN
        return [f"[{self._now()}] {shapes[pick % len(shapes)].format(client)}"]

    def _counters(self) -> list[str]:
        mean, step, context = int(self.accept), self._step_ms(), int(self.context)
        self.truth.counters += 1
        self.truth.context += context
        return [
            f"[{self._now()}{self.rank}] DDTREE metrics: avg_accepted_depth={PERCENT[mean - 100]} "
            f"avg_accepted_drafts={PERCENT[mean - 100]} avg_commit_len={PERCENT[mean]} "
            f"avg_tree_size=32.00 budget=32 ctx_len={context} draft_ms=2.80 build_ms=0.40 "
            f"verify_ms={step - 3.5:.2f} commit_ms=0.30 step_ms={step:.2f}"
        ]

    def _rest(self) -> list[str]:
        return next(self.others)()

    def _warning(self) -> list[str]:
        return [f"[{self._now()}{self.rank}] {WARNING}"]

    def _prompt(self) -> list[str]:
        return [f"[{self._now()}] {PROMPT}"]

    def _torn(self) -> list[str]:
        self.truth.torn += 1
        now = f"[{self._now()}{self.rank}]"
        return [f"{now} Decode batch, #running-req: {self.running}, #tok{now} Prefill batch, #new"]

    def _bar(self) -> list[str]:
        return [BAR]

    def _traceback(self) -> list[str]:
        return [f"[{self._now()}] ERROR:    Exception in ASGI application", *TRACEBACK]


def blocks(seed: int, life: int | None = LIFE, rank: int = 0) -> Iterator[tuple[list[str], Truth]]:
    """What a server prints without end, 5,000 records or a life at a time, and the truth so far."""
    server = Server(seed, rank)
    first = server.start()
    while True:
        yield first + server.block(life or LIFE), server.truth
        first = server.start() if life else []


def lines(seed: int) -> Iterator[str]:
    """The lines of a server that starts once."""
    for block, _ in blocks(seed, life=None):
        yield from block


def write(path: Path, size: int, seed: int = 7, life: int | None = LIFE, rank: int = 0) -> Truth:
    """A log of about that many bytes, to the end of a block; `life` None: it starts once."""
    truth = Truth()
    with path.open("wb") as out:
        for block, truth in blocks(seed, life, rank):
            truth.lines += len(block)
            truth.bytes += out.write(("\n".join(block) + "\n").encode())
            if truth.bytes >= size:
                break
    return truth


def parsed_size(text: str) -> int:
    """Bytes of `1GB`, `40MB`; units are powers of ten."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if text.upper().endswith(unit):
            return int(float(text[:-2]) * factor)
    return int(text)


def command(description: str, write: Callable[[Path, int, int], Any]) -> None:
    """Write what the command line asks for, and print its truth."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--size", type=parsed_size, default="100MB")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    print(json.dumps(asdict(write(given.path, given.size, given.seed))))


if __name__ == "__main__":
    command(__doc__, write)
