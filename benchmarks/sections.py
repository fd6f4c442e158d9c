"""What is measured: each section runs its commands in turns and notes values for the bounds."""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import inputs, peers
from benchmarks.bounds import PACE, WHOLE
from benchmarks.inputs import Input
from benchmarks.measure import Took, at_size, in_turns, median, middle, ratio, run, seconds

SPECDIAG = (sys.executable, "-m", "specdiag")
ANALYZE = (*SPECDIAG, "analyze", "--no-html")
INSIDE = (sys.executable, "-m", "benchmarks.inside")
PAGE = inputs.FOLDER / "page.html"
MILLION = 1_000_000
SHORT_TRACE = 10**8  # bytes: what reading and replaying a trace is bounded for


@dataclass(frozen=True)
class Row:
    """A line of the table of times: what one command took for one input, in seconds and MB."""

    input: str
    name: str
    wall: float
    cpu: float
    speed: float  # MB of the input, unpacked, a second
    peak: float


@dataclass
class Results:
    values: dict[str, float] = field(default_factory=dict)  # bound -> measured
    by_cpu: dict[str, float] = field(default_factory=dict)  # the same by the processor's time
    missing: dict[str, str] = field(default_factory=dict)  # bound -> why it has no value
    absent: list[str] = field(default_factory=list)  # peers that are not installed
    wrong: list[str] = field(default_factory=list)  # answers that differ from the truth
    rows: list[Row] = field(default_factory=list)
    growth: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    slowest: dict[str, str] = field(default_factory=dict)  # bound -> the rule that is
    pace: float | None = None  # how much slower mawk is than where seconds are stated for
    busy: float | None = None  # share of a core that mawk was given

    def note(self, bound: str, wall: float, cpu: float | None = None) -> None:
        """A value, by the clock on the wall, and by the processor's time beside it."""
        if math.isnan(wall) or wall < 0:
            self.missing[bound] = "noise hides it"
        else:
            self.values[bound] = wall
        if cpu is not None and not math.isnan(cpu) and cpu >= 0:
            self.by_cpu[bound] = cpu


Timed = dict[str, list[Took]]


def _sizes(size: int) -> list[int]:
    """A fourth of a short input tells what of its time is start-up."""
    return [size] if size >= WHOLE else [size // 4, size]


def logs(results: Results, size: int, rounds: int, quick: bool = False) -> None:
    """The log beside the peers, in 16 files, and compressed; the report; parts of the analysis.

    A quick run leaves out what no bound is about, and takes the peaks of memory from here.
    """
    wanted = [peer for peer in peers.LOG if peer.bounds or not quick]
    there = [peer for peer in wanted if peer.there]
    results.absent += [peer.name for peer in wanted if not peer.there]
    sizes = _sizes(size)
    took: dict[int, Timed] = {one: {} for one in sizes}
    commands: dict[str, Sequence[str]] = {}
    for one in sizes:
        plain = inputs.log(one)
        own = {
            "tables": (*INSIDE, "tables", *plain.names),
            "analyze": (*ANALYZE, *plain.names),
            "ranks": (*ANALYZE, *inputs.ranks(one).names),
            "gz": (*ANALYZE, *inputs.gz(one).names),
            "zst": (*ANALYZE, *inputs.zst(one).names),
        } | {peer.name: peer.command(plain.paths[0]) for peer in there}
        commands |= {f"{one} {name}": command for name, command in own.items()}
    commands["page"] = (*SPECDIAG, "analyze", "--html", str(PAGE), *inputs.log(size).names)
    together = in_turns(commands, rounds)
    page = together.pop("page")
    for key, found in together.items():
        bytes_, _, name = key.partition(" ")
        took[int(bytes_)][name] = found
    plain = inputs.log(size)
    _check_logs(results, took[size], there, plain)
    for name, found in took[size].items():
        results.rows.append(_row(f"log, {inputs.name(size)}", name, found, plain.truth["bytes"]))
    if "mawk" in took[size]:
        results.pace = median(took[size]["mawk"], "cpu") / (plain.size / PACE)
        results.busy = statistics.median(one.cpu / one.wall for one in took[size]["mawk"])

    for bound, ours, theirs in (
        ("tables/mawk", "tables", "mawk"), ("tables/wc -l", "tables", "wc -l"),
        ("tables/lnav", "tables", "lnav"), ("tables/re loop", "tables", "re loop"),
        ("analyze/mawk", "analyze", "mawk"), ("analyze/lnav", "analyze", "lnav"),
        ("ranks/analyze", "ranks", "analyze"), ("gz/analyze", "gz", "analyze"),
        ("zst/analyze", "zst", "analyze"),
    ):  # fmt: skip
        if theirs not in took[size]:
            results.missing[bound] = f"no {theirs}"
            continue
        wall, cpu = (
            ratio(_whole(took, ours, clock), _whole(took, theirs, clock))
            for clock in ("wall", "cpu")
        )
        results.note(bound, wall, cpu)
    _page(results, took[size]["analyze"], page)
    _parts(results, "log", plain)
    if quick:
        for bound, name in (("log", "analyze"), ("gz", "gz"), ("zst", "zst")):
            results.note(f"memory/{bound}", max(one.peak for one in took[size][name]) / 1000)


def _whole(took: dict[int, Timed], name: str, clock: str) -> list[float]:
    """Seconds a round for 1 GB."""
    return at_size(
        [(inputs.log(size).size, seconds(took[size][name], clock)) for size in sorted(took)], WHOLE
    )


def _check_logs(results: Results, took: Timed, there: list[peers.Peer], plain: Input) -> None:
    for peer in there:
        for one in peer.differences(took[peer.name][0].out, plain.truth):
            results.wrong.append(f"{peer.name}: {one}")
    _check(results, "specdiag", took["tables"][0], plain.truth)


def _check(results: Results, name: str, took: Took, truth: dict[str, int]) -> None:
    wrong = peers.differences(peers.answer(took.out), truth)
    results.wrong += [f"{name}: {one}" for one in wrong]


def _row(what: str, name: str, took: list[Took], size: int) -> Row:
    wall = median(took)
    peak = max(one.peak for one in took)
    return Row(what, name, wall, median(took, "cpu"), size / 1e6 / wall, peak)


def _page(results: Results, bare: list[Took], page: list[Took]) -> None:
    beyond = [
        statistics.median(b - a for a, b in zip(seconds(bare, c), seconds(page, c), strict=True))
        for c in ("wall", "cpu")
    ]
    _paced(results, "report/seconds", *beyond)
    results.note("report/size", PAGE.stat().st_size / 1e6)


def _paced(results: Results, bound: str, wall: float, cpu: float | None = None) -> None:
    if results.pace is None:
        results.missing[bound] = "no mawk, whose time seconds are scaled by"
        return
    results.note(bound, wall / results.pace, None if cpu is None else cpu / results.pace)


def _parts(results: Results, what: str, read: Input) -> None:
    """The slowest rule's share of the analysis, by the processor's time of one run."""
    times: dict[str, Any] = peers.answer(run([*INSIDE, "parts", *read.names]).out)["times"]
    each = _rules(times, at=1)
    slowest = max(each, key=lambda name: each[name])
    results.note(f"{what}/slowest", each[slowest] / times["whole"][1])
    results.slowest[f"{what}/slowest"] = slowest


def traces(results: Results, size: int, rounds: int) -> None:
    """The trace beside peers, and its replay beside a walk with dicts."""
    sizes = _sizes(size)
    commands: dict[str, Sequence[str]] = {}
    for one in sizes:
        read = inputs.trace(one)
        commands[f"{one} tables"] = (*INSIDE, "tables", *read.names)
        commands |= {f"{one} {peer.name}": peer.command(read.paths[0]) for peer in peers.TRACE}
    read = inputs.trace(size)
    took = in_turns(commands | {"walk": peers.WALK.command(read.paths[0])}, rounds)
    for name in ("tables", *(peer.name for peer in peers.TRACE)):
        found = took[f"{size} {name}"]
        _check(results, f"trace, {name}", found[0], read.truth)
        results.rows.append(_row(f"trace, {inputs.name(size)}", name, found, read.size))
    violations = peers.answer(took[f"{size} tables"][0].out)["violations"]
    results.wrong += [f"replay finds {violations} violations"] * bool(violations)

    def whole(name: str, at: int) -> list[float]:
        return at_size(
            [
                (inputs.trace(one).size, [_unreplayed(t, at) for t in took[f"{one} {name}"]])
                for one in sizes
            ],
            WHOLE,
        )

    wall, cpu = (ratio(whole("tables", at), whole("DuckDB", at)) for at in (0, 1))
    results.note("trace/DuckDB", wall, cpu)
    replays = [
        (inputs.trace(one).truth["steps"], [_replay(t)[1] for t in took[f"{one} tables"]])
        for one in sizes
    ]
    _replayed(results, at_size(replays, MILLION), took["walk"])
    if size >= SHORT_TRACE:
        _short_trace(results, rounds)
    _parts(results, "trace", read)
    results.note("memory/trace", max(one.peak for one in took[f"{size} tables"]) / 1000)


def _short_trace(results: Results, rounds: int) -> None:
    """Reading and replay beside what read_json takes: of both no more than that, no start-up."""
    read = inputs.trace(SHORT_TRACE)
    (duckdb,) = (peer for peer in peers.TRACE if peer.name == "DuckDB")
    took = in_turns(
        {"own": (*INSIDE, "tables", *read.names), "DuckDB": duckdb.command(read.paths[0])}, rounds
    )
    wall, cpu = (
        ratio(
            [_spent(one, "read", at) + _spent(one, "replay", at) for one in took["own"]],
            [_spent(one, "load", at) for one in took["DuckDB"]],
        )
        for at in (0, 1)
    )
    results.note("replayed/DuckDB", wall, cpu)


def _replay(took: Took) -> tuple[float, float]:
    """Wall and CPU seconds of replay in it."""
    return _spent(took, "replay", 0), _spent(took, "replay", 1)


def _spent(took: Took, part: str, at: int) -> float:
    """Seconds of a part by the wall's clock (0) or the processor's (1)."""
    return float(peers.answer(took.out).get("times", {}).get(part, (0.0, 0.0))[at])


def _unreplayed(took: Took, at: int) -> float:
    """Seconds by the wall's clock (0) or the processor's (1), without those of replay."""
    return (took.wall, took.cpu)[at] - _replay(took)[at]


def _replayed(results: Results, ours: list[float], walks: list[Took]) -> None:
    """`ours`: CPU seconds of a million steps, each round."""
    walked = [peers.answer(one.out) for one in walks]
    results.wrong += [
        f"the walk proves {one['right']} of {one['steps']} steps"
        for one in walked[:1] if one["right"] != one["steps"]
    ]  # fmt: skip
    _paced(results, "replay/seconds", middle(ours))
    results.note(
        "replay/walk", ratio(ours, [MILLION * one["cpu"] / one["steps"] for one in walked])
    )


def rules(results: Results, number: int, rounds: int) -> None:
    """All rules on steps without trees; where there are fewer, on the line up to 10 M of them."""
    series = [number] if number >= 10 * MILLION else [number // 4, number]
    commands = {str(one): (*INSIDE, "parts", *inputs.steps(one).names) for one in series}
    took = in_turns(commands, 1 if number >= 10 * MILLION else rounds)
    each = {
        one: [_rules(peers.answer(t.out)["times"], at=0) for t in took[str(one)]] for one in series
    }
    points = [(float(one), [sum(t.values()) for t in each[one]]) for one in series]
    _paced(results, "rules/seconds", middle(at_size(points, 10 * MILLION)))
    last = each[number][-1]
    slowest = max(last, key=lambda name: last[name])
    results.note("rules/slowest", last[slowest] / sum(last.values()))
    results.slowest["rules/slowest"] = slowest


def _rules(times: dict[str, Any], at: int) -> dict[str, float]:
    """Seconds of each rule, wall (0) or CPU (1)."""
    return {name[5:]: spent[at] for name, spent in times.items() if name.startswith("rule ")}


def memory(results: Results, largest: int) -> None:
    """The peak on inputs of the largest size, and beside it on a fifth of that."""
    kinds = {"log": inputs.log, "trace": inputs.trace, "gz": inputs.gz, "zst": inputs.zst}
    for name, made in kinds.items():
        low, high = (
            run([*ANALYZE, *made(size).names], (0, 1)).peak / 1000
            for size in (largest // 5, largest)
        )
        results.note(f"memory/{name}", high)
        results.note(f"flat/{name}", high / low)


def start_up(results: Results, rounds: int) -> None:
    """Help, and the analysis of a short log, beside Python that does nothing."""
    commands: dict[str, Sequence[str]] = {
        "pass": [sys.executable, "-c", "pass"],
        "help": [*SPECDIAG, "--help"],
        "short": [*ANALYZE, *inputs.short().names],
    }
    in_turns(commands, 1)  # the first run compiles what has been changed
    took = in_turns(commands, rounds)
    for name in ("help", "short"):
        wall, cpu = (
            ratio(seconds(took[name], c), seconds(took["pass"], c)) for c in ("wall", "cpu")
        )
        results.note(name, wall, cpu)


def machine() -> str:
    """Cores and versions; nothing that names the machine."""
    from importlib.metadata import version

    cores = len(os.sched_getaffinity(0))
    said = ", ".join(f"{name} {version(name)}" for name in ("polars", "duckdb"))
    return f"{cores} cores, Python {sys.version.split()[0]}, {said}"
