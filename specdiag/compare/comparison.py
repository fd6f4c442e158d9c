"""Two arms become a comparison, and all comparisons together get their verdicts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from specdiag.compare import change, pairs, verdict
from specdiag.compare.answer import Comparison, Decomposition, Metric, Result, Stage
from specdiag.compare.arms import Arm
from specdiag.compare.pairs import Match
from specdiag.compare.samples import KINDS, METRICS, Samples, Series
from specdiag.compare.settings import Hindrance, settings
from specdiag.compare.verdict import Verdict

CORE = ("tokens_per_s", "commit_len", "step_ms")
STEADY, STARTING = 1.2, 1.5  # how much longer the first steps take: no more, and too much
METHODS = {"request": "requests", "step": "requests", "benchmark": "repeats"}


def compare_all(groups: Sequence[Sequence[Arm]], margin: float, every: bool = False) -> Result:
    """Of each group every arm against the first, or with `every` against each other."""
    found = []
    for arms in groups:
        two = itertools.combinations(arms, 2) if every else ((arms[0], one) for one in arms[1:])
        found += [_compare(a, b) for a, b in two]
    main = [one for each in found for one in each.metrics]
    details = [one for each in found for one in each.details]
    _judge(main, margin)
    _judge(details, margin)
    for each in found:
        if not each.comparable:
            for one in (*each.metrics, *each.details):
                one.verdict = Verdict("none")
    sizes = [sum(one.change is not None and one.change.p is not None for one in family)
             for family in (main, details)]  # fmt: skip
    return Result([arm for arms in groups for arm in arms], found, margin, *sizes)


def _judge(metrics: Sequence[Metric], margin: float) -> None:
    """Verdicts of a family of figures, corrected together."""
    ps = [one.change.p if one.change else None for one in metrics]
    family = sum(p is not None for p in ps)
    for one, p in zip(metrics, verdict.holm(ps), strict=True):
        one.verdict = verdict.judge(one.change, p, one.rises, margin, family, one.steps)


def _compare(a: Arm, b: Arm) -> Comparison:
    found = Comparison(a, b)
    known = settings(a, b)
    found.differences = known.differences
    left, right = Samples(a.store, a.run), Samples(b.store, b.run)
    mine, theirs = left.kinds(), right.kinds()
    views = {
        kind: _View(left, right, kind, mine[kind] and theirs[kind])
        for kind in KINDS if kind in mine and kind in theirs
    }  # fmt: skip
    views = {kind: view for kind, view in views.items() if view.names}
    if not views:
        found.notes.append(
            f"the arms have no kind of rows in common: {_listed(mine)} against {_listed(theirs)}"
        )
    core = _core(views)
    order = sorted(views, key=lambda kind: (kind != core, KINDS.index(kind)))
    found.metrics = [one for name in METRICS if (one := _first(views, order, name))]
    seen = {name for kind in order for name in views[kind].names if name not in METRICS}
    if sum(name.startswith("commit_len_at") for name in seen) < 2:  # one range is all there is
        seen = {name for name in seen if not name.startswith("commit_len_at")}
    found.details = [
        one for name in sorted(seen, key=_place) if (one := _first(views, order, name))
    ]
    if core:
        _look_closer(found, views[core], core)
    _hinder(found, known.hindrances, known.same_prompts, views)
    return found


class _View:
    """What both arms measured in one kind of row."""

    def __init__(self, a: Samples, b: Samples, kind: str, named: bool) -> None:
        self.a, self.b, self.kind, self.named = a, b, kind, named
        self.match: Match = pairs.match(a, b, kind, named)
        self.left = a.measured(kind, self.match.cut_a)
        self.right = b.measured(kind, self.match.cut_b)
        self.names = {name for name in self.left if name in self.right}
        self.identical = self.left == self.right
        self.steps = min(a.steps(kind), b.steps(kind))

    def metric(self, name: str) -> Metric | None:
        one, other = self.left[name], self.right[name]
        share = name.startswith("accept_")
        rises = share or name.startswith(("tokens", "commit_len"))
        left, right = list(one.values()), list(other.values())
        method = METHODS.get(self.kind, "blocks") if self.named else "blocks"
        if self.match.units:
            left, right = self.match.line_up(one, other)
            method = "paired"
        values = change.ratio(left), change.ratio(right)
        if values[0] is None or values[1] is None or (share and not any(values)):
            return None
        compared = {"paired": change.paired, "blocks": change.rows}.get(method, change.independent)
        return self._metric(name, method, rises, left, right, compared(left, right, not share))

    def _metric(
        self, name: str, method: str, rises: bool, left: list[change.Unit],
        right: list[change.Unit], found: change.Change | None,
    ) -> Metric:  # fmt: skip
        if left == right and found and (self.identical or len(left) >= change.FEWEST):
            found = change.Change(0.0, 0.0, 1.0, 0.0, 1.0, len(left), found.log)
        sides = []
        for units in (left, right):
            shown, loss = change.blocks(units) if method == "blocks" else (units, 1.0)
            sides.append((change.ratio(units) or 0.0, change.interval(shown, loss)))
        (a, around_a), (b, around_b) = sides
        return Metric(
            name, self.kind, method, rises, a, b, around_a, around_b, found,
            (len(left), len(right)), self.steps,
        )  # fmt: skip


def _core(views: dict[str, _View]) -> str | None:
    """The kind of rows that the speed and both its factors are taken from, paired if possible."""
    whole = [kind for kind, view in views.items() if view.names.issuperset(CORE)]
    return min(
        whole, key=lambda kind: (not views[kind].match.units, KINDS.index(kind)), default=None
    )


def _first(views: dict[str, _View], order: Sequence[str], name: str) -> Metric | None:
    """A metric by the first kind that has it, preferably one that can tell it from chance."""
    found = [
        one for kind in order if name in views[kind].names and (one := views[kind].metric(name))
    ]
    sure = [one for one in found if one.change is not None and one.change.error is not None]
    return next(iter(sure or found), None)


def _place(name: str) -> tuple[str, int, str]:
    """Stages by name; positions and contexts by their number."""
    head, _, number = name.rpartition("_")
    return (head, int(number), "") if number.isdigit() else (name, 0, name)


def _look_closer(found: Comparison, view: _View, kind: str) -> None:
    """Why one arm is faster, and what pairs and texts say of the method."""
    found.identical = view.identical
    found.pairs = len(view.match.units)
    found.decomposition = _decompose(view, kind)
    if view.match.alike:
        left, right = pairs.shared_starts(view.a, view.b, view.match)
        if left:
            compared = change.paired(left, right)
            found.details.append(
                view._metric("commit_len_at_shared_starts", "paired", True, left, right, compared)
            )
        found.notes.append(
            f"{len(view.match.alike)} of {found.pairs} pairs gave the same text, and are compared "
            "as far as it is the same"
        )
    if view.match.diverge:
        found.notes.append(
            f"{view.match.diverge} of {found.pairs} pairs gave other texts: their answers are "
            "compared by position"
        )


def _decompose(view: _View, kind: str) -> Decomposition | None:
    values = {}
    for name in CORE:
        metric = view.metric(name)
        if metric is None or metric.a <= 0 or metric.b <= 0:
            return None
        values[name] = math.log(metric.b / metric.a)
    speed, commit, step = (values[name] for name in CORE)
    batch = speed - commit + step
    stages = _stages(view, step)
    return Decomposition(kind, speed, commit, step, 0.0 if abs(batch) < 1e-9 else batch, stages)


def _stages(view: _View, step: float) -> list[Stage]:
    """Each stage's share in the change of the step, and what no stage accounts for."""
    whole = view.metric("step_ms")
    left = {name for name in (*view.left, *view.right) if name.startswith("stage_")}
    if whole is None or not left or whole.a == whole.b:
        return []
    found = []
    rest_a, rest_b = whole.a, whole.b
    for name in sorted(left):
        a, b = (_mean(side, name, side["step_ms"]) for side in (view.left, view.right))
        rest_a, rest_b = rest_a - a, rest_b - b
        found.append(
            Stage(name.removeprefix("stage_"), a, b, -step * (b - a) / (whole.b - whole.a))
        )
    if max(abs(rest_a), abs(rest_b)) > 0.01 * whole.a:
        part = -step * (rest_b - rest_a) / (whole.b - whole.a)
        found.append(Stage("rest", rest_a, rest_b, part))
    return sorted(found, key=lambda one: (-abs(one.part), one.name))


def _mean(side: dict[str, Series], name: str, whole: Series) -> float:
    """Milliseconds of a stage in each step, those included that do not have it."""
    total = math.fsum(y for _, y in side.get(name, {}).values())
    return total / math.fsum(x for x, _ in whole.values())


def _hinder(
    found: Comparison, known: Sequence[Hindrance], same: bool | None, views: dict[str, _View]
) -> None:
    """What speaks against the comparison, without what the method has taken care of."""
    kinds = {one.kind for one in found.metrics}
    matched = any(view.match.units for kind, view in views.items() if kind in kinds)
    for one in known:
        if one.what == "server":
            found.notes.append(f"the arms are other servers: {one.a} against {one.b}")
        elif one.what == "prompts" and matched and one.a is None:
            found.notes.append(f"only the {found.pairs} prompts that both arms have are compared")
        elif one.what == "length" and not kinds & {"request", "benchmark"}:
            found.notes.append(f"answers are not as long: {one.a} against {one.b}")
        else:
            found.hindrances.append(one)
    if same is None and not matched and not found.identical:
        found.notes.append("whether the prompts are the same is not known")
    for view in views.values():
        if view.kind in kinds and (late := _warm(view)):
            found.hindrances.append(late)
            break
    overlap = [view.match.cut_a for view in views.values() if view.kind == "decode"]
    if overlap and not kinds and overlap[0].low is not None:
        found.hindrances.append(Hindrance("context"))


def _warm(view: _View) -> Hindrance | None:
    """One arm is still warming up in its first steps, the other is not."""
    early = view.a.early(view.kind), view.b.early(view.kind)
    if early[0] is None or early[1] is None:
        return None
    one, other = (first / rest for first, rest in (early[0], early[1]))
    if max(one, other) < STARTING or min(one, other) > STEADY:
        return None
    return Hindrance(
        "warm-up", f"first steps take {one:.1f} times as long as later ones", f"{other:.1f} times"
    )


def _listed(kinds: dict[str, bool]) -> str:
    return ", ".join(kind for kind in KINDS if kind in kinds) or "nothing"
