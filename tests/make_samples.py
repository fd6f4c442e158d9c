"""Sample traces of the replay rules: short runs of the bundled pair, each with a fault to order.

    python tests/make_samples.py [RULE...]

Writes sample_logs/RULE.jsonl, and sample_logs/healthy-complete-trace.jsonl; afterwards
`pytest tests/test_samples.py --update` writes what is expected of them. To be run again whenever
the bundled pairs or the trace change.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import torch

from specdiag.ddtree import faults, loop, trials
from specdiag.ddtree.faults import registry
from specdiag.ddtree.record import Recorder
from specdiag.ddtree.trials import LINES, Trial

SAMPLES = Path(__file__).parents[1] / "sample_logs"
START = 2

# By rule: the fault, what the trace has to have beside the required columns, and the run.
ORDERS = {
    "accepted_token_mismatch": (58, "", {}),
    "bonus_from_wrong_row": (15, "", {"max_new_tokens": 40}),
    "commit_moved_wrong_rows": (11, "checksums", {"max_new_tokens": 40}),
    "differs_from_target": (4, "oracle", {"max_new_tokens": 60}),
    "draft_context_wrong": (12, "", {"max_new_tokens": 40}),
    "emitted_differs_from_accepted": (16, "", {}),
    "kv_length_wrong": (62, "", {}),
    "position_wrong": (2, "", {}),
    "requests_exchanged": (51, "", {"batch": 2, "max_new_tokens": 20}),
    "stop_not_honoured": (19, "", {"cut": True}),
    "tree_not_as_built": (40, "candidates", {}),
    "visibility_leak": (5, "mask", {}),
    "walk_stopped_early": (18, "", {}),
    "window_not_applied": (22, "", {"prompt_tokens": 180}),
    "sampling_law_broken": (32, "law", {"temperature": 1.0, "max_new_tokens": 48}),
    "grammar_not_applied": (44, "", {"grammar": LINES, "stop": False, "max_new_tokens": 32}),
    "host_bound_step": (48, "", {"max_new_tokens": 36}),
    "stage_grows_with_context": (49, "", {"text": "repeated", "max_new_tokens": 300, "budget": 8}),
    "path_not_a_chain": ("path", "", {}),
    "steps_do_not_chain": ("root", "", {}),
    "stage_time_unaccounted": ("kernels", "", {"max_new_tokens": 60, "budget": 4}),
    "healthy-complete-trace": (
        None, "candidates,mask,inputs,checksums,law,oracle", {"batch": 2, "kind": "hybrid", "cut": True}
    ),
}  # fmt: skip


def path_of_siblings(at):
    """The first two rows are accepted, whoever their parents are."""

    def accept(original, tree, chosen):
        return [0, 1, 2], int(chosen[2])

    at.around(loop, "accept", accept)


def another_root(at):
    """The next step begins with another token than the bonus."""

    def draft(original, running, active):
        running.roots[0] += 1
        return original(running, active)

    at.around(loop.Loop, "_draft", draft)


def kernels_alone(at):
    """Verification is timed by its kernels, the step by the clock."""

    def record(original, *given):
        found = original(*given)
        found.verify_ms *= 0.4
        return found

    at.around(Recorder, "_record", record)


OWN = {
    "path": path_of_siblings,
    "root": another_root,
    "kernels": kernels_alone,
}  # that no F number is


def make(rule: str, folder: Path) -> None:
    """Write one sample."""
    order, detail, changes = ORDERS[rule]
    trial = Trial(**{
        "kind": "sliding", "seed": 3, "max_new_tokens": 24, "prompt_tokens": 40, "budget": 6,
        "top_k": 3, "detail": frozenset(detail.split(",")) - {""}, **changes,
    })  # fmt: skip
    path = folder / "steps.jsonl"
    one = faults.all_faults().get(order)
    if order in OWN:
        one = registry.Fault(0, "", "O", OWN[order])
    with ExitStack() as stack:
        stack.enter_context(patch.object(Trial, "name", rule))
        trials.run(trial, path, one, START)
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in found:  # microseconds are enough
        times = {key: round(value, 3) for key, value in record.items() if key.endswith("_ms")}
        record |= times | {"log_probs": [round(x, 5) for x in record.get("log_probs", ())]}
        if record["record"] != "step":
            del record["log_probs"]
    text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in found)
    (SAMPLES / f"{rule}.jsonl").write_text(text, encoding="utf-8")
    print(f"{rule}: {len(found)} lines, {len(text) / 1000:.1f} kB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for rule in sys.argv[1:] or ORDERS:
        with tempfile.TemporaryDirectory() as name:
            make(rule, Path(name))
