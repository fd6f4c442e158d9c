"""What `specdiag whatif` prints: a table of budgets a run, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from specdiag import __version__
from specdiag.estimate import Estimate
from specdiag.report.columns import columns, fill
from specdiag.report.text import MISSING, count, duration_ms, figure, share, visible
from specdiag.rule import plain
from specdiag.whatif.answers import Answers, Best, BreakEven, Budget, Cap, Chain, Range, Traced

SCHEMA = 1
CAPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of the top-k caps those that are shown

ORDERS = {
    "unordered": "the log-probabilities of its nodes rise from row to row, so their order is not "
    "best-first, and no smaller budget is a part of its trees",
    "by_depth": "the nodes of every tree stand in order of depth, so their order is not "
    "best-first, and no smaller budget is a part of its trees",
}
WALKS = {
    "text": "accepted depth is taken from the text that follows each step",
    "rows": "accepted depth is taken from the recorded rows",
}
SHALLOW = (
    "~ too small for the longest accepted path: a run of it goes by other starts, mostly easier "
    "ones, and may commit some percent more"
)
NOTES = (
    "A commit length is exact for the starts that the run visited. A run of another budget visits "
    "others: where one is given, `measured` is its own commit length, and how far the prediction "
    "is from it.",
    "A step is its median time; tokens per second are commit over step, without the time between.",
    "Intervals are those of 95 % over requests; with fewer than 5 there are none.",
)


def render(answers: Answers) -> str:
    """All answers as text."""
    parts = [_run(run) for run in answers.runs]
    if answers.break_even:
        parts.append(_break_even(answers.break_even))
    else:
        parts.append(
            fill("Break-even is not known: give a run of the same model without speculation, too.")
        )
    if answers.runs:
        parts.append("\n".join(fill(note) for note in NOTES))
    return "\n\n".join(parts)


def as_json(answers: Answers) -> str:
    """All answers as JSON, every budget included; the same text for the same input."""
    document = {"schema": SCHEMA, "specdiag": __version__, **_values(answers)}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _values(value: Any) -> Any:
    if isinstance(value, Estimate):
        low, high = value.interval or (None, None)
        return {"value": plain(value.value), "low": plain(low), "high": plain(high)}
    if isinstance(value, BreakEven):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)} | {
            "break_even_commit_len": plain(value.needed)
        }
    if is_dataclass(value):
        return {one.name: _values(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_values(one) for one in value]
    return plain(value)


# A run


def _run(run: Traced) -> str:
    return "\n".join(_parts(run))


def _parts(run: Traced) -> Iterator[str]:
    kind = f"budget {run.budget}" if run.branches else f"chain of {run.budget}"
    context = f", context {_span(*run.context)}" if run.context else ""
    batch = f", batch {run.batch}" if run.batch > 1 else ""
    yield (
        f"{visible(run.run, 80)}: {count(run.steps, 'step')} of {count(run.requests, 'request')}, "
        f"{kind}{batch}{context}"
    )
    if run.order in ORDERS:
        yield fill(ORDERS[run.order], "  ")
    if run.order == "assumed":
        yield fill("nodes are taken to be in best-first order: no log-probabilities say so", "  ")
    if run.shadow:
        yield fill("shadow-linear: these are lengths of the chain that it verified", "  ")
    if run.walk in WALKS:
        yield fill(WALKS[run.walk], "  ")
    if run.budgets:
        yield ""
        yield from _budgets(run)
        yield from _time(run)
    if run.ranges:
        yield ""
        yield _ranges(run.ranges)
    shown = [cap for cap in run.caps if cap.top_k in CAPS]
    if shown:
        yield ""
        head = ["top-k", "nodes", "commit", "95 %", "open"]
        yield columns(head, [_cap(cap) for cap in shown], ())
        yield fill(
            "exact for a budget of so many nodes a step, and the least for the whole budget: the "
            "nodes that a cap frees could only add to it, in the open share of the steps", "  "
        )  # fmt: skip
    if run.chain:
        yield ""
        yield from (fill(text, "  ") for text in _chain(run, run.chain))


def _budgets(run: Traced) -> Iterator[str]:
    last = run.budgets[-1].budget
    named = {last, run.best.budget if run.best else last}
    named |= {2**power for power in range(last.bit_length())}
    shown = [one for one in run.budgets if one.budget in named]
    rows = [
        [
            figure(one.budget), _shallow(one) + f"{one.commit_len.value:.2f}",
            _interval(one.commit_len, 2), _bounded(duration_ms(one.step_ms), "≤", one),
            _bounded(figure(one.tokens_per_s and one.tokens_per_s.value), "≥", one),
            _interval(one.tokens_per_s) if not one.bound else "", _measured(one),
        ]
        for one in shown
    ]  # fmt: skip
    name = "budget" if run.branches else "chain"
    yield columns([name, "commit", "95 %", "step", "tok/s", "95 %", "measured"], rows, ())
    if any(map(_shallow, shown)):
        yield fill(SHALLOW, "  ")


def _time(run: Traced) -> Iterator[str]:
    if not run.costed:
        yield fill("no times were recorded", "  ")
        return
    at = ", ".join(map(str, run.costed))
    if run.best:
        best, near = run.best, ""
        if best.low < best.high:
            near = f"; {best.low} to {best.high} come within 2 % of it"
        more = ", the widest that was measured" if best.widest else ""
        yield fill(
            f"best: budget {best.budget}{more}, {figure(best.tokens_per_s.value)} tok/s{near}", "  "
        )
        yield fill(f"time was measured at budgets {at}; between them it is interpolated", "  ")
    else:
        thing = "budget" if run.branches else "a chain of"
        yield fill(
            f"time was measured at {thing} {at} alone: give runs of the same model at others to "
            "know which is best; ≥ and ≤ hold as long as fewer rows take no longer", "  "
        )  # fmt: skip


def _ranges(ranges: list[Range]) -> str:
    rows = [
        [_span(one.low, one.high), figure(one.steps), f"{one.commit_len.value:.2f}",
         *(_choice(one.best) if one.best else [MISSING, MISSING])]
        for one in ranges
    ]  # fmt: skip
    if any(one.best for one in ranges):
        return columns(["context", "steps", "commit", "best budget", "tok/s"], rows, ())
    return columns(["context", "steps", "commit"], [row[:3] for row in rows], ())


def _choice(best: Best) -> list[str]:
    near = f" ({best.low} to {best.high})" if best.low < best.high else ""
    return [f"{best.budget}{near}", figure(best.tokens_per_s.value)]


def _cap(cap: Cap) -> list[str]:
    return [
        str(cap.top_k), f"{cap.nodes:.1f}", f"{cap.commit_len.value:.2f}",
        _interval(cap.commit_len, 2), share(round(cap.open, 3)),
    ]  # fmt: skip


def _chain(run: Traced, chain: Chain) -> Iterator[str]:
    least = "" if chain.exact else "at least "
    text = f"chain: commits {least}{_stated(chain.commit_len)}"
    if chain.measured and chain.against:
        text += (
            f"; {visible(chain.against, 60)} commits {chain.measured.value:.2f} "
            f"({_apart(chain.commit_len, chain.measured)})"
        )
    yield text
    most = "" if chain.exact else "at most "
    yield (
        f"the tree buys {most}{_stated(chain.gain)} drafts a step: more than the chain in "
        f"{share(round(chain.better, 3))} of {count(chain.steps, 'step')}, less in "
        f"{share(round(chain.worse, 3))}"
    )
    if not chain.exact and chain.open > 0:
        yield (
            f"in {share(round(chain.open, 3))} of the steps the chain may have gone on beyond the "
            "tree; spine_tokens and the emitted text would say"
        )
    if chain.extra_ms is None or chain.rate is None:
        build = (
            f": at least the {duration_ms(chain.build_ms)} of building it" if chain.build_ms else ""
        )
        yield f"what it costs is not known{build}; a run of the chain beside it would tell"
        return
    extra = chain.extra_ms.value
    text = f"a step takes {duration_ms(abs(extra) * run.batch)} {'longer' if extra > 0 else 'less'}"
    if extra > 0:
        text += f", so it buys {most}{figure(chain.gain.value / extra)} drafts a millisecond"
    if chain.tree_rate is not None:
        text += (
            f"; in all the tree makes {figure(chain.tree_rate)} tokens a millisecond, the chain "
            f"{figure(chain.rate)}"
        )
    yield text


# Break-even


def _break_even(cells: list[BreakEven]) -> str:
    rows = []
    for one in cells:
        mark = "" if one.measured else "~"
        pays = MISSING
        if one.commit_len is not None:
            pays = "yes" if one.commit_len > one.needed else "no"
        rows.append([
            visible(one.run, 40), visible(one.against, 40), _span(one.low, one.high),
            figure(one.batch), mark + duration_ms(one.step_ms), mark + duration_ms(one.plain_ms),
            f"{one.needed:.2f}", MISSING if one.commit_len is None else f"{one.commit_len:.2f}",
            pays,
        ])  # fmt: skip
    head = ["run", "against", "context", "batch", "step", "plain", "break-even", "commit", "pays"]
    text = "Break-even: the commit length from which a step is worth plain ones\n\n"
    text += columns(head, rows, range(2))
    if not all(one.measured for one in cells):
        text += "\n" + fill(
            "~ computed as running × commit length / throughput, not measured", "  "
        )
    return text


# Text


def _span(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return MISSING
    return figure(low) if low == high else f"{figure(low)}–{figure(high)}"


def _interval(one: Estimate | None, digits: int | None = None) -> str:
    if one is None or one.interval is None:
        return MISSING
    low, high = one.interval
    if digits is None:
        return f"{figure(low)}–{figure(high)}"
    return f"{low:.{digits}f}–{high:.{digits}f}"


def _stated(one: Estimate) -> str:
    return f"{one.value:.2f}" + (f" ({_interval(one, 2)})" if one.interval else "")


def _shallow(one: Budget) -> str:
    return "~ " if one.shallow and one.measured is None else ""


def _bounded(text: str, sign: str, one: Budget) -> str:
    return f"{sign} {text}" if one.bound and one.tokens_per_s else text


def _measured(one: Budget) -> str:
    if one.measured is None:
        return ""
    return f"{one.measured.value:.2f}  {_apart(one.commit_len, one.measured)}"


def _apart(predicted: Estimate, measured: Estimate) -> str:
    return f"{100 * (predicted.value / measured.value - 1):+.1f} %"
