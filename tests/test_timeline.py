"""Profiler traces: what a device did, whoever wrote the file and however it is cut."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from test_parsers import named

from specdiag import chrome, quoting, source, timeline

PARSER = named("torch_profile")
STEP = 1000.0  # microseconds
BUSY = (("draft", "step[DRAFT bs=1]", 100.0), ("verify", "step[VERIFY bs=1]", 500.0))


def event(cat, name, start, length, pid=0, tid=7, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length, "args": args}  # fmt: skip


def trace(steps=30, late=300.0, device=0):
    """Steps of a draft and a verification; the host launches each `late` after the one before ends."""
    events, call, now = [], 0, 5000.0
    for _ in range(steps):
        for _, name, length in BUSY:
            call += 1
            launch = now + late
            events += [
                event("cuda_runtime", "cudaLaunchKernel", launch, 4.0, 99, 99, correlation=call),
                event("kernel", "gemm", launch + 6, length, device, 7, device=device, stream=7, correlation=call),
                event("gpu_user_annotation", name, launch + 5, length + 2, device, 7),
                event("cpu_op", "aten::mm", launch - 10, 5.0, 99, 99),
            ]  # fmt: skip
            now = launch + 6 + length
    return events


def read(events, **more):
    text = json.dumps({"schemaVersion": 1, "traceEvents": events, **more})
    return rows(timeline.read(PARSER, [text.encode()]))


def rows(parsed):
    return {table: [row for frame in frames for row in frame.to_dicts()] for table, frames in parsed.frames.items()}  # fmt: skip


def test_gaps_of_the_host_are_told_from_others():
    (late,) = read(trace(late=300))["profile"]
    assert late["gap_ms"] == late["host_gap_ms"] == pytest.approx((60 - 1) * 0.306)
    assert late["busy_ms"] == pytest.approx(30 * 0.6)
    assert (late["steps"], late["kernels"], late["launches"]) == (30, 60, 60)
    assert late["step_ms"] == pytest.approx(1.212)
    (early,) = read(trace(late=-90))["profile"]  # queued while the device still works
    assert early["host_gap_ms"] == early["gap_ms"] == 0


def test_a_gap_after_a_launch_is_the_device_s_own():
    events = trace(late=300)
    for one in events:
        if one["cat"] == "cuda_runtime":
            one["ts"] -= 320  # launched before the work before it ended
    (row,) = read(events)["profile"]
    assert row["host_gap_ms"] == 0 and row["gap_ms"] > 15


def test_pauses_are_left_out():
    events = trace(10) + [{**one, "ts": one["ts"] + 9e6} for one in trace(10)]
    (row,) = read(events)["profile"]
    assert row["window_ms"] == pytest.approx(2 * 10 * 1.212 - 2 * 0.306)
    assert row["pause_ms"] > 8000


def test_stages_have_their_kernels():
    draft, verify = sorted(read(trace())["profile_stage"], key=lambda row: row["stage"])
    assert (draft["stage"], draft["ranges"], draft["kernels"]) == ("draft", 30, 30)
    assert draft["kernel_ms"] == pytest.approx(3) and verify["kernel_ms"] == pytest.approx(15)
    assert draft["on_device"] and draft["name"] == "step[DRAFT bs=1]"


def test_ranges_of_the_host_do_where_the_device_has_none():
    events = [one for one in trace() if one["cat"] != "gpu_user_annotation"]
    for one in list(events):
        if one["cat"] == "cuda_runtime":
            events.append(event("user_annotation", "target_forward", one["ts"] - 2, 10, 99, 99))
    (stage,) = read(events)["profile_stage"]
    assert (stage["stage"], stage["kernels"], stage["on_device"]) == ("verify", 60, False)


def test_devices_are_kept_apart():
    found = read(trace(device=0) + trace(late=-90, device=1))["profile"]
    assert {row["device"]: row["kernels"] for row in found} == {"0": 60, "1": 60}


def test_a_trace_without_work_of_a_device_has_no_rows():
    assert read([event("cpu_op", "aten::mm", 1, 2)]) == {}
    assert read([]) == {}


def test_without_launches_nobody_knows_whose_a_gap_is():
    (row,) = read([one for one in trace() if one["cat"] != "cuda_runtime"])["profile"]
    assert row["host_gap_ms"] is None and row["gap_ms"] > 0


def test_stacks_are_seen():
    assert not read(trace())["profile"][0]["stacks"]
    assert read([*trace(), event("python_function", "x.py(1): f", 1, 2)])["profile"][0]["stacks"]


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 10**6])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("array", [False, True])
def test_a_trace_is_cut_anywhere(size, indent, array):
    events = [{"ph": "M", "name": "process_name", "args": {"name": 'é [}{" ]'}}, *trace(6)]
    text = json.dumps(events if array else {"deviceProperties": [{"id": n, "name": "x"} for n in range(8)], "traceEvents": events, "x": [{}]}, indent=indent, ensure_ascii=False)  # fmt: skip
    data = text.encode()
    pieces = [data[n : n + size] for n in range(0, len(data), size)]
    parsed, whole = timeline.read(PARSER, pieces), timeline.read(PARSER, [data])
    assert rows(parsed) == rows(whole) and parsed.lines == parsed.understood == len(events)
    assert not parsed.strangers


def test_order_does_not_matter():
    events = trace()
    before = read(events)
    random.Random(1).shuffle(events)
    after = read(events)
    for table, found in before.items():
        strip = lambda row: {k: v for k, v in row.items() if k != "line"}  # noqa: E731
        assert sorted(map(str, map(strip, found))) == sorted(map(str, map(strip, after[table])))


def test_what_is_broken_costs_no_other_event(monkeypatch):
    monkeypatch.setattr(chrome, "LONGEST_EVENT", 100)
    lines = [json.dumps(one) for one in trace(10)]
    lines[8] = lines[8][:-30] + "?"
    parsed = timeline.read(PARSER, [b"[\n" + ",\n".join(lines).encode() + b"]"])
    assert len(parsed.strangers) == 1 and parsed.lines == len(lines)
    assert parsed.strangers[0][0] == 10


def test_a_trace_that_was_cut_off_gives_what_came_before():
    text = json.dumps({"traceEvents": trace()})
    parsed = timeline.read(PARSER, [text[:-700].encode()])
    assert rows(parsed)["profile"][0]["kernels"] > 50 and len(parsed.strangers) == 1


@pytest.mark.parametrize("odd", [
    {"ts": "x"}, {"ts": None}, {"dur": -1}, {"ts": 1e300}, {"ts": float("nan")}, {"args": 3}, {"args": {"correlation": 1e3}},
    {"args": {"device": [1]}}, {"name": 7}, {"cat": None}, {"ts": "12.5"}, {"args": {"correlation": 1 << 80}},
])  # fmt: skip
def test_odd_values_are_no_mistake_of_ours(odd):
    found = read([*trace(), event("kernel", "k", 9e4, 2.0, device=0) | odd])
    assert len(found["profile"]) >= 1


def test_nesting_is_no_mistake_of_ours():
    text = '{"traceEvents": [{"ph": "X", "args": ' + "[" * 100_000
    assert timeline.read(PARSER, [text.encode()]).strangers


def test_other_json_with_lists_is_none(tmp_path, load):
    for number, text in enumerate(
        ('{"events": [{"ph": 7.1, "ts": 1}]}', '[{"name": "x", "ts": 1, "value": 2}]')
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        assert [one.what for one in load(path).notices] == ["no parser knows this file"]


def test_a_packed_trace_is_read_and_its_proof_is_quoted(tmp_path, diagnose):
    path = tmp_path / "TP-0.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": trace()}).encode()))  # on one line
    (finding,) = diagnose(path).findings
    assert finding.rule.name == "device_idle"
    assert all("ms without work" in one.text for one in finding.evidence)
    lines = json.dumps({"traceEvents": trace()}, indent=1)
    path.write_bytes(gzip.compress(lines.encode()))
    (finding,) = diagnose(path).findings
    quoted = quoting.quote(source.Source("x", path), {one.line for one in finding.evidence})
    assert [one.text for one in finding.evidence] == [quoted[one.line] for one in finding.evidence]
