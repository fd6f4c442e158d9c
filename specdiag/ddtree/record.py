"""The record of a step: what its passes consumed, what came out of it, how long each stage took.

The loop hands over one `Step` and knows nothing of columns. What the loop merely intended is not
enough: the `Watch` sees what reaches the layers themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from specdiag.ddtree import detail
from specdiag.ddtree.architecture import FULL, LINEAR
from specdiag.ddtree.cache import Cache, Place
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.model import Output, Target
from specdiag.ddtree.trace import StepRecord
from specdiag.ddtree.tree import Candidates, Tree
from specdiag.ddtree.verify import Pass, best

if TYPE_CHECKING:
    from specdiag.ddtree.decode import Options, Result


STAGES = ("draft", "topk", "build", "compile", "verify", "walk", "commit")


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
    """What is counted of a step: a row's depth in the tree, drafts, and tokens with the bonus."""

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

    def counters(self, row: int) -> Counters:
        """What is counted of a batch row."""
        path = self.accepted[row]
        depth = float(self.drafted.trees[row].depths[path[-1]])
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


class Watch:
    """What the last pass of target and drafter consumed, taken at the inputs of their layers."""

    def __init__(self, target: Target, drafter: Drafter | None, wanted: Set[str]) -> None:
        self.ids = self.positions = self.features = torch.empty(0)
        self.place: Place | None = None  # of the target's rows, as its attention layers have it
        # What rows see [batch, row, column], by layer type of the target and window of the drafter:
        # layers that have it in common get the same, and the first of them is asked.
        self.seen: dict[str, Tensor] = {}
        self.windows = drafter.windows if drafter else []
        self.draft_seen: dict[int | None, Tensor] = {}
        self.hooks = []
        self.outputs: dict[int, Tensor] = {}  # of each layer of the target
        self.draft_angles: dict[int, tuple[Tensor, Tensor]] = {}  # of each layer of the drafter
        if "inputs" in wanted:
            self.hooks.append(target.register_forward_pre_hook(self._target))
            for at, layer in enumerate(target.layers):
                self.hooks.append(layer.register_forward_hook(self._output(at)))
            for at, layer in enumerate(drafter.layers if drafter else ()):
                self.hooks.append(layer.register_forward_pre_hook(self._turned(at)))
        if "checksums" in wanted and drafter is not None:
            self.hooks.append(drafter.fc.register_forward_pre_hook(self._features))
        types = target.architecture.layer_types
        self.types = sorted({*types} - {LINEAR})
        for kind in self.types:
            layer = target.layers[types.index(kind)]
            self.hooks.append(layer.register_forward_pre_hook(self._layer(kind)))
        if drafter is not None:
            for window in {*self.windows}:
                layer = drafter.layers[self.windows.index(window)]
                self.hooks.append(layer.register_forward_pre_hook(self._draft_layer(window)))

    def close(self) -> None:
        """Leave the models as they were."""
        for hook in self.hooks:
            hook.remove()

    @property
    def mask(self) -> Tensor | None:
        """What rows see in full layers, or in sliding ones if the target has no others."""
        kind = FULL if FULL in self.types else next(iter(self.types), None)
        return None if kind is None else self.seen[kind]

    @property
    def slots(self) -> list[list[int]]:
        """Where each row of each batch row was written; nowhere without attention layers."""
        if self.place is None:
            return []
        if self.place.start is None:
            return self.place.slots.tolist()
        batch, rows = self.place.slots.shape
        return [list(range(self.place.start, self.place.start + rows))] * batch

    def lowest(self, starts: Sequence[int]) -> list[list[int]]:
        """Column `window_low` of every batch row; the context ends at `starts`."""
        draft = {window: _lowest(seen, starts) for window, seen in self.draft_seen.items()}
        unread = [-1] * len(starts)
        lows = [draft.get(window, unread) for window in self.windows]
        lows += [_lowest(self.seen[kind], starts) for kind in self.types]
        return [[low[row] for low in lows] for row in range(len(starts))]

    def tapped(self, features: Tensor | None, row: int) -> list[int] | None:
        """The layers whose output the features of the last pass are; -1: of none."""
        if features is None:
            return None
        size = next(iter(self.outputs.values())).shape[-1]
        found = []
        for part in features[row].split(size, dim=-1):
            same = (at for at, out in self.outputs.items() if torch.equal(out[row], part))
            found.append(next(same, -1))
        return found

    def turns(self, row: int) -> list[float] | None:
        """By which angle each draft layer turned the slowest pair of the root's query."""
        found = []
        for cosine, sine in self.draft_angles.values():
            at = min(row, cosine.shape[0] - 1), 0, 0, cosine.shape[-1] // 2 - 1
            found.append(math.atan2(float(sine[at]), float(cosine[at])))
        return found or None

    def _output(self, at: int) -> Callable[..., None]:
        def keep(module: Any, args: tuple[Any, ...], out: Any) -> None:
            self.outputs[at] = out[0] if isinstance(out, tuple) else out

        return keep

    def _turned(self, at: int) -> Callable[[Any, tuple[Any, ...]], None]:
        def keep(module: Any, args: tuple[Any, ...]) -> None:
            self.draft_angles[at] = args[1]

        return keep

    def _target(self, module: Any, args: tuple[Any, ...]) -> None:
        self.ids, self.positions = args[:2]

    def _features(self, module: Any, args: tuple[Any, ...]) -> None:
        (self.features,) = args

    def _layer(self, kind: str) -> Callable[[Any, tuple[Any, ...]], None]:
        def keep(module: Any, args: tuple[Any, ...]) -> None:
            _, _, view, recall = args
            self.seen[kind] = view.seen
            self.place = recall.args[1]  # a partial of Cache.update

        return keep

    def _draft_layer(self, window: int | None) -> Callable[[Any, tuple[Any, ...]], None]:
        def keep(module: Any, args: tuple[Any, ...]) -> None:
            self.draft_seen[window] = args[2].seen

        return keep


class Recorder:
    """Turns steps into records, with the optional parts of `options.detail`; a `with` block."""

    def __init__(
        self, target: Target, drafter: Drafter | None, cache: Cache, results: Sequence[Result],
        options: Options, on_step: Callable[[StepRecord], None],
    ) -> None:  # fmt: skip
        self.target, self.cache, self.results = target, cache, results
        self.options, self.on_step = options, on_step
        self.watch = Watch(target, drafter, options.detail)
        self.sums: dict[int, dict[str, list[int]]] = {}  # by batch row, of the running step
        self.held: dict[int, list[StepRecord]] = {}  # by batch row, until the oracle has its text

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self.watch.close()
        for records in self.held.values():  # of requests that were interrupted
            self._write(records)

    def verified(self, step: Step) -> None:
        """Note what the commit is about to overwrite."""
        if "checksums" in self.options.detail:
            for row in step.active:
                self.sums[row] = detail.sums_before(self.cache, self.watch, step, row)

    def committed(self, step: Step, times: dict[str, float]) -> None:
        """Record a step that is over; `times` are those of the clock."""
        lows = self.watch.lowest(step.starts)
        positions, slots = step.given.positions.tolist(), self.watch.slots
        lengths = self.cache.known_lengths.tolist()
        for row in step.active:
            record = self._record(step, row, times)
            rows = record.nodes + 1
            record.window_low, record.positions = lows[row], positions[row][:rows]
            record.slots = slots[row][:rows] if slots else None
            record.kv_after, record.free_slots = lengths[row], self.cache.max_len - lengths[row]
            self._add_detail(record, step, row)
            if "oracle" in self.options.detail:
                self.held.setdefault(row, []).append(record)
            else:
                self.on_step(record)
        for row in [row for row in self.held if self.results[row].finish is not None]:
            records = self.held.pop(row)
            detail.add_oracle(records, self.target, self.results[row])
            self._write(records)

    def _write(self, records: list[StepRecord]) -> None:
        for record in records:
            self.on_step(record)

    def _record(self, step: Step, row: int, times: dict[str, float]) -> StepRecord:
        """The required columns of a batch row's step, without those of the whole batch."""
        options, result, drafted = self.options, self.results[row], step.drafted
        tree, accepted, start = drafted.trees[row], step.accepted[row], step.starts[row]
        tokens, parents, depths = tree.tokens.tolist(), tree.parents.tolist(), tree.depths.tolist()
        count, rows, width = len(accepted), tree.nodes + 1, step.given.ids.shape[1]
        counted = step.counters(row)
        budget = options.budget_of(result.request) if options.draws_trees else tree.nodes
        record = StepRecord(
            run=options.run, request=result.request.name, step=result.steps - 1, row=row,
            batch=len(step.active), mode=options.mode,
            algorithm_requested=options.algorithm, algorithm=options.algorithm,
            ctx_len=start, root=tokens[0], budget_requested=budget, budget=budget,
            top_k=options.top_k if options.draws_trees else 1, nodes=tree.nodes, width=width,
            tree_hash=tree_hash(tokens, parents),
            accepted=accepted, bonus=step.bonus[row], bonus_row=accepted[-1],
            emitted=step.emitted[row], cut=step.cuts[row], finish=result.finish,
            kv_before=start, kv_verified=start + width,
            kv_source=[start + node for node in accepted],
            kv_target=list(range(start, start + count)),
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
            record.state_row = self.cache.promoted[row]
            record.state_sources = step.out.parents[row, :rows].tolist()
        return record

    def _add_detail(self, record: StepRecord, step: Step, row: int) -> None:
        """The optional parts that are asked for, and what a shadow tree is known by."""
        wanted, drafted = self.options.detail, step.drafted
        if self.options.draws_trees and drafted.table is not None and drafted.logits is not None:
            if "candidates" in wanted or self.options.mode == "shadow_linear":
                record.candidate_tokens = drafted.table.tokens[row].tolist()
                record.candidate_log_probs = drafted.table.log_probs[row].tolist()
            if "candidates" in wanted:
                record.lse = drafted.logits[row].float().logsumexp(-1).tolist()
        if "mask" in wanted:
            detail.add_mask(record, self.watch, row)
        if "inputs" in wanted:
            rows = record.nodes + 1
            record.ids_read = self.watch.ids[row, :rows].tolist()
            record.positions_read = self.watch.positions[row, :rows].tolist()
            record.tap_layers_read = self.watch.tapped(step.out.features, row)
            record.draft_turns = self.watch.turns(row)
        if "law" in wanted:
            sampling = self.results[row].request.sampling
            detail.add_law(record, step.out.logits[row], sampling)
        if "checksums" in wanted:
            record.checksums = self.sums[row] | detail.sums_after(self.cache, record)


def _lowest(seen: Tensor, starts: Sequence[int]) -> list[int]:
    """The lowest column that any row of a batch row reads, -1 if none is before its start."""
    on_host = seen.device.type == "cpu"  # a whole mask is too large to fetch
    read = seen.numpy().any(1) if on_host else seen.view(torch.uint8).amax(1).cpu().numpy()
    lows = read.argmax(-1).tolist()
    return [low if low < start else -1 for low, start in zip(lows, starts, strict=True)]


def tree_hash(tokens: list[int], parents: list[int]) -> str:
    """16 hexadecimal digits that are equal for equal tokens and parents."""
    return blake2b(f"{tokens}{parents}".encode(), digest_size=8).hexdigest()
