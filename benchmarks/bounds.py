"""Every bound of speed and memory, in one place, and whether it holds.

A bound is the most that a measured value may be. Values are ratios wherever there is something to
compare with. Seconds are those of a machine on which mawk reads 300 MB of the log a second: on
another machine, or on a busy one, measured seconds are scaled by what mawk took in the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PACE = 300e6  # bytes a second of mawk on the machine that seconds are stated for
WHOLE = 10**9  # bytes: bounds on logs and traces are about inputs of this size
FLAT_FROM = 10**9  # bytes: from there on memory must not grow


@dataclass(frozen=True)
class Bound:
    """At most `most`; `quick` is the same with a margin for a short run on a busy machine."""

    name: str
    what: str
    unit: str  # what it is a ratio of, or in what it is measured
    most: float
    aim: float | None = None
    quick: float | None = None  # None: a short run does not judge it


BOUNDS = (
    # CI holds what is reached and what noise cannot break. What a second of input decides, or what
    # is not reached yet, only `make bench` judges.
    Bound("tables/mawk", "log to tables", "x mawk", 1.0, 0.75),
    Bound("tables/wc -l", "log to tables", "x wc -l", 14),
    Bound("tables/lnav", "log to tables", "x lnav", 1 / 3),
    Bound("tables/re loop", "log to tables", "x re loop", 1 / 4),
    Bound("analyze/mawk", "log to verdict", "x mawk", 1.3, 1.0),
    Bound("analyze/lnav", "log to verdict", "x lnav", 1 / 2.3),
    Bound("ranks/analyze", "16 ranks in 16 files", "x one file", 1.1),
    Bound("gz/analyze", "the log as .gz", "x plain", 1.35, quick=2.5),
    Bound("zst/analyze", "the log as .zst", "x plain", 1.35, quick=2.5),
    Bound("trace/DuckDB", "trace to tables, not replayed", "x read_json", 1.05),
    Bound("replayed/DuckDB", "trace of 100 MB, read and replayed", "x read_json", 3),
    Bound("replay/seconds", "replay of 1 M steps x 32 nodes", "CPU s", 1.2, 0.6),
    Bound("replay/walk", "replay", "x a Python walk", 1 / 20),
    Bound("rules/seconds", "all rules on 10 M step rows", "s", 6.0),
    Bound("rules/slowest", "the slowest of them", "of all rules", 0.2),
    Bound("log/slowest", "slowest rule on the log", "of its analysis", 0.2, quick=0.25),
    Bound("trace/slowest", "slowest rule on the trace", "of its analysis", 0.2, quick=0.25),
    # What is too much for a short input is too much for a long one.
    Bound("memory/log", "peak memory, log", "GB", 0.6, 0.4, quick=0.6),
    Bound("memory/gz", "peak memory, .gz", "GB", 0.6, 0.4, quick=0.6),
    Bound("memory/zst", "peak memory, .zst", "GB", 0.6, 0.4, quick=0.6),
    Bound("memory/trace", "peak memory, trace", "GB", 0.6, 0.4, quick=0.6),
    Bound("flat/log", "memory of the log", "x that of a fifth", 1.1),
    Bound("flat/gz", "memory of the .gz", "x that of a fifth", 1.1),
    Bound("flat/zst", "memory of the .zst", "x that of a fifth", 1.1),
    Bound("flat/trace", "memory of the trace", "x that of a fifth", 1.1),
    Bound("help", "--help", "x python -c pass", 8, quick=12),
    Bound("short", "analyze, 300 lines", "x python -c pass", 40),
    Bound("report/seconds", "HTML report beyond the analysis", "s", 1.0),
    Bound("report/size", "HTML report", "MB", 1.4, quick=1.45),
    # Of CPU time = start-up + constant x size^exponent.
    Bound("growth/rows", "time against rows", "exponent", 1.05),
    Bound("growth/runs", "time against runs", "exponent", 1.05),
    Bound("growth/files", "time against files", "exponent", 1.05),
    Bound("growth/ranks", "time against ranks", "exponent", 1.05),
)


@dataclass(frozen=True)
class Verdict:
    bound: Bound
    measured: float | None
    most: float | None  # None: it is not judged in this run
    why: str = ""  # it is not judged

    @property
    def broken(self) -> bool:
        return self.measured is not None and self.most is not None and self.measured > self.most

    @property
    def said(self) -> str:
        if self.measured is None or self.most is None:
            return f"not judged: {self.why}"
        return "NO" if self.broken else "yes"


def judge(
    measured: Mapping[str, float], missing: Mapping[str, str], largest: int, quick: bool = False
) -> list[Verdict]:
    """All bounds, in their order. `missing` says why there is no value; `largest` is in bytes."""
    return [_verdict(one, measured.get(one.name), missing, largest, quick) for one in BOUNDS]


def _verdict(
    bound: Bound, value: float | None, missing: Mapping[str, str], largest: int, quick: bool
) -> Verdict:
    if quick and bound.quick is None:
        return Verdict(bound, value, None, "only by `make bench`")
    if bound.name.startswith("flat/") and largest < 5 * FLAT_FROM:
        return Verdict(bound, value, None, "only from 1 to 5 GB")
    if value is None:
        return Verdict(bound, None, None, missing.get(bound.name, "not measured"))
    return Verdict(bound, value, bound.quick if quick else bound.most)
