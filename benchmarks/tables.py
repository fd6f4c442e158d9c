"""Results as Markdown: bounds first, then what everything took."""

from __future__ import annotations

import resource

from benchmarks.bounds import PACE, WHOLE, Verdict
from benchmarks.inputs import name
from benchmarks.peers import LOG, TRACE
from benchmarks.sections import Results, machine

BEGIN, END = "<!-- written by `make bench` -->", "<!-- end of what `make bench` writes -->"


def render(
    results: Results, verdicts: list[Verdict], size: int, rounds: int, largest: int
) -> str:  # fmt: skip
    broken = [one for one in verdicts if one.broken]
    parts = [
        _summary(verdicts),
        _bounds(results, verdicts),
        _how(results, size, rounds, largest),
        _times(results),
        _growth(results),
    ]
    if results.wrong:
        parts.insert(0, "**Answers differ:** " + "; ".join(results.wrong))
    if broken:
        parts.insert(1, "Does not hold: " + ", ".join(one.bound.name for one in broken) + ".")
    return "\n\n".join(part for part in parts if part) + "\n"


def placed(document: str, text: str) -> str:
    """The document with the text between its marks. Raises ValueError where it has none."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no place for results: {BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def exponents(results: Results) -> dict[str, float]:
    return {
        what: results.values[f"growth/{what}"]
        for what in results.growth if f"growth/{what}" in results.values
    }  # fmt: skip


def _summary(verdicts: list[Verdict]) -> str:
    judged = [one for one in verdicts if one.most is not None]
    held = sum(not one.broken for one in judged)
    return (
        f"{held} of {len(judged)} bounds hold"
        + (f"; {len(verdicts) - len(judged)} are not judged" * (len(judged) < len(verdicts)))
        + "."
    )


def _bounds(results: Results, verdicts: list[Verdict]) -> str:
    lines = [
        "| bound | what | measured | | by CPU time | bound | aim | holds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in verdicts:
        bound = one.bound
        by_cpu = results.by_cpu.get(bound.name)
        most = _number(bound.most)
        if one.most is not None and one.most != bound.most:
            most += f", here {_number(one.most)}"
        what = bound.what
        if bound.name in results.slowest:
            what += f" ({results.slowest[bound.name]})"
        lines.append(
            f"| {bound.name} | {what} | {_number(one.measured)} | {bound.unit} "
            f"| {_number(by_cpu)} | {most} | {_number(bound.aim)} | {one.said} |"
        )
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if abs(value) < 1_000 else f"{value:,.0f}"


def _how(results: Results, size: int, rounds: int, largest: int) -> str:
    said = [
        f"A log and a trace of {name(size).upper()}, {rounds} rounds, memory and growth up to "
        f"{name(largest).upper()}; {machine()}.",
        "Whole processes, taken in turns; a ratio is the median over the rounds, by the clock on "
        "the wall.",
    ]
    if size < WHOLE:
        said.append(
            "Ratios are about 1 GB: start-up would rule a shorter input, so what each tool took is "
            f"extended to 1 GB along the line through {name(size // 4).upper()} and "
            f"{name(size).upper()}."
        )
    if results.pace is not None:
        said.append(
            f"Seconds in this table are those of a machine whose mawk reads {PACE / 1e6:.0f} MB/s; "
            f"here it took {results.pace:.2f} times as long."
        )
    if results.busy is not None and results.busy < 0.95:
        said.append(
            f"The machine was busy: mawk was given {100 * results.busy:.0f} % of a core, and what "
            "uses both cores suffers more from that."
        )
    if results.absent:
        said.append(f"Not installed, so not compared with: {', '.join(results.absent)}.")
    return "\n".join(said)


def _times(results: Results) -> str:
    tells = {f"log {peer.name}": peer.does for peer in LOG}
    tells |= {f"trace {peer.name}": peer.does for peer in TRACE}
    tells |= {
        "log tables": "specdiag, typed tables of every kind of line, with line numbers",
        "log analyze": "specdiag, verdict on the terminal", "log ranks": "the same, 16 files",
        "log gz": "the same, .gz", "log zst": "the same, .zst",
        "trace tables": "specdiag, tables with lists, replay included",
    }  # fmt: skip
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # no child's peak is lower
    lines = [
        "| input | tool | what it does | wall s | CPU s | MB/s | peak MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results.rows:
        does = tells.get(f"{row.input.split(',')[0]} {row.name}", "")
        peak = f"{row.peak:,.0f}" if row.peak > own + 1 else f"< {own + 1:.0f}"
        lines.append(
            f"| {row.input} | {row.name} | {does} | {row.wall:.3g} | {row.cpu:.3g} "
            f"| {row.speed:,.0f} | {peak} |"
        )
    absent = [f"| log | {one} | not installed | | | | |" for one in results.absent]
    return "\n".join([*lines, *absent])


def _growth(results: Results) -> str:
    if not results.growth:
        return ""
    lines = ["| input doubled by | " + "CPU s of analyze, by MB | exponent |", "|---|---|---|"]
    fitted = exponents(results)
    for what, points in results.growth.items():
        each = ", ".join(f"{size / 1e6:.0f}: {cpu:.2f}" for size, _, cpu in points)
        lines.append(f"| {what} | {each} | {_number(fitted.get(what))} |")
    return "\n".join(lines) + "\n\n![CPU time against size, by what grows](growth.svg)"
