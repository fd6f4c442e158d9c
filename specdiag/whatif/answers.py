"""What `ask` answers: one record a question."""

from __future__ import annotations

from dataclasses import dataclass, field

from specdiag.estimate import Estimate


@dataclass(frozen=True)
class Budget:
    """A budget, what it would have committed, and what that is worth."""

    budget: int
    commit_len: Estimate
    step_ms: float | None = None  # of the whole batch
    tokens_per_s: Estimate | None = None  # of all requests of a batch together
    bound: bool = (
        False  # only a wider verification was measured: at least so many tokens per second
    )
    measured: Estimate | None = None  # commit length of a run at this budget
    measured_run: str | None = None
    shallow: bool = False  # the longest accepted path does not fit: its run goes by other starts


@dataclass(frozen=True)
class Best:
    """The budget with the most tokens per second, and those that are as good."""

    budget: int
    tokens_per_s: Estimate
    low: int  # budgets from low to high reach all but CLOSE of it
    high: int
    widest: bool  # it is the widest that was measured: a larger one may be better


@dataclass(frozen=True)
class Cap:
    """A smaller top-k: what it leaves of the traced tree; the freed budget could only extend it."""

    top_k: int
    nodes: float  # mean of those left
    commit_len: Estimate  # exact for a budget of so many nodes, the least for the traced budget
    open: float  # share of steps whose path the cap does not cut


@dataclass(frozen=True)
class Chain:
    """The drafter's first choices alone."""

    commit_len: Estimate
    exact: bool  # else the least: the trace holds no more of the spine than its trees do
    open: float  # share of steps in which the spine of the tree ends before the chain does
    steps: int  # that decide it
    tree_commit_len: Estimate  # of the traced tree in the same steps
    gain: Estimate  # accepted drafts of the tree minus those of the chain, a step
    better: float  # share of steps in which the tree accepts more
    worse: float  # and less
    build_ms: float | None  # what the tree costs in any case
    against: str | None = None  # a run of the chain, for the times
    extra_ms: Estimate | None = None  # what a step takes longer than the chain's
    rate: float | None = None  # tokens that the chain commits a millisecond, in its own run
    tree_rate: float | None = None  # and the tree
    measured: Estimate | None = None  # commit length of that run


@dataclass(frozen=True)
class Range:
    """A range of context lengths."""

    low: int
    high: int
    steps: int
    commit_len: Estimate  # at the traced budget
    best: Best | None


@dataclass(frozen=True)
class BreakEven:
    """Where speculation pays: a step must commit as many tokens as plain steps take its time."""

    run: str
    against: str
    low: int | None  # context
    high: int | None
    batch: int | None
    step_ms: float
    plain_ms: float
    measured: bool  # else the times are computed from throughput
    commit_len: float | None

    @property
    def needed(self) -> float:
        """The break-even commit length."""
        return self.step_ms / self.plain_ms


@dataclass
class Traced:
    """A traced run."""

    run: str
    steps: int
    requests: int
    budget: int
    branches: bool
    batch: int
    context: tuple[int, int] | None
    walk: str  # what the accepted paths are taken from: target, text, rows
    order: str  # scores, assumed, chain; or by_depth, unordered: no budget is a prefix
    deepest: int  # the longest accepted path, in drafts
    shadow: bool  # it verified a chain; of its trees only the candidates are recorded
    budgets: list[Budget] = field(default_factory=list)
    best: Best | None = None
    costed: list[int] = field(default_factory=list)  # budgets at which time was measured
    ranges: list[Range] = field(default_factory=list)
    caps: list[Cap] = field(default_factory=list)
    chain: Chain | None = None

    @property
    def prefixes(self) -> bool:
        """Whether the first nodes of a tree are the tree of a smaller budget."""
        return self.order in ("scores", "assumed", "chain")


@dataclass(frozen=True)
class Answers:
    """What all given runs say."""

    runs: list[Traced]
    break_even: list[BreakEven]

    def of(self, run: str) -> Answers:
        """Those about one run."""
        return Answers(
            [one for one in self.runs if one.run == run],
            [one for one in self.break_even if one.run == run],
        )
