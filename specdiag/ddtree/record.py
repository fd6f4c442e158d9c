"""The record of a step: what its passes consumed, what came out of it, how long each stage took.

The loop hands over one `Step` and knows nothing of columns. What the loop merely intended is not
enough: a `Watch` sees what reaches the layers themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from specdiag.ddtree import detail
from specdiag.ddtree.cache import Cache
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.grammar import Reading
from specdiag.ddtree.model import Output, Target
from specdiag.ddtree.trace import StepRecord
from specdiag.ddtree.tree import Candidates, Tree
from specdiag.ddtree.verify import Pass, best
from specdiag.ddtree.watch import Consumed, Watch

if TYPE_CHECKING:
    from specdiag.ddtree.decode import Options, Result


STAGES = ("draft", "topk", "build", "compile", "verify", "walk", "commit")
STEPS, BYTES, SECONDS = 32, 2**22, 0.2  # that wait together at most; bytes of their logits


@dataclass
class Drafted:
    """What one step drafted; autoregressive steps have trees of the root alone."""

    trees: list[Tree]  # that are verified, one of each batch row
    kv_before: list[int] = field(default_factory=list)  # rows in the draft cache, before and
    kv_after: list[int] = field(default_factory=list)  # after the new context
    context_start: Tensor | None = None  # [batch] position of the first row of it
    block: Tensor | None = None  # [batch, block] the drafter's input
    logits: Tensor | None = None  # [batch, L, vocab]
    table: Candidates | None = None  # [batch, L, K]


class Counters(NamedTuple):
    """What is counted of a step: depth of its last row, drafts, and tokens with the bonus."""

    depth: float
    drafts: float
    commit: float


@dataclass
class Step:
    """What the loop knows of one step; lists have one entry for each batch row."""

    active: list[int]  # the batch rows that take part
    starts: list[int]  # position of each root
    context_rows: list[int]  # features that went into the draft cache,
    context_sources: list[list[int]]  # and the verify rows they come from, [] after prefill
    drafted: Drafted
    given: Pass
    out: Output
    chosen: list[Tensor]  # [N + 1] the target's choices
    accepted: list[list[int]]
    bonus: list[int]
    emitted: dict[int, list[int]] = field(default_factory=dict)
    cuts: dict[int, str | None] = field(default_factory=dict)
    counters: dict[int, Counters] = field(default_factory=dict)


def count(step: Step, row: int) -> Counters:
    """What is counted of a batch row."""
    path = step.accepted[row]
    depth = float(step.drafted.trees[row].depths[path[-1]])
    return Counters(depth, float(len(path) - 1), float(len(path)))


class Clock:
    """Times the stages of a step, where the work is done: on CUDA by events in the stream.

    Stages follow each other without gaps and sum to the step. Nobody waits for the device before
    the step is over.
    """

    def __init__(self, device: torch.device, running: bool = True) -> None:
        self.device, self.running = device, running
        self.marks: list[Any] = [self._now()] if running else []
        self.stages: list[str] = []

    def start(self) -> None:
        """A step begins; what passed since the last one was idle time."""
        self.marks, self.stages = self.marks[-1:], []
        self.lap("idle")

    def lap(self, stage: str) -> None:
        """What passed since the last mark was this stage."""
        if self.running:
            self.marks.append(self._now())
            self.stages.append(stage)

    def times(self) -> dict[str, float]:
        """Milliseconds of each stage."""
        pairs = pairwise(self.marks)
        if self.device.type != "cuda":
            spans = [1000 * (end - begin) for begin, end in pairs]
        else:
            self.marks[-1].synchronize()
            spans = [begin.elapsed_time(end) for begin, end in pairs]
        return dict(zip(self.stages, spans, strict=True))

    def _now(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        mark.record(torch.cuda.current_stream(self.device))
        return mark


@dataclass
class _Held:
    """A step that is over, with what the next one changes."""

    step: Step
    read: Consumed
    times: dict[str, float]
    windows: list[int | None]  # of the drafter's layers
    lengths: list[int]  # of the cache
    numbers: list[int]  # of the step, by batch row
    finishes: list[str | None]
    promoted: Sequence[int]  # rows whose recurrent state was kept
    checkpoints: Sequence[dict[int, int]]  # what a prefix cache took, see prefix.py


class Recorder:
    """Turns steps into records, with the optional parts of `options.detail`; a `with` block.

    A step by itself throws all that this needs out of the processor's caches, and then it takes
    twice the time. So steps wait until there are a few, unless they are long or large.
    """

    def __init__(
        self, target: Target, drafter: Drafter | None, cache: Cache, results: Sequence[Result],
        options: Options, on_step: Callable[[StepRecord], None],
    ) -> None:  # fmt: skip
        self.target, self.cache, self.results = target, cache, results
        self.options, self.on_step = options, on_step
        self.watch = Watch(target, drafter, options.detail)
        self.sums: dict[int, dict[str, list[int]]] = {}  # by batch row, of the running step
        self.held: list[_Held] = []
        self.since = time.monotonic()  # of the oldest of them
        self.waiting: dict[int, list[StepRecord]] = {}  # for the oracle, by batch row
        self.readings = {
            row: Reading(one.request.grammar, one.tokens[0])
            for row, one in enumerate(results)
            if one.request.grammar is not None
        }

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self.watch.close()
        self._release()
        for records in self.waiting.values():  # of requests that were interrupted
            self._write(records)

    def verified(self, step: Step) -> None:
        """Note what the commit is about to overwrite."""
        if "checksums" in self.options.detail:
            for row in step.active:
                self.sums[row] = detail.sums_before(self.cache, self.watch.read, step, row)

    def committed(self, step: Step, times: dict[str, float]) -> None:
        """Record a step that is over; `times` are those of the clock."""
        self.held.append(
            _Held(
                step, self.watch.take(), times, [*self.watch.windows],
                self.cache.known_lengths.tolist(), [one.steps - 1 for one in self.results],
                [one.finish for one in self.results], self.cache.promoted,
                self.cache.checkpoints.taken if self.cache.checkpoints is not None else (),
            )
        )  # fmt: skip
        # The optional parts look at the cache as it is now.
        if self.options.detail or self._enough(step.out.logits):
            self._release()
            return
        # What no record needs would take memory from the next steps.
        step.out = Output(step.out.logits, None, parents=step.out.parents)
        step.drafted.logits = None

    def _enough(self, logits: Tensor) -> bool:
        """Whether no further step should wait, if each is as large as these."""
        many = len(self.held)
        return (
            many == STEPS
            or many * logits.nbytes > BYTES
            or time.monotonic() - self.since > SECONDS
            or None not in self.held[-1].finishes
        )

    def _release(self) -> None:
        held, self.held = self.held, []
        for each in held:
            self._records(each)
        self.since = time.monotonic()

    def _records(self, held: _Held) -> None:
        step = held.step
        lows = held.read.lowest(held.windows, step.starts)
        positions, slots = step.given.positions.tolist(), held.read.slots
        for row in step.active:
            record = self._record(held, row)
            rows, length = record.nodes + 1, held.lengths[row]
            record.window_low, record.positions = lows[row], positions[row][:rows]
            record.slots = slots[row][:rows] if slots else None
            record.kv_after, record.free_slots = length, self.cache.max_len - length
            self._add_detail(record, held, row)
            if "oracle" in self.options.detail:
                self.waiting.setdefault(row, []).append(record)
            else:
                self.on_step(record)
        for row in [row for row in self.waiting if held.finishes[row] is not None]:
            records = self.waiting.pop(row)
            detail.add_oracle(records, self.target, self.results[row])
            self._write(records)

    def _write(self, records: list[StepRecord]) -> None:
        for record in records:
            self.on_step(record)

    def _record(self, held: _Held, row: int) -> StepRecord:
        """The required columns of a batch row's step, without those of the whole batch."""
        step, times, options, result = held.step, held.times, self.options, self.results[row]
        drafted = step.drafted
        tree, accepted, start = drafted.trees[row], step.accepted[row], step.starts[row]
        tokens, parents, depths = tree.tokens.tolist(), tree.parents.tolist(), tree.depths.tolist()
        counted, rows, width = step.counters[row], tree.nodes + 1, step.given.ids.shape[1]
        budget = options.budget_of(result.request) if options.draws_trees else tree.nodes
        record = StepRecord(
            run=options.run, request=result.request.name, step=held.numbers[row], row=row,
            batch=len(step.active), mode=options.mode,
            algorithm_requested=options.algorithm, algorithm=options.algorithm,
            ctx_len=start, root=tokens[0], budget_requested=budget, budget=budget,
            top_k=options.top_k if options.draws_trees else 1, nodes=tree.nodes, width=width,
            tree_hash=tree_hash(tokens, parents),
            accepted=accepted, bonus=step.bonus[row], bonus_row=accepted[-1],
            emitted=step.emitted[row], cut=step.cuts[row], finish=held.finishes[row],
            kv_before=start, kv_verified=start + width,
            kv_source=[start + node for node in accepted],
            kv_target=list(range(start, start + len(accepted))),
            accepted_depth=counted.depth, accepted_drafts=counted.drafts,
            commit_len=counted.commit,
            draft_ms=times["draft"], topk_ms=times["topk"], build_ms=times["build"],
            compile_ms=times["compile"], verify_ms=times["verify"], walk_ms=times["walk"],
            commit_ms=times["commit"], idle_ms=times["idle"],
            step_ms=sum([times[stage] for stage in STAGES]),
            node_tokens=tokens, parents=parents,
            depths=depths, ranks=tree.ranks.tolist(),
            log_probs=tree.log_probs.tolist(), target_tokens=step.chosen[row].tolist(),
        )  # fmt: skip
        logits, greedy = step.out.logits[row, :rows], result.request.sampling.temperature <= 0
        record.gaps = detail.gaps(logits, step.chosen[row] if greedy else best(logits))
        if row in self.readings:
            record.gaps = [min(gap, detail.MOST) for gap in record.gaps]
            record.legal = self.readings[row].legal(tree, record.target_tokens)
            self.readings[row].emitted(record.emitted)
        if drafted.block is not None and drafted.table is not None:
            record.draft_kv_before = drafted.kv_before[row]
            record.draft_kv_after = drafted.kv_after[row]
            record.context_rows = step.context_rows[row]
            if drafted.context_start is not None:
                record.context_start = int(drafted.context_start[row])
            record.context_source = step.context_sources[row] or None
            record.block_tokens, record.block_start = drafted.block[row].tolist(), start
            record.spine_tokens = drafted.table.tokens[row, :, 0].tolist()
        if self.cache.states and step.out.parents is not None:
            record.state_row = held.promoted[row]
            record.state_sources = step.out.parents[row, :rows].tolist()
            if held.checkpoints:
                record.checkpoint_tokens = [*held.checkpoints[row]]
                record.checkpoint_rows = [*held.checkpoints[row].values()]
        return record

    def _add_detail(self, record: StepRecord, held: _Held, row: int) -> None:
        """The optional parts that are asked for, and what a shadow tree is known by."""
        wanted, drafted, read = self.options.detail, held.step.drafted, held.read
        if self.options.draws_trees and drafted.table is not None:
            if "candidates" in wanted or self.options.mode == "shadow_linear":
                record.candidate_tokens = drafted.table.tokens[row].tolist()
                record.candidate_log_probs = drafted.table.log_probs[row].tolist()
            if "candidates" in wanted and drafted.logits is not None:
                record.lse = drafted.logits[row].float().logsumexp(-1).tolist()
        if "mask" in wanted:
            detail.add_mask(record, read, row)
        if read.ids is not None and read.positions is not None:
            rows = record.nodes + 1
            record.ids_read = read.ids[row, :rows].tolist()
            record.positions_read = read.positions[row, :rows].tolist()
            record.tap_layers_read = read.tapped(held.step.out.features, row)
            record.draft_turns = read.turns(row)
        if "law" in wanted:
            sampling = self.results[row].request.sampling
            detail.add_law(record, held.step.out.logits[row], sampling)
        if "checksums" in wanted:
            record.checksums = self.sums[row] | detail.sums_after(self.cache, record)


def tree_hash(tokens: list[int], parents: list[int]) -> str:
    """16 hexadecimal digits that are equal for equal tokens and parents."""
    return blake2b(f"{tokens}{parents}".encode(), digest_size=8).hexdigest()
