"""A decoder on paper: random candidates and random target choices make correct traces, step by step.

It shares nothing with the runtime or with replay but the specification, so that what replay says of
its traces, and of these with one thing changed, is a test.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from typing import Any

VOCAB, MASK, STOP, BLOCK, WINDOW = 50, 1, 0, 6, 8
DEPTHS = BLOCK - 1


def candidates(draw: random.Random, top_k: int) -> tuple[list[list[int]], list[list[float]]]:
    """Tokens and log-probabilities [L][K] of the best of a law over the whole vocabulary."""
    tokens, log_probs = [], []
    for _ in range(DEPTHS):
        weights = [math.exp(3 * draw.random()) for _ in range(VOCAB)]
        total = math.log(sum(weights))
        best = sorted(range(VOCAB), key=lambda token: (-weights[token], token))[:top_k]
        tokens.append(best)
        log_probs.append([math.log(weights[token]) - total for token in best])
    return tokens, log_probs


def tree(tokens: list[list[int]], log_probs: list[list[float]], budget: int) -> list[tuple]:
    """Nodes as (parent row, depth, rank, token, score), best first, from a plain heap."""
    nodes: list[tuple] = []
    heap = [(-log_probs[0][0], (0,), 0)] if budget else []
    while heap and len(nodes) < budget:
        cost, path, parent = heapq.heappop(heap)
        depth, rank = len(path), path[-1]
        nodes.append((parent, depth, rank, tokens[depth - 1][rank], -cost))
        row = len(nodes)
        if rank + 1 < len(tokens[depth - 1]):
            other = cost + log_probs[depth - 1][rank] - log_probs[depth - 1][rank + 1]
            heapq.heappush(heap, (other, (*path[:-1], rank + 1), parent))
        if depth < DEPTHS:
            heapq.heappush(heap, (cost - log_probs[depth][0], (*path, 0), row))
    return nodes


def trace(
    seed: int, mode: str = "ddtree", budget: int = 8, top_k: int = 3, requests: int = 2,
    length: int = 20,
) -> list[dict[str, Any]]:  # fmt: skip
    """The records of a run: head, steps of all requests in turn, requests."""
    draw = random.Random(seed)
    head = {
        "record": "run", "schema": 1, "run": "r", "target": "t", "algorithm": mode.upper(),
        "block": BLOCK, "budget": budget, "top_k": top_k, "depth_bonus": 0.0, "mask_id": MASK,
        "vocab": VOCAB, "dtype": "float32", "stop_ids": [STOP], "target_windows": [None, WINDOW],
        "draft_layers": [{"window": WINDOW, "causal": False}, {"window": None, "causal": False}],
    }  # fmt: skip
    steps: list[dict[str, Any]] = []
    ends = []
    for name in range(requests):
        text = [draw.randrange(2, VOCAB) for _ in range(draw.randrange(3, 2 * WINDOW))]
        prompt, first = len(text), draw.randrange(2, VOCAB)
        root, made, before, count = first, 1, None, 0
        finish = None
        while finish is None:
            step, finish = _step(draw, mode, budget, top_k, len(text), root, before)
            emitted = step["emitted"]
            if made + len(emitted) >= length:
                emitted = emitted[: length - made]
                finish = finish if emitted[-1:] == [STOP] else "length"
                step["cut"] = "length" if len(emitted) < len(step["accepted"]) else step["cut"]
                step["emitted"] = emitted
            step |= {"request": f"q{name}", "step": count, "row": name, "batch": requests}
            step["finish"] = finish
            steps.append(step)
            text += [root, *(step["node_tokens"][row] for row in step["accepted"][1:])]
            root, before, made, count = step["bonus"], step, made + len(emitted), count + 1
        ends.append({
            "record": "request", "schema": 1, "run": "r", "request": f"q{name}",
            "prompt_tokens": prompt, "completion_tokens": made, "cached_tokens": 0,
            "max_new_tokens": length, "finish": finish, "verify_steps": count,
        })  # fmt: skip
    return [head, *steps, *ends]


def _step(
    draw: random.Random, mode: str, budget: int, top_k: int, start: int, root: int,
    before: dict[str, Any] | None,
) -> tuple[dict[str, Any], str | None]:  # fmt: skip
    table, log_probs = candidates(draw, top_k if mode == "ddtree" else 1)
    nodes = tree(table, log_probs, budget if mode == "ddtree" else DEPTHS)
    tokens = [root, *(node[3] for node in nodes)]
    parents = [-1, *(node[0] for node in nodes)]
    depths = [0, *(node[1] for node in nodes)]
    rows = len(tokens)
    children: dict[int, list[int]] = {row: [] for row in range(rows)}
    for row in range(1, rows):
        children[parents[row]].append(row)
    # Targets often choose a child, so that paths are long.
    chosen = [
        tokens[draw.choice(children[row])]
        if children[row] and draw.random() < 0.7
        else draw.randrange(VOCAB)
        for row in range(rows)
    ]
    accepted = [0]
    while True:
        fitting = [row for row in children[accepted[-1]] if tokens[row] == chosen[accepted[-1]]]
        if not fitting:
            break
        accepted.append(fitting[0])
    seen = [1]
    for row in range(1, rows):
        seen.append(seen[parents[row]] | 1 << row)
    bonus = chosen[accepted[-1]]
    emitted = [*(tokens[row] for row in accepted[1:]), bonus]
    finish = cut = None
    if STOP in emitted:
        finish = "stop"
        cut = "stop" if emitted.index(STOP) + 1 < len(emitted) else None
        emitted = emitted[: emitted.index(STOP) + 1]
    committed = len(accepted)
    context = start if before is None else len(before["accepted"])
    low = max(0, start - WINDOW + 1)
    kv = [draw.getrandbits(62) for _ in range(rows)]
    features = [draw.getrandbits(62) for _ in range(rows)]
    checksums = {
        "kv_node": kv, "kv_after": [kv[row] for row in accepted], "feature_node": features,
        "state_node": kv, "state_after": [kv[accepted[-1]]],
        "state_before": before["checksums"]["state_after"] if before else [7],
    }  # fmt: skip
    if before:
        left = before["checksums"]["feature_node"]
        checksums["feature_in"] = [left[row] for row in before["accepted"]]
    # A grammar that the choices keep to; some drafts do not, and what is below them says nothing.
    legal: list[bool | None] = [True]
    for row in range(1, rows):
        broken = row not in accepted and row % 3 == 0
        legal.append(None if broken or legal[parents[row]] is None else True)
    return {
        "record": "step", "schema": 1, "run": "r", "mode": mode,
        "algorithm_requested": mode.upper(), "algorithm": mode.upper(), "ctx_len": start,
        "root": root, "budget_requested": budget, "budget": budget, "top_k": top_k,
        "nodes": rows - 1, "width": rows, "block_tokens": [root] + [MASK] * DEPTHS,
        "block_start": start, "draft_kv_before": start - context, "draft_kv_after": start,
        "context_start": start - context, "context_rows": context,
        "context_source": before["accepted"] if before else None,
        "window_low": [low, 0, 0, low], "spine_tokens": [row[0] for row in table],
        "accepted": accepted, "bonus": bonus, "bonus_row": accepted[-1], "emitted": emitted,
        "cut": cut, "kv_before": start, "kv_verified": start + rows,
        "kv_after": start + committed, "kv_source": [start + row for row in accepted],
        "kv_target": list(range(start, start + committed)), "state_row": accepted[-1],
        "state_sources": parents, "accepted_depth": committed - 1.0,
        "accepted_drafts": committed - 1.0, "commit_len": float(committed),
        "node_tokens": tokens, "parents": parents, "depths": depths,
        "ranks": [0, *(node[2] for node in nodes)],
        "log_probs": [0.0, *(node[4] for node in nodes)],
        "positions": [start + depth for depth in depths], "target_tokens": chosen,
        "slots": list(range(start, start + rows)), "gaps": [5.0] * rows,
        "legal": legal,
        "checkpoint_tokens": [n for n in range(start + 1, start + committed + 1) if n % 4 == 0],
        "checkpoint_rows": [accepted[n - start - 1] for n in range(start + 1, start + committed + 1) if n % 4 == 0],
        "candidate_tokens": table, "candidate_log_probs": log_probs,
        "visible": [f"{bits:x}" for bits in seen], "past_visible": [start] * rows,
        "ids_read": tokens, "positions_read": [start + depth for depth in depths],
        "checksums": checksums, "oracle_tokens": emitted, "oracle_gaps": [5.0] * len(emitted),
    }, finish  # fmt: skip


def lines(records: list[dict[str, Any]]) -> str:
    """The trace as text; what is not set is left out."""
    return "".join(
        json.dumps({key: value for key, value in one.items() if value is not None}) + "\n"
        for one in records
    )
