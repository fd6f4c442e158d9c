"""The record of a step: what its passes consumed, what came out of it, how long each stage took.

The loop hands over one `Step` and knows nothing of columns. What the loop merely intended is not
enough: a `Watch` sees what reaches the layers themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdiag.ddtree import detail
from specdiag.ddtree.cache import Cache
from specdiag.ddtree.clock import STAGES, Marks, times
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.grammar import Reading
from specdiag.ddtree.model import Output, Target
from specdiag.ddtree.step import Step
from specdiag.ddtree.trace import StepRecord
from specdiag.ddtree.verify import best
from specdiag.ddtree.watch import Consumed, Watch

if TYPE_CHECKING:
    from specdiag.ddtree.decode import Options, Result


STEPS, BYTES, SECONDS = 32, 2**22, 0.5  # that wait together at most; bytes of their masks
LARGE = 2**16  # bytes of logits
NOTHING = torch.empty(0)


@dataclass
class _Held:
    """A step that is over, with what the next one changes."""

    step: Step
    read: Consumed
    marks: Marks
    windows: list[int | None]  # of the drafter's layers
    lengths: list[int]  # of the cache
    numbers: list[int]  # of the step, by batch row
    finishes: list[str | None]
    promoted: Sequence[int]  # rows whose recurrent state was kept
    checkpoints: Sequence[dict[int, int]]  # what a prefix cache took, see prefix.py
    gaps: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # see detail.gaps


class Recorder:
    """Turns steps into records, with the optional parts of `options.detail`; a `with` block.

    What costs time here is not the work, but that decoding has thrown all it needs out of the
    processor's caches, and that it does the same to decoding. So what is large is read while it is
    at hand and not kept, and the rest waits until there are a few steps.
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

    def committed(self, step: Step, marks: Marks) -> None:
        """Record a step that is over; `marks` are those of the clock."""
        held = _Held(
            step, self.watch.take(), marks, [*self.watch.windows],
            self.cache.known_lengths.tolist(), [one.steps - 1 for one in self.results],
            [one.finish for one in self.results], self.cache.promoted,
            self.cache.checkpoints.taken if self.cache.checkpoints is not None else (),
        )  # fmt: skip
        self.held.append(held)
        # The optional parts look at the cache as it is now.
        if self.options.detail or self._enough(step.given.visible):
            self._release()
            return
        step.out = Output(step.out.logits, None, parents=step.out.parents)
        step.drafted.logits = None
        if step.out.logits.nbytes > LARGE:
            self._look(held)

    def _look(self, held: _Held) -> None:
        """Read logits and masks, and keep neither."""
        step = held.step
        for row in step.active:
            chosen, sampling = step.chosen[row], self.results[row].request.sampling
            logits = step.out.logits[row, : len(chosen)]
            if "law" in self.options.detail:
                logits = logits.clone()
            held.gaps[row] = detail.gaps(
                logits, chosen if sampling.temperature <= 0 else best(logits)
            )
        held.read.look()
        if not self.options.detail:
            step.out.logits = NOTHING
            held.read.seen, held.read.draft_seen = {}, {}

    def _enough(self, mask: Tensor) -> bool:
        """Whether no further step should wait, if each is as large as this one."""
        many = len(self.held)
        return (
            many == STEPS
            or many * mask.nbytes > BYTES
            or time.monotonic() - self.since > SECONDS
            or None not in self.held[-1].finishes
        )

    def _release(self) -> None:
        held, self.held = self.held, []
        for each in held:
            if not each.gaps:
                self._look(each)
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
        step, options, result = held.step, self.options, self.results[row]
        drafted, spans = step.drafted, times(held.marks)
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
            draft_ms=spans["draft"], topk_ms=spans["topk"], build_ms=spans["build"],
            compile_ms=spans["compile"], verify_ms=spans["verify"], walk_ms=spans["walk"],
            commit_ms=spans["commit"], idle_ms=spans["idle"],
            step_ms=sum([spans[stage] for stage in STAGES]),
            node_tokens=tokens, parents=parents,
            depths=depths, ranks=tree.ranks.tolist(),
            log_probs=tree.log_probs.tolist(), target_tokens=step.chosen[row].tolist(),
        )  # fmt: skip
        top, second = held.gaps[row]
        record.gaps = (top - second).tolist()
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
