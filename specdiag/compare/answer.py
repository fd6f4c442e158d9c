"""What a comparison answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from specdiag.compare.arms import Arm
from specdiag.compare.change import Change
from specdiag.compare.settings import Difference, Hindrance
from specdiag.compare.verdict import Verdict

Interval = tuple[float, float]


@dataclass
class Metric:
    """One quantity in both arms."""

    name: str
    kind: str  # of the rows it was taken from
    method: str  # paired, requests, repeats, blocks
    rises: bool  # more is better
    a: float
    b: float
    a_interval: Interval | None
    b_interval: Interval | None
    change: Change | None  # None: nothing to take a ratio of
    units: tuple[int, int]
    steps: float  # of the arm that has fewer
    verdict: Verdict = field(default_factory=lambda: Verdict("undecided"))


@dataclass(frozen=True)
class Stage:
    """A part of the step, and its part in the change of the speed."""

    name: str
    a: float
    b: float
    part: float  # of the logarithm of the speed ratio; above 0 makes B faster


@dataclass(frozen=True)
class Decomposition:
    """Logarithms of B over A: speed = commit - step + batch."""

    kind: str
    speed: float
    commit: float
    step: float
    batch: float  # requests a batch; 0 where there is one in both
    stages: list[Stage]


@dataclass
class Comparison:
    """B against A."""

    a: Arm
    b: Arm
    metrics: list[Metric] = field(default_factory=list)
    details: list[Metric] = field(default_factory=list)  # positions, contexts, stages
    decomposition: Decomposition | None = None
    hindrances: list[Hindrance] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pairs: int = 0
    identical: bool = False  # both arms hold the same figures

    @property
    def comparable(self) -> bool:
        return not self.hindrances

    def metric(self, name: str) -> Metric | None:
        return next((one for one in self.metrics if one.name == name), None)

    @property
    def decisive(self) -> Metric | None:
        """The metric that tells which arm is better."""
        names = ("tokens_per_s", "itl_ms", "step_ms", "commit_len", "ttft_ms")
        return next((one for name in names if (one := self.metric(name))), None)

    @property
    def verdict(self) -> str:
        """better, worse, same, undecided, not comparable."""
        if not self.comparable:
            return "not comparable"
        return self.decisive.verdict.kind if self.decisive else "undecided"

    @property
    def inversion(self) -> bool:
        """Faster while committing less, or slower while committing more."""
        speed, commit = self.metric("tokens_per_s"), self.metric("commit_len")
        if speed is None or commit is None or not self.comparable:
            return False
        return {speed.verdict.kind, commit.verdict.kind} == {"better", "worse"}


@dataclass(frozen=True)
class Result:
    """All comparisons that were asked for."""

    arms: list[Arm]
    comparisons: list[Comparison]
    margin: float
    main: int  # figures in the first family that is corrected together
    detail: int
