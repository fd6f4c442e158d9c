"""The optional parts of a step's record: the mask as read, checksums, and the oracle.

All of them look at what decoding leaves behind, and change nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from specdiag.ddtree.cache import Cache, State
from specdiag.ddtree.grammar import Grammar, behind, limit
from specdiag.ddtree.model import PREFILL_ROWS, Target
from specdiag.ddtree.trace import StepRecord
from specdiag.ddtree.verify import Sampling, best, law, scores

if TYPE_CHECKING:
    from specdiag.ddtree.decode import Result
    from specdiag.ddtree.step import Step
    from specdiag.ddtree.watch import Consumed


MOST = torch.finfo(torch.float32).max  # a gap where there is no second best


def gaps(scores: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The score of the chosen of each row of `scores` [row, vocab], and the second best; [row].

    The scores of the chosen are -inf afterwards: a copy would take longer than everything else.
    """
    at = chosen.to(scores.device)[:, None]
    top = scores.gather(-1, at)[:, 0]
    return top, scores.scatter_(-1, at, -torch.inf).amax(-1)


def add_mask(record: StepRecord, read: Consumed, row: int) -> None:
    """What each row of a batch row's tree saw, from the mask that a layer was given."""
    seen = read.mask
    if seen is None:
        return
    seen = seen[row, : record.nodes + 1].cpu()  # [N + 1, column]
    record.past_visible = seen[:, : record.ctx_len].sum(1).tolist()
    bits = np.packbits(seen[:, record.ctx_len :].numpy(), axis=1, bitorder="little")
    record.visible = [f"{int.from_bytes(row.tobytes(), 'little'):x}" for row in bits]
    record.mask_bytes = sum(each[row].nbytes for each in read.seen.values())


def add_law(record: StepRecord, logits: Tensor, sampling: Sampling) -> None:
    """What the request's law gives each node at its parent, and the bonus at its row."""
    probabilities = law(logits[: record.nodes + 1], sampling).cpu()
    rows = torch.tensor([record.accepted[-1], *record.parents[1:]])
    tokens = torch.tensor([record.bonus, *record.node_tokens[1:]])
    record.target_probs = probabilities[rows, tokens].tolist()
    walked = probabilities[torch.tensor(record.accepted)]
    taken = [*(record.node_tokens[row] for row in record.accepted[1:]), record.bonus]
    own = walked.gather(1, torch.tensor(taken)[:, None])
    record.draws = walked.masked_fill(walked <= own, 0).sum(1).tolist()


# Checksums ----------------------------------------------------------------------------------------


def checksums(*parts: Tensor) -> list[int]:
    """One of each row over the bytes of all `parts` [row, ...]; fits a signed 64-bit integer."""
    if not len(parts[0]):
        return []
    flat = [part.detach().flatten(1).contiguous().view(torch.uint8).cpu() for part in parts]
    rows = torch.cat(flat, 1).numpy()
    digests = (blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return [int.from_bytes(digest, "little", signed=True) for digest in digests]


def sums_before(cache: Cache, read: Consumed, step: Step, row: int) -> dict[str, list[int]]:
    """What there is between verification and commit: of the nodes, and of what a pass consumed."""
    rows = step.drafted.trees[row].nodes + 1
    found = {}
    if cache.index:
        found["kv_node"] = _kv(cache, row, read.slots[row][:rows])
        start = step.starts[row]
        found["kv_before"] = _kv(cache, row, range(start - len(step.context_sources[row]), start))
    if step.out.features is not None and read.features is not None:
        found["feature_node"] = checksums(step.out.features[row, :rows])
        found["feature_in"] = checksums(read.features[row, : step.context_rows[row]])
    if cache.states:
        nodes = [step.out.states[layer] for layer in sorted(cache.states)]
        found["state_node"] = _states([_of(state, row) for state in nodes], rows)
        found["state_before"] = _canonical(cache, row)
    return found


def sums_after(cache: Cache, record: StepRecord) -> dict[str, list[int]]:
    """What the commit left."""
    found = {}
    if cache.index and record.kv_target:
        found["kv_after"] = _kv(cache, record.row, record.kv_target)
    if cache.states:
        found["state_after"] = _canonical(cache, record.row)
    return found


def _kv(cache: Cache, row: int, slots: Sequence[int]) -> list[int]:
    """Keys and values of these slots, all layers and heads."""
    part = cache.rows[:, :, row][
        :, :, :, torch.tensor(slots, dtype=torch.int64, device=cache.rows.device)
    ]
    return checksums(part.movedim(3, 0))  # [slot, key or value, layer, head, dim]


def _canonical(cache: Cache, row: int) -> list[int]:
    states = [cache.states[layer] for layer in sorted(cache.states)]
    return _states([State(state.delta[row, None], state.conv[row, None]) for state in states], 1)


def _of(nodes: State, row: int) -> State:
    return State(nodes.delta[row], nodes.conv[row])


def _states(states: Sequence[State], rows: int) -> list[int]:
    parts = [part[:rows] for state in states for part in (state.delta, state.conv)]
    return checksums(*parts)


# The oracle ---------------------------------------------------------------------------------------


def add_oracle(records: Sequence[StepRecord], target: Target, result: Result) -> None:
    """Give all records of an ended request what a plain pass over its text chooses."""
    prompt, sampling = result.request.prompt, result.request.sampling
    text = [*prompt, *result.tokens]
    tokens, apart = oracle(target, text, len(prompt), sampling, result.request.grammar)
    for record in records:
        at = record.ctx_len - len(prompt)
        record.oracle_tokens = tokens[at : at + len(record.emitted)]
        record.oracle_gaps = apart[at : at + len(record.emitted)]


@torch.no_grad()
def oracle(
    target: Target, text: Sequence[int], first: int, sampling: Sampling,
    grammar: Grammar | None = None,
) -> tuple[list[int], list[float]]:  # fmt: skip
    """What the target chooses behind each token of `text` from position `first` on, but the last.

    A causal pass of the bare text, in parts as a prompt is run, with a cache of its own: no tree,
    no mask, no commit but in order. Its kernels see other shapes than those of decoding, so the
    choice may differ where the gap is within the noise of the type. The gap is the best minus the
    second best of what the choice maximises: logits, or for a sampled request these divided by
    the temperature plus the noise of seed and position; without a second best, as in a nucleus
    of one token, it is the largest float. A grammar allows what the text itself leads to.
    """
    cache = target.cache(1, len(text))
    states = [] if grammar is None else behind(grammar, text[first:])
    tokens: list[int] = []
    apart: list[float] = []
    for start in range(0, len(text) - 1, PREFILL_ROWS):
        part = text[start : min(start + PREFILL_ROWS, len(text) - 1)]
        positions = cache.slots(len(part))
        wanted = torch.arange(
            min(max(first - start, 0), len(part)), len(part), device=target.device
        )
        out = target(
            torch.tensor([part], device=target.device), positions, cache, logit_rows=wanted[None]
        )
        cache.commit([range(len(part))], out.states)
        if grammar is not None:
            at = start + int(wanted[0]) - first if len(wanted) else 0
            limit(out.logits[0], grammar, states[at : at + len(wanted)])
        found = scores(out.logits[0], start + wanted, sampling)
        choice = best(found)
        tokens += choice.tolist()
        top, second = gaps(found, choice)
        apart += [min(gap, MOST) for gap in (top - second).tolist()]
    return tokens, apart
