"""What `specdiag compare` prints: as text for people, as JSON, as Markdown for a pull request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from specdiag import __version__
from specdiag.compare.answer import Comparison, Decomposition, Metric, Result
from specdiag.compare.verdict import ALPHA, Verdict
from specdiag.report import compare_words as words
from specdiag.report.columns import columns, fill
from specdiag.report.compare_words import name, way
from specdiag.report.json import jsonable
from specdiag.report.markdown import code, prose
from specdiag.report.text import MISSING, count, figure, share, visible

SCHEMA = 1
FORMATS = ("terminal", "markdown", "json")
SETTINGS = 12  # that are listed; the rest is counted


def render(result: Result, format: str = "terminal") -> str:
    """The comparisons in a format."""
    if format == "json":
        return as_json(result)
    if format == "markdown":
        return "\n".join(_markdown(result)) + "\n"
    return "\n".join(_terminal(result)) + "\n"


# Text


def _terminal(result: Result) -> Iterator[str]:
    if len(result.comparisons) > 1:
        head, rows = matrix(result)
        yield columns(head, rows, (0, 1, 2))
        yield ""
    for one in result.comparisons:
        yield from _comparison(one)
        yield ""
    yield from (fill(text) for text in notes(result))


def _comparison(one: Comparison) -> Iterator[str]:
    yield f"{visible(one.b.label, 80)} against {visible(one.a.label, 80)}"
    yield ""
    yield from (fill(text, "  ") for text in words.sentences(one))
    for metrics in (one.metrics, one.details):
        if metrics:
            yield ""
            head, rows = table(metrics)
            yield columns(head, rows, (0, 5, 6))
    if one.decomposition:
        yield ""
        yield from (fill(text, "  ") for text in decomposition(one.decomposition))
    yield ""
    yield from (fill(text, "  ") for text in settings(one))
    yield from (fill(visible(note, 400), "  ") for note in one.notes)


def table(metrics: list[Metric]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of some metrics."""
    rows = [
        [
            name(one), _value(one, one.a), _value(one, one.b), *_change(one),
            words.verdict(one), way(one),
        ]
        for one in metrics
    ]  # fmt: skip
    return ["", "A", "B", "B against A", "95 %", "verdict", "taken from"], rows


def matrix(result: Result) -> tuple[list[str], list[list[str]]]:
    """Every comparison in a row: what it says in all, and the change of each main figure."""
    names = list(dict.fromkeys(one.name for each in result.comparisons for one in each.metrics))
    rows = []
    for each in result.comparisons:
        cells = []
        for wanted in names:
            metric = each.metric(wanted)
            cells.append(_short(metric) if metric else MISSING)
        rows.append([visible(each.b.label, 40), visible(each.a.label, 40), each.verdict, *cells])
    return ["B", "A", "verdict", *(words.NAMES.get(one, one) for one in names)], rows


def _short(metric: Metric) -> str:
    mark = {"better": " +", "worse": " -", "same": " =", "none": ""}.get(metric.verdict.kind, " ?")
    return _change(metric)[0] + mark


def _value(metric: Metric, value: float) -> str:
    if metric.name.startswith("accept_"):
        return share(round(value, 4))
    return f"{figure(value)} ms" if words.is_time(metric) else figure(value)


def _change(metric: Metric) -> tuple[str, str]:
    """The change and its interval."""
    found = metric.change
    if found is None:
        return MISSING, MISSING
    unit = " %" if found.log else " pp"
    value = f"{words.percent(found.shown(found.value))}{unit}"
    if found.interval is None:
        return value, MISSING
    low, high = (words.percent(found.shown(end)) for end in found.interval)
    return value, f"{low} to {high}"


def decomposition(one: Decomposition) -> Iterator[str]:
    """How much of the speed comes from what."""
    yield (
        f"speed ×{math.exp(one.speed):.2f} = commit length ×{math.exp(one.commit):.2f} / step time "
        f"×{math.exp(one.step):.2f}" + (f" × batch ×{math.exp(one.batch):.2f}" if one.batch else "")
    )
    parts = [("commit length", one.commit), ("step time", -one.step), ("batch", one.batch)]
    told = [f"{what} {_part(part)}" for what, part in parts if what != "batch" or one.batch]
    yield f"of the speed: {', '.join(told)} (each as if it were alone)"
    stages = [stage for stage in one.stages if abs(stage.part) >= 0.001]
    if stages:
        listed = ", ".join(
            f"{visible(stage.name, 40)} {_part(stage.part)} ({figure(stage.a)} to "
            f"{figure(stage.b)} ms)"
            for stage in stages
        )
        yield f"of the step time: {listed}"


def _part(part: float) -> str:
    part = min(part, 99)  # the share in a change of next to nothing has no bound
    return f"{words.percent(math.expm1(part))} %"


def settings(one: Comparison) -> Iterator[str]:
    """In which settings the arms differ."""
    if not one.differences:
        yield "no setting is known to differ"
        return
    shown = [
        f"{visible(each.key, 60)} {visible(each.a or 'unset', 60)} to "
        f"{visible(each.b or 'unset', 60)}"
        for each in one.differences[:SETTINGS]
    ]
    more = len(one.differences) - len(shown)
    rest = f", and {more} more" if more else ""
    yield f"settings that differ: {', '.join(shown)}{rest}"


def notes(result: Result) -> Iterator[str]:
    """How the figures came to be."""
    yield (
        "Intervals are those of 95 %. Verdicts are corrected by Holm's method over "
        f"{count(result.main, 'main figure')} and, apart from them, over "
        f"{count(result.detail, 'detail')}, and ask for p < {ALPHA}. No difference: the whole "
        f"interval lies within {100 * result.margin:g} % (--margin); pp are points of a share."
    )
    yield (
        "What comes first is left out: warm-up steps, the first and idle intervals, those with a "
        "prompt in them, the first of ten or more requests."
    )


# Markdown


def _markdown(result: Result) -> Iterator[str]:
    yield "# specdiag compare"
    if len(result.comparisons) > 1:
        yield ""
        yield from _rows(*matrix(result))
    for one in result.comparisons:
        yield ""
        yield f"## {code(visible(one.b.label, 80))} against {code(visible(one.a.label, 80))}"
        yield ""
        yield from (f"{prose(text)}\n" for text in words.sentences(one))
        for metrics in (one.metrics, one.details):
            if metrics:
                yield from _rows(*table(metrics))
                yield ""
        if one.decomposition:
            yield from (f"- {prose(text)}" for text in decomposition(one.decomposition))
        yield from (f"- {prose(text)}" for text in settings(one))
        yield from (f"- {prose(visible(note, 400))}" for note in one.notes)
    yield ""
    yield from (f"{prose(text)}\n" for text in notes(result))
    yield f"specdiag {__version__}"


def _rows(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(cell or " " for cell in head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(prose(cell).replace("\n", " ") for cell in row) + " |"


# JSON


def as_json(result: Result) -> str:
    """Everything; the same text for the same input."""
    document = {
        "schema": SCHEMA, "specdiag": __version__, "margin": result.margin, "alpha": ALPHA,
        "correction": "holm", "families": {"main": result.main, "detail": result.detail},
        "comparisons": [_one(each) for each in result.comparisons],
    }  # fmt: skip
    return json.dumps(jsonable(document), indent=1, allow_nan=False) + "\n"


def _one(each: Comparison) -> dict[str, Any]:
    return {
        "a": {"run": each.a.run, "path": each.a.path, "label": each.a.label},
        "b": {"run": each.b.run, "path": each.b.path, "label": each.b.label},
        "verdict": each.verdict,
        "message": list(words.sentences(each)),
        "comparable": each.comparable,
        "hindrances": [{"what": h.what, "a": h.a, "b": h.b} for h in each.hindrances],
        "inversion": each.inversion, "identical": each.identical, "pairs": each.pairs,
        "metrics": [_metric(one) for one in each.metrics],
        "details": [_metric(one) for one in each.details],
        "decomposition": each.decomposition and {
            "from": each.decomposition.kind,
            "ln_speed": each.decomposition.speed, "ln_commit_len": each.decomposition.commit,
            "ln_step_ms": each.decomposition.step, "ln_batch": each.decomposition.batch,
            "stages": [
                {"stage": one.name, "a_ms": one.a, "b_ms": one.b, "ln_part": one.part}
                for one in each.decomposition.stages
            ],
        },
        "differences": [
            {"key": one.key, "a": one.a, "b": one.b, "kind": one.kind} for one in each.differences
        ],
        "notes": each.notes,
    }  # fmt: skip


def _metric(one: Metric) -> dict[str, Any]:
    found, said = one.change, one.verdict
    low, high = (found.interval if found else None) or (None, None)
    return {
        "metric": one.name, "from": one.kind, "method": one.method,
        "a": _side(one.a, one.a_interval, one.units[0]),
        "b": _side(one.b, one.b_interval, one.units[1]),
        "change": found and {
            "scale": "ratio" if found.log else "difference",
            "value": found.shown(found.value),
            "low": None if low is None else found.shown(low),
            "high": None if high is None else found.shown(high), "p": found.p,
        },
        **_said(said),
    }  # fmt: skip


def _said(said: Verdict) -> dict[str, Any]:
    return {
        "verdict": said.kind, "p_corrected": said.p, "no_difference_above": said.bound,
        "detectable": said.detectable, "more_units": said.more_units,
        "more_steps": said.more_steps,
    }  # fmt: skip


def _side(value: float, around: tuple[float, float] | None, units: int) -> dict[str, Any]:
    low, high = around or (None, None)
    return {"value": value, "low": low, "high": high, "units": units}
