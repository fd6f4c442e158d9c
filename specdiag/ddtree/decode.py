"""The decoding loop: draft, build, compile, verify, walk, commit; one loop for every mode.

The modes differ in the tree that is verified, and in nothing else:

autoregressive  the root alone
linear          the chain of the drafter's first choices
ddtree          the best-first tree of `budget` nodes
shadow_linear   the chain; the tree is built, and walked along the text afterwards by a reader

The target chooses behind every row, and a path is followed as far as the choices are in the tree
(sample and match), so each mode emits the target's own text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specdiag.ddtree.cache import Cache
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.model import Output, Target
from specdiag.ddtree.trace import StepRecord
from specdiag.ddtree.tree import Candidates, Tree, build, candidates
from specdiag.ddtree.verify import Pass, Sampling, accept, choose, compile, verify
from specdiag.errors import SpecdiagError

MODES = ("autoregressive", "linear", "ddtree", "shadow_linear")
STAGES = ("draft", "build", "compile", "verify", "walk", "commit")
ALGORITHMS = {
    "autoregressive": "NONE", "linear": "DFLASH", "ddtree": "DDTREE", "shadow_linear": "DDTREE",
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What to continue, and until when."""

    name: str
    prompt: Sequence[int]
    max_new_tokens: int
    budget: int | None = None  # of its own, instead of the options'
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True)
class Options:
    """What holds for all requests of a batch."""

    mode: str = "ddtree"
    budget: int = 32
    top_k: int = 8
    depth_limit: int | None = None
    depth_bonus: float = 0.0
    stop_ids: frozenset[int] = frozenset()
    run: str = "run"


@dataclass
class Result:
    """What a request received. The first token is prefill's; every step adds to the others."""

    request: Request
    tokens: list[int] = field(default_factory=list)
    finish: str | None = None
    steps: int = 0

    @property
    def commit_len(self) -> float:
        """Mean tokens a step."""
        return (len(self.tokens) - 1) / self.steps if self.steps else float("nan")


@dataclass
class _Drafted:
    """What one step drafted."""

    candidates: list[Candidates | None]  # of each batch row
    trees: list[Tree]  # that are verified
    shadows: list[Tree | None]  # that are built only
    block: Tensor | None  # [batch, block]
    kv_before: list[int]
    kv_after: list[int]


@torch.no_grad()
def decode(
    target: Target,
    drafter: Drafter | None,
    requests: Sequence[Request],
    options: Options,
    on_tokens: Callable[[Request, list[int]], None] | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
) -> list[Result]:
    """Continue all requests together, each to its own end.

    `on_tokens` streams what a request receives, `on_step` the record of each of its steps.
    Raises SpecdiagError for options that do not fit and for a context that is too long.
    """
    _check(target, drafter, requests, options)
    loop = _Loop(target, drafter, requests, options, on_tokens, on_step)
    loop.prefill()
    while loop.active:
        loop.step()
    return loop.results


def _check(
    target: Target, drafter: Drafter | None, requests: Sequence[Request], options: Options
) -> None:
    if options.mode not in MODES:
        raise SpecdiagError(f"{options.mode!r} is no mode", help=f"one of {', '.join(MODES)}")
    if options.mode != "autoregressive" and drafter is None:
        raise SpecdiagError(f"mode {options.mode} needs a drafter", help="or use autoregressive")
    if options.budget < 0 or options.top_k < 1:
        raise SpecdiagError(
            f"budget {options.budget} and top-k {options.top_k} draft nothing",
            help="budget is 0 or more, top-k 1 or more",
        )
    longest = target.architecture.max_position_embeddings
    for request in requests:
        if not request.prompt or request.max_new_tokens < 1:
            raise SpecdiagError("a request needs a prompt and room for a token", request.name)
        if len(request.prompt) + request.max_new_tokens > longest:
            raise SpecdiagError(
                f"{len(request.prompt)} + {request.max_new_tokens} tokens are more than the "
                f"target's {longest} positions",
                request.name,
                "shorten the prompt, or ask for fewer tokens",
            )


class _Loop:
    """The state of a batch between its steps."""

    def __init__(
        self, target: Target, drafter: Drafter | None, requests: Sequence[Request],
        options: Options, on_tokens: Callable[[Request, list[int]], None] | None,
        on_step: Callable[[StepRecord], None] | None,
    ) -> None:  # fmt: skip
        self.target, self.options = target, options
        self.drafter = None if options.mode == "autoregressive" else drafter
        self.on_tokens, self.on_step = on_tokens, on_step
        self.results = [Result(request) for request in requests]
        self.width = self._width()
        room = max(len(r.prompt) + r.max_new_tokens for r in requests) + self.width
        self.cache = target.cache(len(requests), room)
        self.draft_cache: Cache | None = None
        if self.drafter is not None:
            block = self.drafter.architecture.block_size
            self.draft_cache = self.drafter.cache(len(requests), room + block)
        self.taps = self.drafter.taps if self.drafter else ()
        self.roots = [0] * len(requests)
        self.features: Tensor | None = None  # [batch, row, tap * hidden] not yet in the draft cache
        self.fresh = [0] * len(requests)  # how many of these rows are real
        self.sources: list[list[int]] = [[] for _ in requests]  # the rows they come from
        self.times: dict[str, float] = {}

    @property
    def active(self) -> list[int]:
        """Batch rows that are not finished."""
        return [row for row, result in enumerate(self.results) if result.finish is None]

    def prefill(self) -> None:
        """Run the prompts; the first token of each request comes from here and from no step."""
        prompts = [result.request.prompt for result in self.results]
        out = self.target.prefill(prompts, self.cache, self.taps)
        self.features, self.fresh = out.features, [len(prompt) for prompt in prompts]
        self.sources = [[] for _ in prompts]
        for row, result in enumerate(self.results):
            last = torch.tensor([len(prompts[row]) - 1])
            (token,) = choose(out.logits[row], last, result.request.sampling).tolist()
            self._emit(row, [token])
            self.roots[row] = token

    def step(self) -> None:
        """One draft-verify-commit round of every active request."""
        self.times = {}
        began = time.perf_counter()
        active = self.active
        starts = self.cache.known_lengths.tolist()
        context = list(self.fresh), self.sources
        drafted = self._draft(active)
        with self._clock("compile"):
            given = compile(drafted.trees, starts, self.width, self.target.device)
        with self._clock("verify"):
            out = verify(self.target, given, self.cache, self.taps)
        with self._clock("walk"):
            chosen, accepted, bonus = self._walk(active, drafted.trees, given, out)
        with self._clock("commit"):
            self.cache.commit(accepted, out.states)
            self._keep_features(out, accepted)
        step_ms = 1000 * (time.perf_counter() - began)
        for row in active:
            tokens = [*drafted.trees[row].tokens[accepted[row][1:]].tolist(), bonus[row]]
            emitted, cut = self._emit(row, tokens)
            self.results[row].steps += 1
            if self.on_step is not None:
                record = self._record(row, drafted, given, chosen[row], accepted[row], starts[row])
                record.bonus, record.bonus_row = bonus[row], accepted[row][-1]
                record.emitted, record.cut = emitted, cut
                record.finish = self.results[row].finish
                record.batch, record.step_ms = len(active), step_ms
                record.context_rows = context[0][row]
                record.context_start = starts[row] - context[0][row]
                record.context_source = context[1][row] or None
                self.on_step(record)
            self.roots[row] = bonus[row]

    # Stages

    def _draft(self, active: list[int]) -> _Drafted:
        options, drafter = self.options, self.drafter
        roots = torch.tensor(self.roots, device=self.target.device)
        block, logits = None, None
        before: list[int] = [0] * len(self.roots)
        after = before
        with self._clock("draft"):
            if drafter is not None and self.draft_cache is not None:
                assert self.features is not None
                before = self.draft_cache.known_lengths.tolist()
                drafter.append(self.features, self.fresh, self.draft_cache)
                after = self.draft_cache.known_lengths.tolist()
                block = drafter.block(roots)
                logits = drafter(block, self.draft_cache, self.target)
        found = _Drafted([], [], [], block, before, after)
        with self._clock("build"):
            for row, root in enumerate(self.roots):
                table, tree, shadow = None, _alone(root), None
                if logits is not None and row in active:
                    table = candidates(logits[row], options.top_k)
                    tree, shadow = self._plan(row, root, table)
                found.candidates.append(table)
                found.trees.append(tree)
                found.shadows.append(shadow)
        return found

    def _plan(self, row: int, root: int, table: Candidates) -> tuple[Tree, Tree | None]:
        """The tree to verify, and the one to build beside it."""
        options = self.options
        first = Candidates(table.tokens[:, :1], table.log_probs[:, :1])
        chain = build(root, first, len(first.tokens), options.depth_limit)
        if options.mode == "linear":
            return chain, None
        budget = self.results[row].request.budget
        budget = options.budget if budget is None else budget
        tree = build(root, table, budget, options.depth_limit, options.depth_bonus)
        return (chain, tree) if options.mode == "shadow_linear" else (tree, None)

    def _walk(
        self, active: list[int], trees: list[Tree], given: Pass, out: Output
    ) -> tuple[list[Tensor], list[list[int]], list[int]]:
        chosen: list[Tensor] = []
        accepted: list[list[int]] = []
        bonus: list[int] = []
        for row, result in enumerate(self.results):
            rows = trees[row].nodes + 1
            behind = given.positions[row, :rows].cpu()
            choice = choose(out.logits[row, :rows], behind, result.request.sampling).cpu()
            path, token = accept(trees[row], choice)
            chosen.append(choice)
            accepted.append(path if row in active else [])
            bonus.append(token)
        return chosen, accepted, bonus

    def _keep_features(self, out: Output, accepted: list[list[int]]) -> None:
        """The features of the accepted rows, in path order, for the next draft."""
        self.fresh, self.sources = [len(path) for path in accepted], accepted
        if out.features is not None:
            most = max(self.fresh)
            rows = torch.tensor([[*path, *[0] * (most - len(path))] for path in accepted])
            rows = rows.to(out.features.device)[:, :, None]
            self.features = out.features.gather(1, rows.expand(-1, -1, out.features.shape[-1]))

    def _emit(self, row: int, tokens: list[int]) -> tuple[list[int], str | None]:
        """Hand tokens to a request up to its end; what was kept, and why not all."""
        result, cut = self.results[row], None
        for place, token in enumerate(tokens, start=1):
            if token in self.options.stop_ids:
                result.finish = "stop"
            elif len(result.tokens) + place >= result.request.max_new_tokens:
                result.finish = "length"
            if result.finish is not None:
                cut = result.finish if place < len(tokens) else None
                tokens = tokens[:place]
                break
        result.tokens += tokens
        if self.on_tokens is not None:
            self.on_tokens(result.request, tokens)
        return tokens, cut

    # Bookkeeping

    def _width(self) -> int:
        """Rows of a verification, the same in every step."""
        if self.drafter is None:
            return 1
        if self.options.mode == "ddtree":
            own = [result.request.budget for result in self.results]
            return 1 + max(self.options.budget if each is None else each for each in own)
        return self.drafter.architecture.block_size

    @contextmanager
    def _clock(self, stage: str) -> Iterator[None]:
        on_device = self.target.device.type == "cuda"
        start = time.perf_counter()
        yield
        if on_device:
            torch.cuda.synchronize()
        self.times[stage] = 1000 * (time.perf_counter() - start)

    def _record(
        self, row: int, drafted: _Drafted, given: Pass, chosen: Tensor, accepted: list[int],
        start: int,
    ) -> StepRecord:  # fmt: skip
        """What the step of a batch row consumed and did, as the loop itself has it."""
        options, result = self.options, self.results[row]
        tree, table = drafted.trees[row], drafted.candidates[row]
        budget = result.request.budget
        budget = options.budget if budget is None else budget
        if options.mode in ("linear", "autoregressive"):
            budget = tree.nodes
        count = len(accepted)
        record = StepRecord(
            run=options.run, request=result.request.name, step=result.steps - 1, row=row,
            batch=len(self.results), mode=options.mode,
            algorithm_requested=ALGORITHMS[options.mode], algorithm=ALGORITHMS[options.mode],
            ctx_len=start, root=int(tree.tokens[0]), budget_requested=budget, budget=budget,
            top_k=options.top_k if options.mode in ("ddtree", "shadow_linear") else 1,
            nodes=tree.nodes, width=self.width,
            draft_kv_before=drafted.kv_before[row], draft_kv_after=drafted.kv_after[row],
            accepted=accepted, kv_before=start, kv_verified=start + self.width,
            kv_after=int(self.cache.known_lengths[row]),
            kv_source=[start + node for node in accepted],
            kv_target=list(range(start, start + count)),
            state_row=accepted[-1] if self.cache.states else None,
            accepted_depth=float(tree.depths[accepted[-1]]), accepted_drafts=float(count - 1),
            commit_len=float(count),
            node_tokens=tree.tokens.tolist(), parents=tree.parents.tolist(),
            depths=tree.depths.tolist(), ranks=tree.ranks.tolist(),
            log_probs=tree.log_probs.tolist(),
            positions=given.positions[row, : tree.nodes + 1].tolist(),
            target_tokens=chosen.tolist(),
        )  # fmt: skip
        for stage in STAGES:
            setattr(record, f"{stage}_ms", self.times[stage])
        if table is not None and drafted.block is not None:
            record.block_tokens, record.block_start = drafted.block[row].tolist(), start
            record.spine_tokens = table.tokens[:, 0].tolist()
        if table is not None and drafted.shadows[row] is not None:
            # The shadow tree is the prefix of what its candidates define; they are enough.
            record.candidate_tokens = table.tokens.tolist()
            record.candidate_log_probs = table.log_probs.tolist()
        return record


def _alone(root: int) -> Tree:
    """The root without drafts: plain decoding, and finished rows of a batch."""
    one = torch.zeros(1, dtype=torch.int64)
    return Tree(torch.tensor([root]), one - 1, one, one, torch.zeros(1))
