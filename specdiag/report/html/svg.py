"""A figure as a still picture: SVG that needs no script, coloured by the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from specdiag.figure import Axis, Figure
from specdiag.report.html.dress import Dressed
from specdiag.report.html.scale import Scale, scale
from specdiag.report.text import visible

NARROW, BROAD = 540, 980  # with one part, or several above each other; as wide as they are shown
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 44  # margins of a picture, the axes' words in them
HEIGHT, LOW_HEIGHT = 250, 120  # of a part that is alone, and of one among several
GAP = 16  # between parts
POINTS, PICTURE = 250, 2000  # points of a series, of a picture; the interactive one shows more
APART = 15  # pixels between marks that are named; all of them are in the table


def draw(figure: Figure, dressed: Sequence[Dressed]) -> Markup:
    """The picture; what is hidden at first is left out."""
    shown = [one for one in dressed if not one.hidden]
    data = [one for one in shown if one.series.draw in ("point", "line", "bar")]
    alone = len(figure.parts) == 1
    each, width = (HEIGHT, NARROW) if alone else (LOW_HEIGHT, BROAD)
    right = width - RIGHT
    height = TOP + len(figure.parts) * (each + GAP) - GAP + BOTTOM
    across = scale(
        figure.x, _across(figure, shown), LEFT, right,
        _categories(data) if figure.x.scale == "category" else None,
        padded=any(one.series.draw == "bar" for one in data),
    )  # fmt: skip
    most = max(40, min(POINTS, PICTURE // max(1, len(data))))
    out = []
    bottom = TOP
    for part, axis in figure.parts.items():
        top, bottom = bottom + (GAP if bottom > TOP else 0), 0
        bottom = top + each
        mine = [one for one in shown if one.series.part in (part, "") or one.series.draw != "level"]
        here = [
            one for one in mine if one.series.part == part or one.series.draw in ("mark", "shade")
        ]
        up = scale(axis, _upwards(figure, axis, here), bottom, top)
        out += _frame(axis, up, across, (right, bottom), last=part == list(figure.parts)[-1])
        out += [line for one in here for line in _shades(one, across, right, top, bottom)]
        out += _bars(figure, here, across, up)
        for one in here:
            out += _drawn(one, across, up, right, most)
        out += [line for one in here for line in _flags(one, across, up)]
        out += _marks(here, across, right, (top, bottom), named=part == next(iter(figure.parts)))
    out.append(
        f'<text class="axis" x="{(LEFT + right) / 2:g}" y="{height - 8}" '
        f'text-anchor="middle">{escape(visible(figure.x.title, 80))}</text>'
    )
    label = escape(visible(f"{figure.title}. {figure.tells}", 400))
    body = "\n".join(out)
    return Markup(
        f'<svg class="still" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
        f"{body}</svg>"
    )


# What an axis spans


def _categories(shown: Sequence[Dressed]) -> list[str]:
    return list(dict.fromkeys(str(value) for one in shown for value in one.series.x))


def _across(figure: Figure, shown: Sequence[Dressed]) -> list[float]:
    if figure.x.scale == "category":
        return []
    data = [v for one in shown if one.series.draw in ("point", "line", "bar") for v in one.series.x]
    if figure.x.scale == "time":  # a start-up belongs to the picture, a day of silence does not
        return data
    marks = [v for one in shown if one.series.draw == "mark" for v in one.series.x]
    return data + [v for v in marks if v is not None]


def _upwards(figure: Figure, axis: Axis, shown: Sequence[Dressed]) -> list[float]:
    values: list[float] = []
    for one in shown:
        if one.series.draw in ("point", "line", "bar", "level"):
            values += [v for v in one.series.y if v is not None]
            values += [v for v in (*one.series.low, *one.series.high) if v is not None]
    bars = [one for one in shown if one.series.draw == "bar"]
    if bars and figure.stack:
        heights: dict[Any, float] = {}
        for one in bars:
            for x, y in zip(one.series.x, one.series.y, strict=True):
                heights[x] = heights.get(x, 0) + y
        values = list(heights.values())
    if axis.scale == "log":
        return [v for v in values if v > 0]
    # A scale that starts far from zero makes noise look like a cliff.
    return [*values, 0.0] if bars or (values and min(values) > 0) else values


# Marks


def _frame(
    axis: Axis, up: Scale, across: Scale, corner: tuple[float, float], last: bool
) -> list[str]:
    right, bottom = corner
    out = []
    for y, words in up.ticks:
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{words}</text>')
    middle = sum(y for y, _ in (up.ticks[0], up.ticks[-1])) / 2 if up.ticks else bottom
    title = escape(visible(axis.title, 38))
    out.append(
        f'<text class="axis" transform="translate(13 {middle:.1f}) rotate(-90)" '
        f'text-anchor="middle">{title}</text>'
    )
    out.append(f'<path class="base" d="M{LEFT} {bottom}H{right}"/>')
    if last:
        for x, words in across.ticks:
            out.append(f'<path class="base" d="M{x:.1f} {bottom}v4"/>')
            out.append(
                f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{escape(words)}</text>'
            )
    return out


def _drawn(one: Dressed, across: Scale, up: Scale, right: float, most: int) -> list[str]:
    series = one.series
    if series.draw == "level":
        y = up.place(series.y[0])
        words = escape(visible(series.label[0] or one.name, 60))
        return [
            f'<path class="level s{one.slot}" d="M{LEFT} {y:.1f}H{right}"/>',
            f'<text class="note" x="{right - 4}" y="{y - 4:.1f}" text-anchor="end">{words}</text>',
        ]
    if series.draw not in ("point", "line"):
        return []
    rows = _some(len(series.x), most)
    points = [(across.place(series.x[n]), up.place(series.y[n])) for n in rows]
    out = []
    bounds = [
        (x, up.place(low), up.place(high))
        for n, (x, _) in zip(rows, points, strict=True)
        if (low := series.low[n]) is not None and (high := series.high[n]) is not None
    ]
    if series.draw == "line":
        if len(bounds) > 1:
            there = " ".join(f"{x:.0f},{low:.0f}" for x, low, _ in bounds)
            back = " ".join(f"{x:.0f},{high:.0f}" for x, _, high in reversed(bounds))
            out.append(f'<polygon class="band s{one.slot}" points="{there} {back}"/>')
        path, last = "", 0
        for n, (x, y) in zip(rows, points, strict=True):
            broken = not path or any(row in one.breaks for row in range(last + 1, n + 1))
            path, last = f"{path}{'M' if broken else 'L'}{x:.1f} {y:.1f}", n
        out.append(f'<path class="line s{one.slot} d{one.dash}" d="{path}"/>')
    else:
        bars = "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, low, high in bounds)
        out += [f'<path class="whisker s{one.slot}" d="{bars}"/>'] if bars else []
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        size = " big" if len(points) <= 40 else ""
        out.append(f'<path class="point s{one.slot}{size}" d="{path}"/>')
    return out


def _some(rows: int, most: int) -> list[int]:
    """All rows, or as many as a still picture can show, the first and the last among them."""
    if rows <= most:
        return list(range(rows))
    return sorted({round(n * (rows - 1) / (most - 1)) for n in range(most)})


def _bars(figure: Figure, shown: Sequence[Dressed], across: Scale, up: Scale) -> list[str]:
    bars = [one for one in shown if one.series.draw == "bar"]
    if not bars:
        return []
    places = sorted({across.place(x) for one in bars for x in one.series.x})
    room = min((b - a for a, b in pairwise(places)), default=80.0)
    width = 0.8 * min(room, 80.0)
    each = width if figure.stack else width / len(bars)
    below: dict[Any, float] = {}
    zero = up.place(max(0.0, up.low)) if up.low < up.high else up.place(0.0)
    out = []
    for place, one in enumerate(bars):
        path = ""
        for n, (x, y) in enumerate(zip(one.series.x, one.series.y, strict=True)):
            base = below.get(x, 0.0) if figure.stack else 0.0
            below[x] = base + y
            left = across.place(x) - width / 2 + (0 if figure.stack else place * each)
            top, foot = up.place(base + y), up.place(base) if base else zero
            path += f"M{left:.1f} {foot:.1f}V{top:.1f}h{each * 0.94:.1f}V{foot:.1f}z"
            if (low := one.series.low[n]) is not None and (high := one.series.high[n]) is not None:
                middle = left + each / 2
                out.append(
                    f'<path class="whisker ink" d="M{middle:.1f} {up.place(low):.1f}'
                    f'V{up.place(high):.1f}"/>'
                )
        out.insert(place, f'<path class="bar s{one.slot}" d="{path}"/>')
    return out


def _flags(one: Dressed, across: Scale, up: Scale) -> list[str]:
    """A diamond around every point that a finding is about."""
    if one.series.draw not in ("point", "line", "bar"):
        return []
    return [
        f'<path class="flag" d="M{across.place(one.series.x[n]):.1f} '
        f'{up.place(one.series.y[n]) - 8:.1f}l8 8l-8 8l-8 -8z"/>'
        for n in sorted(one.series.flags)
    ]


def _shades(one: Dressed, across: Scale, edge: float, top: float, bottom: float) -> list[str]:
    if one.series.draw != "shade":
        return []
    out = []
    for start, end in zip(one.series.x, one.series.high, strict=True):
        left = max(LEFT, across.place(start))
        right = min(edge, across.place(end))
        if right > left:
            out.append(
                f'<rect class="shade" x="{left:.1f}" y="{top}" width="{right - left:.1f}" '
                f'height="{bottom - top}"/>'
            )
    return out


def _marks(
    shown: Sequence[Dressed], across: Scale, right: float, span: tuple[float, float], named: bool
) -> list[str]:
    """Findings are named before events, and neither where names would cover each other."""
    top, bottom = span
    places = sorted(
        (not one.series.flags.get(n), across.place(x), one.series.label[n] or one.name)
        for one in shown if one.series.draw == "mark"
        for n, x in enumerate(one.series.x)
    )  # fmt: skip
    told: list[float] = []
    out = []
    for event, x, label in places:
        if not LEFT <= x <= right:
            continue
        out.append(f'<path class="mark{"" if event else " cited"}" d="M{x:.1f} {top}V{bottom}"/>')
        if named and all(abs(x - other) > APART for other in told):
            told.append(x)
            out.append(
                f'<text class="note" transform="translate({x + 4:.1f} {top + 3}) rotate(90)">'
                f"{escape(visible(label, 24))}</text>"
            )
    return out
