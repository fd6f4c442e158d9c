"""How time grows with rows, runs, files and ranks: series that double, a fit, and a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks import inputs
from benchmarks.measure import in_turns, median
from benchmarks.sections import ANALYZE, Results

FIRST = 10_000_000  # bytes
LONGEST = 640_000_000  # of series other than rows: 256 files or ranks, 6,400 runs
TRIED = [n / 100 for n in range(30, 301)]  # exponents
WIDTH, HEIGHT, LEFT, BOTTOM, ROOM = 560, 360, 60, 44, 130
COLOURS = {"rows": "#1f77b4", "runs": "#d62728", "files": "#2ca02c", "ranks": "#9467bd"}

Points = Sequence[tuple[float, float, float]]  # bytes, wall and CPU seconds


def sizes(largest: int) -> list[int]:
    """10 MB, doubled as long as that is not more than the largest; of a short one a fourth."""
    found = [min(FIRST, largest // 4)]
    while found[-1] * 2 <= largest:
        found.append(found[-1] * 2)
    return found


def grow(results: Results, largest: int, rounds: int) -> None:
    """Time of `analyze` on every series, and the exponent by which it grows."""
    for what, made in inputs.GROWING.items():
        end = largest if what == "rows" else min(largest, LONGEST)
        series = {str(size): made(size) for size in sizes(end)}
        took = in_turns({key: [*ANALYZE, *one.names] for key, one in series.items()}, rounds)
        points = [
            (float(one.size), median(took[key]), median(took[key], "cpu"))
            for key, one in series.items()
        ]
        results.growth[what] = points
        found = exponent([size for size, _, _ in points], [cpu for _, _, cpu in points])
        if found is None:
            results.missing[f"growth/{what}"] = "most of it is start-up"
        else:
            results.note(f"growth/{what}", found)


def exponent(sizes: Sequence[float], took: Sequence[float]) -> float | None:
    """The p of `time = start-up + constant x size^p` that fits best, by relative errors.

    None where time does not even double: then the start-up hides what grows.
    """
    if took[-1] < 2 * took[0] or len(sizes) < 3:
        return None
    return min(TRIED, key=lambda p: _misfit([(size / sizes[-1]) ** p for size in sizes], took))


def _misfit(x: Sequence[float], took: Sequence[float]) -> float:
    """The sum of squared relative errors of the best line through the points, from 0 or above."""
    weights = [1 / t**2 for t in took]
    total = sum(weights)
    mean_x = sum(w * a for w, a in zip(weights, x, strict=True)) / total
    mean_t = sum(w * t for w, t in zip(weights, took, strict=True)) / total
    slope = sum(
        w * (a - mean_x) * (t - mean_t) for w, a, t in zip(weights, x, took, strict=True)
    ) / sum(w * (a - mean_x) ** 2 for w, a in zip(weights, x, strict=True))
    start = mean_t - slope * mean_x
    if start < 0:
        start = 0.0
        slope = sum(w * a * t for w, a, t in zip(weights, x, took, strict=True)) / sum(
            w * a * a for w, a in zip(weights, x, strict=True)
        )
    return sum(w * (start + slope * a - t) ** 2 for w, a, t in zip(weights, x, took, strict=True))


def picture(growth: Mapping[str, Points], exponents: Mapping[str, float]) -> str:
    """CPU seconds against MB, both logarithmic, as SVG; grey lines double with the input."""
    every = [point for points in growth.values() for point in points]
    low, high = min(s for s, _, _ in every), max(s for s, _, _ in every)
    bottom, top = min(c for _, _, c in every) / 1.5, max(c for _, _, c in every) * 1.5

    def x(size: float) -> float:
        return LEFT + math.log(size / low) / math.log(high / low or 2) * (WIDTH - LEFT - ROOM)

    def y(cpu: float) -> float:
        return (
            HEIGHT
            - BOTTOM
            - math.log(cpu / bottom) / math.log(top / bottom) * (HEIGHT - BOTTOM - 16)
        )

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="Time against size">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for start in (bottom / 4, bottom, bottom * 4, bottom * 16, bottom * 64):
        ends = _clipped((low, start), (high, start * high / low), bottom, top)
        if ends:
            (x1, y1), (x2, y2) = ends
            out.append(_line(x(x1), y(y1), x(x2), y(y2), "#ddd"))
    for size in sorted({size for size, _, _ in growth.get("rows", every)}):
        out.append(_text(x(size), HEIGHT - BOTTOM + 16, f"{size / 1e6:.0f}", "middle"))
    for at in range(math.ceil(math.log2(bottom)), math.floor(math.log2(top)) + 1):
        out.append(_line(LEFT, y(2**at), WIDTH - ROOM, y(2**at), "#f2f2f2"))
        out.append(_text(LEFT - 6, y(2**at) + 4, f"{2**at:g}", "end"))
    out += [
        _line(LEFT, HEIGHT - BOTTOM, WIDTH - ROOM, HEIGHT - BOTTOM, "#333"),
        _line(LEFT, 16, LEFT, HEIGHT - BOTTOM, "#333"),
        _text((LEFT + WIDTH - ROOM) / 2, HEIGHT - 8, "MB", "middle"),
        _text(12, 14, "CPU seconds of analyze", "start"),
    ]
    taken: list[float] = []
    for what, points in growth.items():
        colour = COLOURS.get(what, "#333")
        path = " ".join(f"{x(size):.1f},{y(cpu):.1f}" for size, _, cpu in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [
            f'<circle cx="{x(size):.1f}" cy="{y(cpu):.1f}" r="3" fill="{colour}"/>'
            for size, _, cpu in points
        ]
        place = y(points[-1][2])
        while any(abs(place - other) < 15 for other in taken):
            place += 5
        taken.append(place)
        label = f"{what}, exponent {exponents[what]:.2f}" if what in exponents else what
        out.append(_text(WIDTH - ROOM + 8, place + 4, label, "start", colour))
    return "\n".join([*out, "</svg>"]) + "\n"


def _clipped(
    start: tuple[float, float], end: tuple[float, float], bottom: float, top: float
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The part of a line of exponent 1 that lies between bottom and top."""
    (x1, y1), (x2, y2) = start, end
    if y1 < bottom:
        x1, y1 = x1 * bottom / y1, bottom
    if y2 > top:
        x2, y2 = x2 * top / y2, top
    return ((x1, y1), (x2, y2)) if x1 < x2 else None


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
        f"{escape(text)}</text>"
    )
