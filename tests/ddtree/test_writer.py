"""A trace is on disk when the run ends, readable when it is cut, and its faults are named."""

from __future__ import annotations

import errno

import pytest

from specdiag.ddtree.trace import RequestRecord, RunRecord, StepRecord
from specdiag.ddtree.writer import TraceWriter
from specdiag.errors import SpecdiagError


def step(number):
    return StepRecord(
        run="b4", request="r0", step=number, row=0, batch=1, mode="ddtree",
        algorithm_requested="DDTREE", algorithm="DDTREE", ctx_len=10 + 2 * number, root=5,
        budget_requested=4, budget=4, top_k=2, nodes=2, width=5, accepted=[0, 1], bonus=9,
        emitted=[7, 9], commit_len=2.0, accepted_depth=1.0, accepted_drafts=1.0,
        node_tokens=[5, 7, 8], parents=[-1, 0, 0], depths=[0, 1, 1], kv_before=10, step_ms=3.0,
        block_tokens=[5, 1, 1],
    )  # fmt: skip


def write(path, steps):
    with TraceWriter(path) as trace:
        trace.write(RunRecord(run="b4", target="tiny", budget=4))
        for number in range(steps):
            trace.write(step(number))
        trace.write(RequestRecord(run="b4", request="r0", prompt_tokens=9, completion_tokens=9))


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.zst", "steps.parquet"])
def test_all_kinds_of_file_hold_the_same_steps(tmp_path, load, name):
    write(tmp_path / name, 600)
    rows = load(tmp_path / name).rows(
        "SELECT step, ctx_len, accepted, parents, commit_len FROM step ORDER BY step"
    )
    assert [row["ctx_len"] for row in rows] == [10 + 2 * number for number in range(600)]
    assert rows[7] == {
        "step": 7, "ctx_len": 24, "accepted": [0, 1], "parents": [-1, 0, 0], "commit_len": 2.0,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.zst"])
def test_an_interrupted_run_leaves_a_readable_file(tmp_path, load, name):
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path / name) as trace:
        for number in range(300):
            trace.write(step(number))
        raise KeyboardInterrupt
    assert load(tmp_path / name).rows("SELECT count(*) AS n FROM step") == [{"n": 300}]


def test_a_full_disk_is_named_and_what_was_written_stays(tmp_path, load, monkeypatch):
    path = tmp_path / "steps.jsonl"
    with pytest.raises(SpecdiagError, match="broke off: no space left"), TraceWriter(path) as trace:
        write, count = trace.sink.write, iter(range(1000))

        def full(record):
            if next(count) >= 20:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(record)

        monkeypatch.setattr(trace.sink, "write", full)
        for number in range(50):
            trace.write(step(number))
    assert load(path).rows("SELECT count(*) AS n FROM step") == [{"n": 20}]


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.zst", "steps.parquet"])
def test_a_folder_that_is_missing_is_named_before_the_run(tmp_path, name):
    with pytest.raises(SpecdiagError, match="no trace"):
        TraceWriter(tmp_path / "missing" / name)
