"""The pictures of the page: a still one, legend, table, and JSON for the script."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from specdiag.diagnosis import Diagnosis
from specdiag.figure import Axis, Figure, draw_all
from specdiag.report.html import svg
from specdiag.report.html.dress import Dressed, dress
from specdiag.report.html.scale import clock
from specdiag.report.text import count, figure, named, visible
from specdiag.store import Store

ROWS = 24  # of a series in the table; a longer one is told in as many stretches
PANELS = 2  # of a kind that are shown before the rest is folded
TABLE = 160  # rows of a table


def pictures(
    diagnosis: Diagnosis, store: Store, ids: Mapping[str, str], share: float = 1.0
) -> list[dict[str, Any]]:
    """What the template shows of every figure. `ids` are the places of findings on the page."""
    runs = ranked(diagnosis)
    made = []
    taken: set[str] = set()
    for one in draw_all(store, _cited(diagnosis, store), runs, share):
        dressed = dress(one, runs)
        name = _slug(one.name, taken)
        titles = {found.id: found.rule.title for found in diagnosis.findings}
        made.append({
            "id": f"figure-{name}", "kind": one.kind, "panel": one.panel,
            "title": one.title, "tells": one.tells, "sql": one.sql,
            "svg": svg.draw(one, dressed), "legend": _legend(dressed),
            "heads": _heads(one), "rows": rows(one, dressed),
            "notes": _notes(one, dressed), "findings": one.findings,
            "data": _data(one, dressed, ids, titles, f"figure-{name}"),
        })  # fmt: skip
    return made


def grouped(
    made: Sequence[dict[str, Any]],
) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Pictures by kind: those that are shown, and those that are folded behind them."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for one in made:
        kinds.setdefault(one["kind"], []).append(one)
    return [(some[:PANELS], some[PANELS:]) for some in kinds.values()]


def ranked(diagnosis: Diagnosis) -> list[str]:
    """All runs, those with the worst findings first."""
    worst = [name for found in diagnosis.findings for name in (found.run, found.against) if name]
    return list(dict.fromkeys([*worst, *(run.name for run in diagnosis.runs)]))


def _cited(diagnosis: Diagnosis, store: Store) -> list[dict[str, Any]]:
    numbers = {row["path"]: row["source"] for row in store.rows("SELECT path, source FROM source")}
    return [
        {"finding": found.id, "rule": found.rule.name, "title": found.rule.title,
         "severity": found.severity, "run": found.run,
         "source": numbers.get(one.path), "line": one.line}
        for found in diagnosis.findings for one in found.evidence
    ]  # fmt: skip


def _slug(name: str, taken: set[str]) -> str:
    base = slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[:80]
    number = 2
    while slug in taken:
        slug, number = f"{base}-{number}", number + 1
    taken.add(slug)
    return slug


def _legend(dressed: Sequence[Dressed]) -> list[dict[str, Any]]:
    """Each name once; marks and levels are told in the picture."""
    found: dict[str, dict[str, Any]] = {}
    for one in dressed:
        if one.series.draw in ("point", "line", "bar") and not one.hidden and one.name:
            entry = {"name": one.name, "slot": one.slot, "dash": one.dash, "draw": one.series.draw}
            if found.setdefault(one.name, entry)["draw"] != one.series.draw:
                found[one.name]["draw"] = "line"
    if any(one.series.draw == "shade" for one in dressed):
        shaded = {one.name for one in dressed if one.series.draw == "shade" and one.name}
        found["\0shade"] = {"name": ", ".join(sorted(shaded)) or "shaded", "draw": "shade",
                            "slot": 0, "dash": 0}  # fmt: skip
    return list(found.values()) if len(found) > 1 else []


def _notes(one: Figure, dressed: Sequence[Dressed]) -> list[str]:
    notes = []
    if one.thinned:
        shown, every = (sum(counts) for counts in zip(
            *((len(series.x), series.rows) for series in one.series), strict=True))  # fmt: skip
        notes.append(
            f"{count(shown, 'point')} of {every:,}: the lowest and the highest of every stretch, "
            "and all that findings are about"
        )
    hidden = {each.series.run for each in dressed if each.hidden}
    if hidden:
        notes.append(f"{count(len(hidden), 'more run')} can be switched on in the legend of the "
                     "interactive picture")  # fmt: skip
    if one.left_out:
        notes.append(
            f"the runs with the worst findings come first; not drawn: {named(one.left_out, 4)}"
        )
    return notes


# The table


def _heads(one: Figure) -> list[str]:
    parts = list(one.parts.values())
    return [
        "series",
        one.x.title or "place",
        parts[0].title if len(parts) == 1 else "value",
        "of it",
    ]


def rows(one: Figure, dressed: Sequence[Dressed]) -> list[list[str]]:
    found: list[list[str]] = []
    data = [each for each in dressed if each.series.draw in ("point", "line", "bar")]
    most = max(4, min(ROWS, TABLE // max(1, len(data))))
    for each in dressed:
        series = each.series
        name = each.name
        if len(one.parts) > 1 and series.part in one.parts:
            axis = one.parts[series.part].title
            name = axis if not name or name == series.run else f"{name}: {axis}"
        if series.draw == "shade":
            found += [
                [name or "shaded", f"{_at(one.x, x)} to {_at(one.x, high)}", "", ""]
                for x, high in list(zip(series.x, series.high, strict=True))[:most]
            ]
        elif series.draw == "mark":
            found += [
                [series.label[n] or name, _at(one.x, x), "", ""]
                for n, x in enumerate(series.x[: 2 * most])
            ]
        elif series.draw == "level":
            found.append([series.label[0] or name, "", figure(series.y[0]), ""])
        elif len(series.x) <= most:
            found += [
                [name, _at(one.x, x), _value(each, n), series.label[n] or ""]
                for n, x in enumerate(series.x)
            ]
        else:
            found += _stretches(one, each, name, most)
    return found[: 2 * TABLE]


def _value(each: Dressed, n: int) -> str:
    low, high = each.series.low[n], each.series.high[n]
    text = figure(each.series.y[n])
    return f"{text} ({figure(low)} to {figure(high)})" if None not in (low, high) else text


def _stretches(one: Figure, each: Dressed, name: str, most: int) -> list[list[str]]:
    """A long series told in stretches along x: lowest, median and highest of each."""
    pairs = list(zip(each.series.x, each.series.y, strict=True))
    if one.x.scale != "category":
        pairs.sort()
    rows = []
    for n in range(most):
        some = pairs[n * len(pairs) // most : (n + 1) * len(pairs) // most]
        values = [y for _, y in some]
        first, last = _at(one.x, some[0][0]), _at(one.x, some[-1][0])
        low, middle, high = min(values), statistics.median(values), max(values)
        rows.append([
            name, first if first == last else f"{first} to {last}",
            f"{figure(middle)} ({figure(low)} to {figure(high)})", f"median of {len(some):,}",
        ])  # fmt: skip
    return rows


def _at(axis: Axis, x: Any) -> str:
    if axis.scale == "time":
        return clock(x)
    return figure(x)


# Data for the script


def _data(
    one: Figure, dressed: Sequence[Dressed], ids: Mapping[str, str], titles: Mapping[str, str],
    id: str,
) -> dict[str, Any]:  # fmt: skip
    return {
        "id": id, "title": visible(one.title, 200), "stack": one.stack,
        "x": {"title": one.x.title, "scale": one.x.scale},
        "parts": [{"name": name, "title": axis.title, "scale": axis.scale}
                  for name, axis in one.parts.items()],
        "series": [_columns(each) for each in dressed],
        "flags": {name: {"title": titles.get(name, name), "id": ids[name]}
                  for name in one.findings if name in ids},
    }  # fmt: skip


def _columns(each: Dressed) -> dict[str, Any]:
    series = each.series
    data: dict[str, Any] = {
        "name": visible(each.name, 120), "draw": series.draw, "part": series.part,
        "slot": each.slot, "dash": each.dash, "x": series.x, "y": series.y,
    }  # fmt: skip
    if each.hidden:
        data["hidden"] = True
    for key in ("low", "high", "label"):
        column = getattr(series, key)
        if any(value is not None for value in column):
            data[key] = [visible(v, 120) if isinstance(v, str) else v for v in column]
    if each.breaks:
        data["breaks"] = sorted(each.breaks)
    if series.flags:
        data["flags"] = {str(n): names for n, names in series.flags.items()}
    return data
