"""The step trace, schema version 1: one JSON object a line, of three kinds.

A trace is a `run` record, then `request` and `step` records in the order in which they end. It
records what the kernels consumed next to what the builder intended, and every length on both
sides of the commit, so that each step can be computed again from its own record (ddtree, sections
4 to 8). Columns, units and shapes are those of table `step` in `schema.sql`; the same columns in
Parquet are the same trace. Unknown fields are kept aside by readers, missing optional ones are
NULL, and a higher major version is refused.

Row 0 of a tree is the root, the last committed token; rows 1..N are the nodes, parents before
their children. A is the number of accepted drafts, C = A + 1 the commit length.

What the bundled runtime writes into the columns that leave room:

window_low     the lowest context position that any row read: of each draft layer in order, then of
               the target's attention layers, full ones before sliding ones, as far as it has them;
               -1 where no context was read
state_sources  the row whose recurrent state each row continued, -1 the canonical state
checkpoint_*   of the recurrent states that a prefix cache took in this step: behind how many tokens
               of the text each stands, and the row that it is of
gaps           from the raw logits, also where a request samples; with a grammar from those of the
               tokens that it allows
legal          of requests with a grammar: whether it allows the target's choice behind each row, by
               the row's own path; null where it has nothing to say, behind a token that it does
               not allow and behind its end
tree_hash      over tokens and parents of the verified tree
idle_ms        from the end of the step before, or of prefill, to this one's begin: tracing,
               callbacks, whatever the program does in between
step_ms        the sum of the stages, which follow each other without gaps
free_slots     cache slots of the batch row behind its committed ones

Optional parts, by their names in DETAILS:

candidates     candidate_tokens and candidate_log_probs [L][K], lse [L] of modes ddtree and
               shadow_linear: the whole table, not only the ranks in use, since whether the top-k or
               the budget kept a token out is seen from the unused ones. A shadow_linear step
               always has the first two: they are all that it knows of its tree
mask           visible: bit i of a row says that it saw verify row i, padding included, as a layer
               was given it (full layers, or sliding ones in a target without others); past_visible:
               the columns of the past that it saw; mask_bytes: the masks of all layer types
inputs         ids_read, positions_read [N + 1]: from the tensors that the pass was called with;
               tap_layers_read: the layers whose output the features are, found by comparing them,
               -1 for none; draft_turns: by which angle each draft layer turned the slowest pair
               of the root's query, in radians
checksums      64-bit integers over raw bytes, all layers together, by the names of CHECKSUMS:
               kv_node [N + 1] each row's keys and values after verification; kv_after [C] those of
               slots start.. after the commit, kv_before the same ahead of the next one;
               feature_node [N + 1] the tapped features, feature_in [context_rows] those that the
               drafter read; state_node [N + 1] the recurrent state after each row, state_before
               [1] and state_after [1] the canonical one at the commit
law            target_probs [N + 1]: by the request's temperature and top-p, of each node's token
               at its parent, and in front of the bonus at its row; 1 and 0 of a greedy request.
               draws [C]: at each accepted row the mass of what is more probable than the token
               that follows it, 0 if that is the most probable one
oracle         oracle_tokens, oracle_gaps [emitted]: what a causal pass over the request's whole
               text chooses, and how clearly: the best minus the second best of the logits, or of
               the noisy scores where the request samples. Made when a request ends, so that the
               records of a request come together

This module imports neither torch nor anything outside the standard library.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1
# Optional parts of a step.
DETAILS = ("candidates", "mask", "inputs", "checksums", "law", "oracle")
CHECKSUMS = ("kv_node", "kv_before", "kv_after", "feature_node", "feature_in", "state_node",
             "state_before", "state_after")  # fmt: skip


@dataclass(kw_only=True)
class RunRecord:
    """What holds for a whole run. Becomes rows of table `config`."""

    run: str
    target: str
    drafter: str | None = None
    revision: str | None = None
    code_version: str | None = None
    algorithm: str | None = None
    accept_rule: str = "greedy"  # greedy, sample_and_match, rejection, typical
    block: int | None = None  # drafter block size; it predicts block - 1 depths
    budget: int | None = None  # tree nodes without the root
    top_k: int | None = None
    depth_bonus: float | None = None
    mask_id: int | None = None
    vocab: int | None = None
    draft_vocab: int | None = None
    tap_layers: list[int] | None = None
    tap_convention: str | None = None  # after_layer, before_layer
    draft_layers: list[dict[str, Any]] | None = None  # window, causal, rope of each
    target_windows: list[int | None] | None = None  # as at the end of window_low; null sees all
    dtype: str | None = None
    attention_backend: str | None = None
    graph_mode: str | None = None
    page_size: int | None = None
    tp_size: int | None = None
    dp_size: int | None = None
    overlap: bool | None = None
    stop_ids: list[int] | None = None
    requested: dict[str, Any] | None = None  # options as asked for
    effective: dict[str, Any] | None = None  # and as they took effect
    simulated_acceptance: float | None = None
    clock: str = "ms"


@dataclass(kw_only=True)
class RequestRecord:
    """One finished request."""

    run: str
    request: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    first_token: int | None = None  # made by prefill; it belongs to no step
    finish: str | None = None
    grammar: str | None = None
    verify_steps: int | None = None
    correct_drafts: int | None = None
    proposed_drafts: int | None = None
    histogram: list[int] | None = None  # [k]: steps with A = k


@dataclass(kw_only=True)
class StepRecord:
    """One draft-verify-commit step of one request."""

    # head
    run: str
    request: str
    step: int
    row: int
    batch: int
    mode: str  # autoregressive, linear, ddtree, shadow_linear
    algorithm_requested: str
    algorithm: str
    ctx_len: int  # committed tokens before the step = position of the root
    root: int
    budget_requested: int
    budget: int
    top_k: int
    nodes: int
    width: int
    warmup: bool = False
    graph_key: str | None = None
    replayed: bool | None = None
    tree_hash: str | None = None
    # draft
    block_tokens: list[int] = field(default_factory=list)  # [block]
    block_start: int | None = None
    draft_kv_before: int | None = None
    draft_kv_after: int | None = None
    context_start: int | None = None
    context_rows: int | None = None
    context_source: list[int] | None = None  # [context_rows]
    window_low: list[int] | None = None
    spine_tokens: list[int] = field(default_factory=list)  # [L]
    # accept
    accepted: list[int] = field(default_factory=list)  # [A + 1]
    bonus: int | None = None
    bonus_row: int | None = None
    emitted: list[int] = field(default_factory=list)
    cut: str | None = None  # stop, length, grammar, abort
    kv_before: int | None = None
    kv_verified: int | None = None
    kv_after: int | None = None
    kv_source: list[int] | None = None  # [C]
    kv_target: list[int] | None = None  # [C]
    state_row: int | None = None
    checkpoint_tokens: list[int] | None = None
    checkpoint_rows: list[int] | None = None
    accepted_depth: float | None = None  # the three counters as the loop computed them
    accepted_drafts: float | None = None
    commit_len: float | None = None
    finish: str | None = None
    # time
    draft_ms: float | None = None
    topk_ms: float | None = None
    build_ms: float | None = None
    compile_ms: float | None = None
    verify_ms: float | None = None
    walk_ms: float | None = None
    commit_ms: float | None = None
    idle_ms: float | None = None
    step_ms: float | None = None
    synchronisations: int | None = None
    bytes_to_host: int | None = None
    free_slots: int | None = None
    # nodes, [N + 1]
    node_tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    target_tokens: list[int] = field(default_factory=list)
    slots: list[int] | None = None
    state_sources: list[int] | None = None
    gaps: list[float] | None = None
    # optional
    target_probs: list[float] | None = None
    draws: list[float] | None = None
    target_ranks: list[int] | None = None
    legal: list[bool | None] | None = None
    candidate_tokens: list[list[int]] | None = None  # [L][K]
    candidate_log_probs: list[list[float]] | None = None  # [L][K]
    lse: list[float] | None = None  # [L]
    visible: list[str] | None = None  # [N + 1] hexadecimal bits
    past_visible: list[int] | None = None
    mask_bytes: int | None = None
    ids_read: list[int] | None = None
    positions_read: list[int] | None = None
    tap_layers_read: list[int] | None = None
    draft_turns: list[float] | None = None
    checksums: dict[str, Any] | None = None
    oracle_tokens: list[int] | None = None
    oracle_gaps: list[float] | None = None


KINDS: dict[type, str] = {RunRecord: "run", RequestRecord: "request", StepRecord: "step"}


_encode = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
).encode


def values(record: RunRecord | RequestRecord | StepRecord) -> dict[str, Any]:
    """What a record says, by key. What is not set is left out."""
    head = {"record": KINDS[type(record)], "schema": SCHEMA}
    return head | {key: value for key, value in vars(record).items() if value is not None}


def line(record: RunRecord | RequestRecord | StepRecord) -> str:
    """The record as its line of the trace, without the line end."""
    found = values(record)
    try:
        return _encode(found)
    except ValueError:  # rare, and to look for such numbers first would cost more than the rest
        return _encode(_finite(found))


def _finite(value: Any) -> Any:
    """JSON has no infinity; a log-probability of a masked token is the lowest float instead."""
    if isinstance(value, float) and not math.isfinite(value):
        return -3.4e38 if value < 0 else None
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return value
