"""Whole processes, measured in turns; and what follows from the measurements.

A busy machine disturbs neighbours alike, so a ratio is the median over the ratios of each round.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Clock = str  # "wall" or "cpu"


@dataclass(frozen=True)
class Took:
    """What one process took, children included: seconds, MB of memory at the peak; its output."""

    wall: float
    cpu: float
    peak: float
    out: str = ""


class Failed(RuntimeError):
    """A process exited with a code that it must not exit with."""


def run(command: Sequence[str], codes: Iterable[int] = (0,), **environment: str) -> Took:
    """One process, from its start to its end. Raises Failed.

    A new process inherits the peak of the one that starts it, so this one must stay small.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryDirectory() as cache,  # nobody finds what an earlier run has kept
    ):
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
            env={**os.environ, "XDG_CACHE_HOME": cache, **environment},
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode not in codes:
            said = errors.read().decode("utf-8", "replace")[-2_000:]
            raise Failed(f"{' '.join(command)[:300]} exited with {process.returncode}: {said}")
        cpu = usage.ru_utime + usage.ru_stime
        return Took(wall, cpu, usage.ru_maxrss / 1024, out.read().decode("utf-8", "replace"))


def in_turns(
    commands: Mapping[str, Sequence[str]], rounds: int, codes: Iterable[int] = (0, 1),
    **environment: str,
) -> dict[str, list[Took]]:  # fmt: skip
    """Every command once a round, beginning with another one each time.

    `codes` are those that a command may exit with: `specdiag` exits with 1 for findings.
    """
    names = list(commands)
    took: dict[str, list[Took]] = {name: [] for name in names}
    for number in range(rounds):
        at = number % len(names) if names else 0
        for name in names[at:] + names[:at]:
            took[name].append(run(commands[name], codes, **environment))
    return took


def seconds(took: Sequence[Took], clock: Clock = "wall") -> list[float]:
    return [getattr(one, clock) for one in took]


def median(took: Sequence[Took], clock: Clock = "wall") -> float:
    return statistics.median(seconds(took, clock))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Of ours to theirs, median over the rounds."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


Point = tuple[float, Sequence[float]]  # size of an input, what it took in each round


def at_size(points: Sequence[Point], size: float) -> list[float]:
    """Seconds a round for an input of `size`: on the line through two points, or from one alone.

    One point is of an input that is long enough: its seconds are scaled. On the line, what a
    start-up costs counts as much as it does at that size; the result is not less than what the
    larger input took, however noisy the rounds are.
    """
    if len(points) == 1:
        return [one * size / points[0][0] for one in points[0][1]]
    (low, first), (high, second) = points
    return [
        max(b, b + (b - a) / (high - low) * (size - high))
        for a, b in zip(first, second, strict=True)
    ]
