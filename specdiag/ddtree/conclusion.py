"""What a probe proves: a hard text, a drafter damaged by length, or something slow at length.

A conclusion is a function of the measured cells alone. Texts are the unit of the statistics: a
cell has one value a text, and the same texts come at every length, so that growth is measured text
by text. Intervals are 95 % for commit lengths and 99 % for times, which scatter by more than texts
do. What an interval leaves open is not claimed.

This module does not import torch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from specdiag.ddtree.estimate import Estimate, estimate, growth, typical

FEWEST_TEXTS = 3  # of a cell
FEWEST_STEPS = 12  # of a cell, all texts together
SPAN = 2.0  # the longest context must be so many times the shortest to speak of length
WELL = 0.2  # share of the drafted depths that is accepted where a text is drafted well
FALL = 0.3  # share of the accepted drafts that is lost where length does damage
FOLLOWED = 0.7  # a text is predictable if the target repeats this share of it
HARD = 0.6  # a hard text has less than this share of the predictable one's accepted drafts
GROWTH = 2.0  # times a stage must grow before anybody is told
SLOWER = 5.0  # times the growth that the arithmetic of a step explains
LINEAR = 1.1  # times the growth of the context itself, which attention can never exceed

SLOW, KEPT, OPEN = "slow", "kept", "open"


@dataclass(frozen=True)
class Cell:
    """One kind of text at one context length; lists have one value a text, in the same order."""

    kind: str  # predictable, hard, plain
    length: int  # tokens of the prompt
    steps: int
    commits: Sequence[float]  # mean commit length
    times: Mapping[str, Sequence[float]] = field(default_factory=dict)  # median ms, by stage
    followed: Sequence[float] = ()  # share of a predictable text that the target really repeats

    @property
    def thin(self) -> bool:
        """Whether it is too small to conclude anything from."""
        return len(self.commits) < FEWEST_TEXTS or self.steps < FEWEST_STEPS


@dataclass(frozen=True)
class Expected:
    """Work of a step at each length, in any unit; only ratios count."""

    target: Mapping[int, float]
    drafter: Mapping[int, float]


@dataclass(frozen=True)
class Conclusion:
    """A code for programs and a sentence for people."""

    code: str
    text: str


def conclude(cells: Sequence[Cell], depths: int, expected: Expected) -> list[Conclusion]:
    """All that the cells prove, drafting first; `depths` is how deep a step can be accepted."""
    by_kind = {
        kind: sorted((cell for cell in cells if cell.kind == kind), key=lambda cell: cell.length)
        for kind in ("predictable", "hard", "plain")
    }
    found = [_drafting(by_kind["predictable"], by_kind["hard"], depths)]
    found += _target(by_kind, expected.target)
    found += _drafter(by_kind, expected.drafter)
    if all(one.code == "healthy" for one in found):
        return [Conclusion("healthy", " ".join(["Nothing is wrong.", *(f.text for f in found)]))]
    return found


# Drafting


def _drafting(easy: Sequence[Cell], hard: Sequence[Cell], depths: int) -> Conclusion:
    thin = [cell for cell in easy if cell.thin]
    if thin or not easy:
        return Conclusion("undecided", _too_few(thin, "Drafting"))
    means = [estimate(cell.commits) for cell in easy]
    left = next((cell for cell in easy if _strays(cell)), None)
    if left is not None:
        return Conclusion(
            "undecided",
            f"Drafting is undecided: at {left.length:,} tokens the target itself leaves the "
            f"predictable text ({statistics.fmean(left.followed):.0%} of its tokens repeat it), so "
            "what is drafted there is another text. Take a text that this target continues.",
        )
    level = 1 + WELL * depths
    shown = f"{_series(easy)} tokens a step on predictable text at {_lengths(easy)} of context"
    lost = [_loss(easy[0], cell) for cell in easy]
    apart = easy[-1].length >= SPAN * easy[0].length
    if means[0].low >= level and apart and lost[-1].low > 0 and lost[-1].value >= FALL:
        at = next(cell.length for cell, one in zip(easy, lost, strict=True) if one.value >= FALL)
        return Conclusion(
            "drafter_damaged",
            f"The drafter is damaged by length: {shown}. The same text is drafted worse from "
            f"{at:,} tokens on, so it is not the text: look at the drafter's positions (RoPE "
            "scaling), its window, and the context features it is given.",
        )
    if all(mean.high < level for mean in means):
        return Conclusion(
            "drafter_weak",
            f"The drafter is weak at every length: {shown}, of {depths + 1} possible. Length is "
            "not the cause: look at its tap layers, mask id and output head, or train it.",
        )
    if not all(mean.low >= level for mean in means):
        return Conclusion(
            "undecided",
            f"Drafting is undecided: {shown}, where {level:.1f} would be well; the intervals leave "
            "it open. Repeat with more texts.",
        )
    thin = [cell for cell in hard if cell.thin]
    if thin or [cell.length for cell in hard] != [cell.length for cell in easy]:
        return Conclusion("undecided", _too_few(thin, "Whether the text is hard"))
    harder = [
        estimate(h.commits).high < mean.low
        and estimate(h.commits).value - 1 < HARD * (mean.value - 1)
        for h, mean in zip(hard, means, strict=True)
    ]
    if all(harder):
        return Conclusion(
            "text_hard",
            f"The text is hard: {shown}, {_series(hard)} on hard text at the same lengths. The "
            "drafter works at every length; where a text commits little, it is the text.",
        )
    return Conclusion(
        "healthy", f"The drafter works at every length: {shown}, {_series(hard)} on hard text."
    )


def _strays(cell: Cell) -> bool:
    return bool(cell.followed) and statistics.fmean(cell.followed) < FOLLOWED


def _loss(short: Cell, long: Cell) -> Estimate:
    """Which share of its accepted drafts the same text loses, text by text."""
    accepted = statistics.fmean(short.commits) - 1
    pairs = zip(short.commits, long.commits, strict=True)
    return estimate([(a - b) / max(accepted, 1e-9) for a, b in pairs])


# Time


def _target(by_kind: Mapping[str, list[Cell]], work: Mapping[int, float]) -> list[Conclusion]:
    verify = _times(by_kind, ("predictable", "hard"), "verify")
    plain = _times(by_kind, ("plain",), "step")
    open_ = _length_open(verify, "The target's time at length")
    if open_:
        return [open_]
    paces = _pace(verify, work), _pace(plain, work)
    said = f"verification takes {_grown(verify)}"
    if len(plain) > 1:
        said += f", a plain step {_grown(plain)}"
    if SLOW not in paces:
        if OPEN in paces:
            return [_open_pace("The target's", said)]
        return [Conclusion("healthy", f"The target keeps its pace: {said}.")]
    if paces == (SLOW, SLOW):
        cause = "Plain decoding slows down too: it is the target's attention, not speculation."
    elif paces[0] == SLOW:
        cause = "Plain decoding is not so: it is how many rows, or a tree's mask, are handled."
    else:
        cause = "Verification is not so: it is the path that plain decoding takes."
    return [
        Conclusion(
            "target_slow",
            f"The target is slow at length: {said}, where arithmetic explains "
            f"{_explained(verify, work)}. {cause}",
        )
    ]


def _drafter(by_kind: Mapping[str, list[Cell]], work: Mapping[int, float]) -> list[Conclusion]:
    draft = _times(by_kind, ("predictable", "hard"), "draft")
    if _length_open(draft, "") is not None:
        return []  # for the same reason as the target's, which has said so
    pace = _pace(draft, work)
    if pace == OPEN:
        return [_open_pace("The drafter's", f"drafting takes {_grown(draft)}")]
    if pace == KEPT:
        return [Conclusion("healthy", f"Drafting takes {_grown(draft)}.")]
    return [
        Conclusion(
            "draft_slow",
            f"The drafter is slow at length: drafting takes {_grown(draft)}, where arithmetic "
            f"explains {_explained(draft, work)}. With a cache and a window it should stay nearly "
            "flat: see whether it reads the whole context again in each step.",
        )
    ]


def _open_pace(whose: str, said: str) -> Conclusion:
    return Conclusion(
        "undecided",
        f"{whose} time at length is undecided: {said}. The interval is too wide; repeat more often "
        "or on a quieter machine.",
    )


def _times(
    by_kind: Mapping[str, list[Cell]], kinds: Sequence[str], stage: str
) -> dict[int, list[float]]:
    """The times of a stage at each length, text by text, all kinds side by side."""
    found: dict[int, list[float]] = {}
    for kind in kinds:
        for cell in by_kind[kind]:
            found.setdefault(cell.length, []).extend(cell.times.get(stage, ()))
    return {length: times for length, times in sorted(found.items()) if times}


def _length_open(times: Mapping[int, list[float]], what: str) -> Conclusion | None:
    if len(times) < 2 or max(times) < SPAN * min(times):
        return Conclusion(
            "undecided", f"{what} is undecided: measure lengths that differ by {SPAN:g}x or more."
        )
    if min(map(len, times.values())) < FEWEST_TEXTS:
        return Conclusion(
            "undecided", f"{what} is undecided: {FEWEST_TEXTS} texts a length are needed."
        )
    return None


def _pace(times: Mapping[int, list[float]], work: Mapping[int, float]) -> str:
    """Whether a time surely grows by more than its work and the context explain, or surely not."""
    if _length_open(times, "") is not None:
        return KEPT
    short, long = min(times), max(times)
    grown = growth(times[short], times[long])
    explained = 1 + SLOWER * (work[long] / work[short] - 1)
    limit = max(min(explained, LINEAR * long / short), GROWTH)
    if grown.low > limit:
        return SLOW
    return OPEN if grown.high > limit else KEPT


# Words


def _too_few(thin: Sequence[Cell], what: str) -> str:
    need = f"{FEWEST_TEXTS} texts and {FEWEST_STEPS} steps are needed at each length"
    if not thin:
        return f"{what} is undecided: {need}."
    worst = min(thin, key=lambda cell: cell.steps)
    return (
        f"{what} is undecided: {len(worst.commits)} texts with {worst.steps} steps of {worst.kind} "
        f"text at {worst.length:,} tokens, where {need}. Repeat more often, or ask for more tokens."
    )


def _series(cells: Sequence[Cell]) -> str:
    return _list(f"{statistics.fmean(cell.commits):.2f}" for cell in cells)


def _lengths(cells: Sequence[Cell]) -> str:
    return f"{_list(f'{cell.length:,}' for cell in cells)} tokens"


def _list(parts: Iterable[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else str(last)


def _grown(times: Mapping[int, list[float]]) -> str:
    short, long = min(times), max(times)
    grown = growth(times[short], times[long])
    power = math.log(grown.value) / math.log(long / short)
    return (
        f"{typical(times[short]):.2f} ms at {short:,} tokens and "
        f"{typical(times[long]):.2f} ms at {long:,} ({grown.value:.2f}x, "
        f"{grown.low:.2f} to {grown.high:.2f}; context^{power:.2f})"
    )


def _explained(times: Mapping[int, list[float]], work: Mapping[int, float]) -> str:
    return f"{work[max(times)] / work[min(times)]:.2f}x"
