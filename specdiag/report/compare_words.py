"""A comparison in words: which arm is better, by how much, why, or why that cannot be said."""

from __future__ import annotations

import math
from collections.abc import Iterator

from specdiag.compare.answer import Comparison, Metric
from specdiag.report.text import count, visible

NAMES = {
    "tokens_per_s": "tokens per second", "commit_len": "commit length", "step_ms": "step time",
    "ttft_ms": "time to first token", "itl_ms": "inter-token latency",
    "commit_len_at_shared_starts": "commit length, same starts",
}  # fmt: skip
KINDS = {
    "step": "traced steps", "request": "request records", "decode": "decode lines",
    "acceptance": "counters", "benchmark": "benchmark",
}  # fmt: skip
UNITS = {
    "paired": "pair", "requests": "request", "repeats": "repeat", "blocks": "row",
}  # fmt: skip
FASTER = {
    "tokens_per_s": ("faster", "slower"), "itl_ms": ("faster", "slower"),
    "step_ms": ("faster a step", "slower a step"),
    "commit_len": ("better: it commits more a step", "worse: it commits less a step"),
    "ttft_ms": ("faster to the first token", "slower to the first token"),
}  # fmt: skip


def is_time(metric: Metric) -> bool:
    return metric.name.endswith("_ms") or metric.name.startswith("stage_")


def name(metric: Metric) -> str:
    """What a metric is called."""
    if metric.name in NAMES:
        return NAMES[metric.name]
    if metric.name.startswith("stage_"):
        return f"{visible(metric.name.removeprefix('stage_'), 40)} time"
    head, _, number = metric.name.rpartition("_")
    if head == "accept":
        return f"accepts at least {number}"
    return f"commit length at {int(number):,} to {2 * int(number) - 1:,}"


def way(metric: Metric) -> str:
    """What it was taken from, and what stands for chance."""
    one, other = metric.units
    of = count(one, UNITS[metric.method]) if one == other else f"{one:,} and {other:,} " + (
        f"{UNITS[metric.method]}s"
    )  # fmt: skip
    blocks = " in blocks" if metric.method == "blocks" else ""
    return f"{KINDS[metric.kind]}, {of}{blocks}"


def verdict(metric: Metric) -> str:
    """What may be said of one metric."""
    said = metric.verdict
    if said.kind == "none":
        return "no verdict"
    if said.kind == "same":
        if not said.bound:
            return "no difference"
        unit = "%" if metric.change is None or metric.change.log else "pp"
        return f"no difference larger than {_up(said.bound)} {unit}"
    if said.kind != "undecided":
        return said.kind
    thing = UNITS[metric.method]
    if metric.change is None:
        return "undecided"
    if metric.change.error is None:
        return f"undecided (needs at least {count(said.more_units or 1, f'more {thing}')})"
    if said.more_steps and metric.kind != "benchmark":
        return f"undecided (needs about {said.more_steps:,} more steps)"
    return f"undecided (needs about {count(said.more_units or 1, f'more {thing}')})"


def sentences(one: Comparison) -> Iterator[str]:
    """The verdict, and what must be known with it."""
    yield _overall(one)
    if one.inversion:
        yield _inversion(one)


def _overall(one: Comparison) -> str:
    if not one.comparable:
        why = "; ".join(_hindrance(h.what, h.a, h.b) for h in one.hindrances)
        return f"not comparable: {why}. The figures are shown without a verdict."
    metric = one.decisive
    if metric is None or metric.change is None:
        return "undecided: nothing was measured in both arms"
    b = visible(one.b.label, 80)
    said, of = metric.verdict, name(metric)
    if one.identical and said.kind == "same":
        return "no difference: both arms hold the same figures"
    if said.kind in ("better", "worse"):
        better, worse = FASTER[metric.name]
        return f"B ({b}) is {better if said.kind == 'better' else worse}: {_by(metric)} {of}"
    if said.kind == "same":
        return f"{verdict(metric)} in {of}"
    seen = f"B has {_by(metric)} {of}"
    return f"{verdict(metric)}: {seen}, which may be chance"


def _by(metric: Metric) -> str:
    found = metric.change
    assert found is not None
    times = f"{math.exp(found.value):.2f} times the"
    if found.interval is None:
        return times
    low, high = (math.exp(end) for end in found.interval)
    return f"{math.exp(found.value):.2f} times (95 %: {low:.2f} to {high:.2f}) the"


def _inversion(one: Comparison) -> str:
    speed, commit = one.metric("tokens_per_s"), one.metric("commit_len")
    assert speed is not None and commit is not None
    first = one.b if speed.verdict.kind == "better" else one.a
    other = one.a if first is one.b else one.b
    ahead, behind = (commit.b, commit.a) if first is one.b else (commit.a, commit.b)
    return (
        f"Inversion: {visible(first.label, 80)} is faster than {visible(other.label, 80)} while it "
        f"commits less a step ({ahead:.2f} against {behind:.2f}). Its steps are cheaper; its "
        "acceptance is not what makes it fast."
    )


def _hindrance(what: str, a: str | None, b: str | None) -> str:
    named = {
        "hardware": "other hardware", "length": "other lengths of answers",
        "prompts": "other prompts", "context": "no context lengths in common",
        "sampling": "other sampling", "warm-up": "one arm is still warming up",
        "thinking mode": "another thinking mode",
    }.get(what, f"another {what}")  # fmt: skip
    return f"{named} ({visible(a, 80)} against {visible(b, 80)})" if a and b else named


def percent(value: float) -> str:
    """A share as signed percent, with a digit where that says something."""
    amount = 100 * value
    digits = 0 if abs(amount) >= 99.5 else 1
    if abs(amount) < 0.05:
        return f"{amount:+.2f}" if abs(amount) >= 0.005 else "0.0"
    return f"{amount:+,.{digits}f}"


def _up(value: float) -> str:
    """A bound as percent, rounded away from 0."""
    amount = 100 * value
    places = 0 if amount >= 10 else 1 if amount >= 1 else 2
    return f"{math.ceil(amount * 10**places) / 10**places:.{places}f}"
