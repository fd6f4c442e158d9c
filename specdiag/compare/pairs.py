"""Which requests of two arms are the same prompt, and how far their answers are compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from specdiag.compare.change import FEWEST, Unit
from specdiag.compare.samples import Asked, Cut, Samples, Series

LEAST = 0.5  # share of the smaller arm's requests that must have their like
SAME_TEXT = 0.5  # of an answer, from which on only what both arms say is compared


@dataclass(frozen=True)
class Match:
    """Requests of A and B side by side, and what of them is compared."""

    units: list[
        tuple[list[str], list[str]]
    ]  # of a pair all requests of A, and of B; empty: unpaired
    by: str = ""  # prompt, name
    cut_a: Cut = field(default_factory=Cut)
    cut_b: Cut = field(default_factory=Cut)
    alike: frozenset[str] = frozenset()  # requests of A answered by the same text, so far
    diverge: int = 0  # pairs whose answers are not

    def line_up(self, a: Series, b: Series) -> tuple[list[Unit], list[Unit]]:
        """The units of both arms, the n-th of one beside the n-th of the other."""
        left, right = [], []
        for one, other in self.units:
            if all(key in a for key in one) and all(key in b for key in other):
                left.append(_sum(a, one))
                right.append(_sum(b, other))
        return left, right


def match(a: Samples, b: Samples, kind: str, named: bool) -> Match:
    """Pairs where at least half of the requests have their like, else windows of equal length."""
    if kind not in ("step", "request") or not named:
        return _contexts(a, b, kind)
    one, other = a.asked(kind), b.asked(kind)
    for by in ("prompt", "name"):
        mine, theirs = _keys(one, by), _keys(other, by)
        common = [key for key in mine if key in theirs]
        pairs = [(mine[key], theirs[key]) for key in common]
        if len(pairs) >= max(1, LEAST * min(len(mine), len(theirs))) and (
            len(pairs) >= FEWEST or len(pairs) == min(len(one), len(other))
        ):
            return _windows(a, b, kind, by, pairs, one, other)
    if kind == "step":
        ends = [max((each.end or 0 for each in arm), default=0) for arm in (one, other)]
        cut = Cut(most=min(ends))
        return Match([], "", cut, cut)
    return Match([])


def _keys(requests: Sequence[Asked], by: str) -> dict[Hashable, list[str]]:
    found: dict[Hashable, list[str]] = defaultdict(list)
    for one in requests:
        if by == "prompt" and one.prompt:
            found[one.prompt].append(one.unit)
        elif by == "name" and one.name and one.length is not None:
            found[one.name, one.length].append(one.unit)
    return found


def _windows(
    a: Samples, b: Samples, kind: str, by: str, pairs: list[tuple[list[str], list[str]]],
    one: Sequence[Asked], other: Sequence[Asked],
) -> Match:  # fmt: skip
    if kind != "step":
        cut_a = Cut({unit: 0 for units, _ in pairs for unit in units})
        cut_b = Cut({unit: 0 for _, units in pairs for unit in units})
        return Match(pairs, by, cut_a, cut_b)
    ends_a = {each.unit: each.end or 0 for each in one}
    ends_b = {each.unit: each.end or 0 for each in other}
    texts_a, texts_b = a.texts(), b.texts()
    cut: tuple[dict[str, int], dict[str, int]] = ({}, {})
    alike: set[str] = set()
    diverge = 0
    for left, right in pairs:
        end = min(max(ends_a[unit] for unit in left), max(ends_b[unit] for unit in right))
        if texts_a.get(left[0]) and texts_b.get(right[0]):
            equal = _equal(texts_a[left[0]], texts_b[right[0]])
            if equal >= SAME_TEXT * end:
                end = min(end, equal)
                alike.add(left[0])
            else:
                diverge += 1
        cut[0].update(dict.fromkeys(left, end))
        cut[1].update(dict.fromkeys(right, end))
    return Match(pairs, by, Cut(cut[0]), Cut(cut[1]), frozenset(alike), diverge)


def _equal(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts have in common from their start."""
    length = min(len(one), len(other))
    return next((n for n in range(length) if one[n] != other[n]), length)


def _contexts(a: Samples, b: Samples, kind: str) -> Match:
    """Rows without requests, within the contexts that both arms reach."""
    one, other = a.contexts(kind), b.contexts(kind)
    if kind not in ("decode", "step") or one is None or other is None:
        return Match([])
    cut = Cut(low=max(one[0], other[0]), high=min(one[1], other[1]))
    return Match([], "", cut, cut)


def shared_starts(
    a: Samples, b: Samples, found: Match
) -> tuple[list[Unit], list[Unit]]:  # fmt: skip
    """Commit lengths where both arms start a step at the same place of the same text."""
    ends: tuple[Mapping[str, int], Mapping[str, int]] = (
        found.cut_a.ends or {}, found.cut_b.ends or {},
    )  # fmt: skip
    one, other = a.starts(ends[0]), b.starts(ends[1])
    left, right = [], []
    for mine, theirs in found.units:
        if mine[0] not in found.alike:
            continue
        here, there = one.get(mine[0], {}), other.get(theirs[0], {})
        both = sorted(here.keys() & there.keys())
        if both:
            left.append((float(len(both)), sum(here[at] for at in both)))
            right.append((float(len(both)), sum(there[at] for at in both)))
    return left, right


def _sum(series: Series, keys: Sequence[str]) -> Unit:
    return sum(series[key][0] for key in keys), sum(series[key][1] for key in keys)
