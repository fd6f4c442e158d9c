"""What `specdiag trend` prints: a line of signs for each fact, its turns, and a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from specdiag import __version__
from specdiag.compare.trend import ALPHA, CORE, SHORTEST, Line, Turn
from specdiag.report.columns import columns, fill
from specdiag.report.compare_words import percent
from specdiag.report.json import jsonable
from specdiag.report.text import MISSING, count, figure, visible

SCHEMA = 1
FORMATS = ("terminal", "json")
NAMES = {"tokens_per_s": "tok/s", "accept_len": "accept length", "step_ms": "step ms"}
SIGNS = "▁▂▃▄▅▆▇█"
WIDEST = 80  # signs of a line; of more points the last ones are drawn
ROWS = 40


def render(lines: Sequence[Line], format: str = "terminal") -> str:
    """All lines in a format."""
    if format == "json":
        return as_json(lines)
    return "\n".join(text for line in lines for text in (*_line(line), "")) + fill(
        "Change points by PELT (ruptures) on the logarithms, kept where Welch's test of the "
        f"stretches on both sides gives p < {ALPHA} over all places and facts; at least "
        f"{SHORTEST} results on each side."
    ) + "\n"  # fmt: skip


def _line(line: Line) -> Iterator[str]:
    yield f"{visible(line.name, 80)}: {count(len(line.points), 'result')}"
    yield ""
    drawn = []
    for fact in line.turns:
        values = [one.facts.get(fact) for one in line.points]
        known = [one for one in values if one is not None]
        if known:
            drawn.append([_name(fact), spark(values), figure(known[0]), figure(known[-1])])
    yield columns(["", "", "first", "last"], drawn, (0, 1))
    yield ""
    told = [
        _turn(line, fact, one) for fact in line.turns for one in line.turns[fact]
    ]  # fmt: skip
    few = len(line.points) < 2 * SHORTEST
    none = f"too few results to look for changes: {2 * SHORTEST} are needed" if few else (
        "no change point"
    )  # fmt: skip
    yield from (fill(text, "  ") for text in told or [none])
    yield ""
    heads, rows = _table(line)
    yield columns(heads, rows, (0, 1, 2, len(heads) - 1))


def _turn(line: Line, fact: str, one: Turn) -> str:
    point = line.points[one.place]
    word = "better" if one.better else "worse"
    return (
        f"{_name(fact)} {percent(one.after / one.before - 1)} % from {visible(point.file, 80)} on "
        f"({word}): {figure(one.before)} to {figure(one.after)}"
    )


def _table(line: Line) -> tuple[list[str], list[list[str]]]:
    marks: dict[int, list[str]] = {}
    for fact in line.turns:
        for one in line.turns[fact]:
            marks.setdefault(one.place, []).append(f"{_name(fact)} changes")
    shown = [fact for fact in line.turns if fact in CORE or line.turns[fact]]
    first = max(len(line.points) - ROWS, 0)
    rows = [
        [
            visible(one.file, 60), visible(one.run, 40), one.started or MISSING,
            *(figure(one.facts.get(fact)) for fact in shown), ", ".join(marks.get(place, ())),
        ]
        for place, one in enumerate(line.points) if place >= first
    ]  # fmt: skip
    return ["file", "run", "started", *map(_name, shown), ""], rows


def _name(fact: str) -> str:
    return NAMES.get(fact, fact.replace("_", " "))


def spark(values: Sequence[float | None]) -> str:
    """A sign for each value, from the lowest to the highest; a blank where there is none."""
    shown = values[-WIDEST:]
    known = [one for one in shown if one is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    if high - low <= 1e-9 * abs(high):
        return "".join(" " if one is None else SIGNS[3] for one in shown)
    return "".join(
        " " if one is None else SIGNS[round((one - low) / (high - low) * (len(SIGNS) - 1))]
        for one in shown
    )


def as_json(lines: Sequence[Line]) -> str:
    """All lines as JSON; the same text for the same input."""
    document: dict[str, Any] = {
        "schema": SCHEMA, "specdiag": __version__,
        "lines": [
            {
                "name": line.name,
                "points": [
                    {"file": one.file, "run": one.run, "started": one.started, "facts": one.facts}
                    for one in line.points
                ],
                "changes": [
                    {
                        "fact": fact, "file": line.points[one.place].file, "place": one.place,
                        "before": one.before, "after": one.after, "p": one.p,
                        "verdict": "better" if one.better else "worse",
                    }
                    for fact in line.turns for one in line.turns[fact]
                ],
            }
            for line in lines
        ],
    }  # fmt: skip
    return json.dumps(jsonable(document), indent=1, allow_nan=False) + "\n"
