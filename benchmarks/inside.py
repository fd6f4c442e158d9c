"""specdiag from inside, in a process of its own: its tables alone, or the times of its parts.

    python -m benchmarks.inside tables FILE...
    python -m benchmarks.inside parts FILE...

`tables` reads files into the tables that rules see and prints counts and sums of them; `parts`
analyses files. Both print as JSON what reading and replay took, `parts` also each rule and the
whole.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from specdiag import diagnosis, reading, replay, rule, source, staging, store

Times = dict[str, list[float]]  # name -> wall and CPU seconds

LOG = """SELECT count(*) AS decode, sum(running)::BIGINT AS running,
    sum(tokens)::BIGINT AS tokens, sum(tokens_per_s) AS speed, sum(queued)::BIGINT AS queued,
    (SELECT count(*) FROM decode WHERE NOT complete) AS torn,
    (SELECT count(*) FROM prefill WHERE complete) AS prefill,
    (SELECT sum(new_tokens)::BIGINT FROM prefill WHERE complete) AS new_tokens,
    (SELECT count(*) FROM acceptance) AS counters,
    (SELECT sum(ctx_len)::BIGINT FROM acceptance) AS context,
    (SELECT sum(lines)::BIGINT FROM source) AS lines
    FROM decode WHERE complete"""
TRACE = """SELECT count(*) AS steps, sum(ctx_len)::BIGINT AS context,
    sum(accepted_drafts)::BIGINT AS drafts, sum(verify_ms) AS verify,
    sum(len(parents))::BIGINT AS nodes, sum(list_sum(node_tokens))::BIGINT AS tokens,
    (SELECT count(*) FROM replay) AS violations FROM step"""


def add(times: Times, name: str, start: tuple[float, float]) -> None:
    spent = times.setdefault(name, [0.0, 0.0])
    spent[0] += time.perf_counter() - start[0]
    spent[1] += time.process_time() - start[1]


@contextmanager
def timed(times: Times, module: Any, function: str, name: Callable[..., str]) -> Iterator[None]:
    """While this lasts, every call of the module's (or class's) function is timed."""
    original = getattr(module, function)

    @functools.wraps(original)
    def wrapped(*args: Any, **options: Any) -> Any:
        start = time.perf_counter(), time.process_time()
        try:
            return original(*args, **options)
        finally:
            add(times, name(*args, **options), start)

    setattr(module, function, wrapped)
    try:
        yield
    finally:
        setattr(module, function, original)


def tables(names: list[str], times: Times) -> dict[str, Any]:
    parsers, _, _ = diagnosis.definitions([], [])
    files = source.find(names)
    filled = store.load(files, parsers)
    traced = any(one.format == "flat_steps" for one in filled.readings)
    (row,) = filled.rows(TRACE if traced else LOG)
    return row


def parts(names: list[str], times: Times) -> dict[str, Any]:
    parsers, rules, _ = diagnosis.definitions([], [])
    start = time.perf_counter(), time.process_time()
    with timed(times, rule, "apply", lambda one, *_: f"rule {one.name}"):
        diagnosis.analyze(source.find(names), parsers, rules, {})
    add(times, "whole", start)
    return {}


def main(what: str, names: list[str]) -> None:
    times: Times = {}
    with (
        timed(times, reading, "read", lambda *_: "read"),
        timed(times, staging.Staging, "finish", lambda *_: "read"),
        timed(times, replay, "prove", lambda *_: "replay"),
    ):
        found = {"tables": tables, "parts": parts}[what](names, times)
    print(json.dumps(found | {"times": times}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
