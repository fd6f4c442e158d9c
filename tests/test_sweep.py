"""Runs that differ in one knob are a tuning curve: the best of them is what counts."""

from __future__ import annotations

import pytest

ARGS = (
    "[2026-05-08 10:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', device='cuda', "
    "speculative_algorithm={algorithm}, speculative_draft_model_path={draft}, "
    "speculative_num_draft_tokens={tokens}, speculative_ddtree_budget={budget}, "
    "speculative_eagle_topk=8)"
)
READY = "[2026-05-08 10:00:01] The server is fired up and ready to roll!"
DECODE = (
    "[2026-05-08 10:01:{second:02d}] Decode batch, #running-req: 1, #token: {tokens}, "
    "token usage: 0.01, {accept}cuda graph: True, gen throughput (token/s): {speed:.2f}, "
    "#queue-req: 0"
)


def log(path, budget, speed, commit_len=4.0):
    """A server that decodes 50 windows; no budget is no speculation."""
    tree = budget is not None
    lines = [
        ARGS.format(
            algorithm="'DDTREE'" if tree else None,
            draft="'z-lab/Qwen3-8B-DFlash-b16'" if tree else None,
            tokens=budget + 1 if tree else None,
            budget=budget,
        ),
        READY,
    ]
    for at in range(50):
        length = commit_len + 0.1 * (at % 3 - 1)
        accept = f"accept len: {length:.2f}, accept rate: 0.20, " if tree else ""
        lines.append(
            DECODE.format(
                second=at, tokens=900 + 4 * at, accept=accept, speed=speed * (1 + 0.01 * (at % 2))
            )
        )
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def severities(tmp_path, diagnose):
    """`severities(**arms)`: what slower_than_baseline says of each arm (budget, speed)."""

    def decide(**arms):
        for name, (budget, speed) in arms.items():
            log(tmp_path / f"{name}.log", budget, speed)
        found = diagnose(tmp_path)
        return {
            one.run: one.severity
            for one in found.findings
            if one.rule.name == "slower_than_baseline"
        }

    return decide


def test_a_budget_beyond_the_best_is_no_fault(severities):
    found = severities(plain=(None, 100.0), small=(16, 180.0), large=(256, 70.0))
    assert found == {"large": "info"}


def test_a_sweep_that_never_pays_is_one(severities):
    found = severities(plain=(None, 100.0), small=(16, 80.0), large=(256, 70.0))
    assert found == {"small": "high", "large": "high"}
