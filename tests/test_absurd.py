"""Numbers that nobody measured: a counter ran over, memory was overwritten, a unit is wrong."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[1] / "sample_logs"
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
ODD = (
    "0", "-1", "NaN", "null", "1e-300", "1e308", "-1e308", "2147483648", "4294967296",
    "9007199254740993", "99999999999999999999",
)  # fmt: skip
FILES = (
    "healthy-dflash.log", "acceptance_decays_with_context-vllm.log", "healthy-tree-trace.jsonl",
    "step_time_superlinear-llamacpp.log", "acceptance_too_perfect.jsonl", "host_bound_step.jsonl",
    "counter_is_not_acceptance.jsonl", "healthy-dflash-benchmark.txt", "healthy-server-info.json",
    "slower_than_baseline-questions.txt", "healthy-scrapes-sglang.prom",
    "depth_contradicts_commit-by-context.jsonl",
)  # fmt: skip
COMMANDS = (
    ("analyze", "--html", "page.html", "--no-cache"), ("check", "--no-cache"), ("facts",),
    ("stops",), ("whatif",), ("ledger",), ("tree",),
)  # fmt: skip
LINES = 120


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def garbled(name, seed):
    """The head of a sample in which some, many or all of the numbers are others."""
    draw = random.Random(f"{name} {seed}")
    rate = (0.02, 0.3, 1.0)[seed]
    lines = (SAMPLES / name).read_text(encoding="utf-8").splitlines()[:LINES]
    return "\n".join(
        NUMBER.sub(lambda one: draw.choice(ODD) if draw.random() < rate else one[0], line)
        for line in lines
    )


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(3))
def test_no_command_ends_with_an_error_of_its_own(name, seed, specdiag):
    path = Path(name)
    path.write_text(garbled(name, seed), encoding="utf-8")
    for command, *options in COMMANDS:
        told = specdiag(command, name, *options)
        assert told.code in (0, 1, 2, 3) and "Traceback" not in told.err, told.err
        assert "does not run" not in told.err
    shutil.copy(SAMPLES / name, f"whole{path.suffix}")
    told = specdiag("compare", name, f"whole{path.suffix}")
    assert told.code in (0, 2, 3) and "Traceback" not in told.err, told.err


@pytest.mark.parametrize("value", [10**18, 1e300, 1e-300, "NaN", "Infinity"])
def test_a_number_beyond_all_sense_is_none(value, load, tmp_path):
    text = (SAMPLES / "host_bound_step.jsonl").read_text(encoding="utf-8").splitlines()
    text[3] = re.sub(r'"(step_ms|ctx_len)":[\d.]+', rf'"\1":{value}', text[3])
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(text), encoding="utf-8")
    (row,) = load(path).rows(
        "SELECT step_ms, nullif(ctx_len, 0) AS ctx_len FROM step WHERE line = 4"
    )
    assert row == {"step_ms": None, "ctx_len": None}
