"""Where the time of an analysis goes, and what it is doing now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LEAST = 0.01  # share of the whole below which a rule is not named
ROW = "{:<64} {:>8} {:>8} {:>6}"


@dataclass
class Part:
    """A piece of work: seconds on the clock, and of all threads together."""

    kind: str  # reading, derived table, replay, rule, report
    name: str
    wall: float = 0.0
    cpu: float = 0.0
    bytes: int = 0
    rows: int = 0

    def done(self, format: str, bytes: int, rows: int) -> None:
        """Say what was read."""
        self.name += f" ({format})" if format else ""
        self.bytes, self.rows = bytes, rows

    def __str__(self) -> str:
        text = f"{self.kind} {self.name}".rstrip()
        if self.bytes and self.wall:
            text += f": {self.bytes / 1e6:,.0f} MB, {self.rows / self.wall:,.0f} rows/s"
        return text


class Timings:
    """The parts of an analysis, in order. Off, it keeps nothing; `told` hears of each as it starts.

    The whole lasts from when this was made.
    """

    def __init__(self, on: bool = False, told: Callable[[str, str], None] | None = None) -> None:
        self.on = on
        self.told = told
        self.parts: list[Part] = []
        self.started = time.perf_counter(), time.process_time()

    @contextmanager
    def part(self, kind: str, name: str = "") -> Iterator[Part]:
        if self.told:
            self.told(kind, name)
        one = Part(kind, name)
        if not self.on:
            yield one
            return
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield one
        finally:
            one.wall += time.perf_counter() - wall
            one.cpu += time.process_time() - cpu
            self.parts.append(one)

    def whole(self) -> Part:
        wall, cpu = self.started
        return Part("whole", "", time.perf_counter() - wall, time.process_time() - cpu)

    def __str__(self) -> str:
        """A table: each part with its share of the whole; small rules together, and the rest."""
        whole = self.whole()
        small = [one for one in self.parts if one.kind == "rule" and one.wall <= LEAST * whole.wall]
        named = [one for one in self.parts if one not in small]
        others = _sum(f"{len(small)} rules of at most 1 % each", small)
        known = _sum("", self.parts)
        rest = Part("all else", "", whole.wall - known.wall, whole.cpu - known.cpu)
        rows = [*named, *([others] if small else []), rest, whole]
        return "\n".join(
            [ROW.format("", "wall s", "CPU s", "share"), *(_row(one, whole) for one in rows)]
        )


OFF = Timings()


def _sum(name: str, parts: list[Part]) -> Part:
    return Part(name, "", sum(one.wall for one in parts), sum(one.cpu for one in parts))


def _row(one: Part, whole: Part) -> str:
    share = one.wall / whole.wall if whole.wall else 0.0
    return ROW.format(str(one), f"{one.wall:.2f}", f"{one.cpu:.2f}", f"{share:.0%}")
