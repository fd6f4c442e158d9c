"""A trace is on disk when the run ends, readable when it is cut, and its faults are named."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
from pathlib import Path

import pytest

from specdiag.ddtree import trace
from specdiag.ddtree.trace import RequestRecord, RunRecord, StepRecord
from specdiag.errors import SpecdiagError

pytest.importorskip("orjson", reason="the runtime is an extra")

from specdiag.ddtree import writer
from specdiag.ddtree.writer import BATCH, TraceWriter


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


AWKWARD = [
    {},
    {"log_probs": [0.0, -1e-7, 0.1 + 0.2, 1e300, -2.5]},
    {"log_probs": [0.0, -math.inf, -math.inf]},
    {"gaps": [math.nan, math.inf, 1.0]},
    {"request": 'a "name", \u2028 and \x00 null'},
    {"request": "half \ud800 of a character"},
    {"checksums": {"kv_after": [2**63 - 1, -(2**63)]}},
    {"root": 2**70},
]


@pytest.mark.parametrize("change", AWKWARD, ids=str)
def test_the_fast_encoder_writes_what_the_schema_says(change):
    record = dataclasses.replace(step(1), **change)
    expected = trace.line(record).encode(errors="replace")
    assert json.loads(writer.encode(record)) == json.loads(expected)


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

        def full(lines):
            if next(count) >= 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(lines)

        monkeypatch.setattr(trace.sink, "write", full)
        for number in range(5 * BATCH):
            trace.write(step(number))
    assert load(path).rows("SELECT count(*) AS n FROM step") == [{"n": 2 * BATCH}]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.zst", "steps.parquet"])
def test_a_disk_that_is_full_is_named_for_every_kind(tmp_path, name):
    path = tmp_path / name
    if path.suffix == ".parquet":
        (tmp_path / f"{name}.part").symlink_to("/dev/full")
    else:
        path.symlink_to("/dev/full")
    with pytest.raises(SpecdiagError, match=r"(?i)broke off.*no space left"):
        write(path, 100)
    assert path.suffix != ".parquet" or list(tmp_path.iterdir()) == []


def test_a_writer_that_fails_otherwise_says_so(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="cannot"), TraceWriter(tmp_path / "steps.jsonl") as trace:

        def broken(lines):
            raise ValueError("cannot")

        monkeypatch.setattr(trace.sink, "write", broken)
        trace.write(step(0))


def test_a_slow_run_does_not_wait_for_a_whole_batch(tmp_path, monkeypatch):
    with TraceWriter(tmp_path / "steps.jsonl") as trace:
        trace.write(step(0))
        assert len(trace.lines) == 1
        monkeypatch.setattr(writer, "SECONDS", -1.0)
        trace.write(step(1))
        assert trace.lines == []


def test_a_name_that_is_no_text_is_written_all_the_same(tmp_path, load):
    with TraceWriter(tmp_path / "steps.jsonl") as trace:
        trace.write(dataclasses.replace(step(0), request="a\udcff"))
    assert load(tmp_path / "steps.jsonl").rows("SELECT request FROM step") == [{"request": "a?"}]


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.zst", "steps.parquet"])
def test_a_folder_that_is_missing_is_named_before_the_run(tmp_path, name):
    with pytest.raises(SpecdiagError, match="no trace"):
        TraceWriter(tmp_path / "missing" / name)
