"""What `make bench` rests on: its inputs hold what is noted, tools agree, bounds are judged."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict

import pytest

from benchmarks import bench, bounds, growth, inside, make_log, make_trace, measure, peers, tables
from benchmarks.sections import Results

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of 1 MB with four starts, and what it holds."""
    path = tmp_path_factory.mktemp("bench") / "server.log"
    return path, asdict(make_log.write(path, MEGABYTE, seed=3, life=1_300))


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace of 1 MB, and what it holds."""
    path = tmp_path_factory.mktemp("bench") / "steps.jsonl"
    return path, asdict(make_trace.write(path, MEGABYTE, seed=3))


def test_the_same_seed_writes_the_same_bytes(tmp_path, log, trace):
    make_log.write(tmp_path / "log", MEGABYTE, seed=3, life=1_300)
    make_trace.write(tmp_path / "trace", MEGABYTE, seed=3)
    assert (tmp_path / "log").read_bytes() == log[0].read_bytes()
    assert (tmp_path / "trace").read_bytes() == trace[0].read_bytes()
    make_log.write(tmp_path / "other", MEGABYTE, seed=4, life=1_300)
    assert (tmp_path / "other").read_bytes() != log[0].read_bytes()


def test_a_log_is_mixed_as_said(log):
    path, truth = log
    lines = path.read_bytes().decode().split("\n")[:-1]
    assert len(lines) == truth["lines"] and path.stat().st_size == truth["bytes"]
    records = truth["starts"] * 1_300
    kinds = {
        "decode": (0.80, "Decode batch"), "prefill": (0.10, "] Prefill batch"),
        "access": (0.08, "INFO"), "counters": (0.01, "DDTREE metrics"),
    }  # fmt: skip
    for kind, (share, text) in kinds.items():
        found = sum(text in line for line in lines)
        assert abs(found / records - share) < 0.02, kind
    shapes = {re.sub(r"[0-9]+", "0", line) for line in lines if "Decode batch" in line}
    assert len(shapes) == 4  # three dialects, and torn lines
    for rare in ("\x1b[32m", "\r", "Traceback", "世界", "#tok[", "ServerArgs("):
        assert any(rare in line for line in lines), rare


def test_specdiag_reads_what_is_in_a_log(log):
    path, truth = log
    found = inside.tables([str(path)], {})
    assert len(found) > 8 and not peers.differences(found, truth)


def test_specdiag_reads_what_is_in_a_trace_and_proves_it(trace):
    path, truth = trace
    found = inside.tables([str(path)], {})
    assert found.pop("violations") == 0
    assert len(found) == 6 and not peers.differences(found, truth)


@pytest.mark.parametrize("peer", [*peers.LOG, *peers.TRACE, peers.WALK], ids=lambda p: p.name)
def test_every_tool_gives_the_true_answer(peer, log, trace, tmp_path):
    if not peer.there:
        pytest.skip(f"{peer.name} is not installed")
    path, truth = log if peer in peers.LOG else trace
    took = measure.run(peer.command(path))
    assert not peer.differences(took.out, truth)
    if peer.counts:
        assert peer.differences("0", truth)
    else:
        assert len(peers.answer(took.out)) >= 3


def test_a_wrong_answer_is_named():
    truth = {"decode": 10, "speed": 1_234, "queued": 0}
    assert not peers.differences({"decode": 10, "speed": 12.340000001, "times": {}}, truth)
    long = {"speed": 2_698_228_111_250}  # a sum of millions
    assert not peers.differences({"speed": 26_982_281_112.48}, long)
    assert peers.differences({"speed": 26_982_281_112.50 - 3_000}, long)  # a line is missing
    assert peers.differences({"decode": 9, "speed": 12.35}, truth) == [
        "decode is 9, not 10", "speed is 1235, not 1234",
    ]  # fmt: skip


def verdict(name: str, value: float, largest: int = bounds.WHOLE, quick: bool = False):
    found = bounds.judge({name: value}, {}, largest, quick)
    return next(one for one in found if one.bound.name == name)


@pytest.mark.parametrize("bound", bounds.BOUNDS, ids=lambda one: one.name)
def test_a_bound_holds_up_to_its_value_and_no_further(bound):
    five = 5 * bounds.WHOLE
    assert not verdict(bound.name, bound.most, five).broken
    assert verdict(bound.name, bound.most, five).said == "yes"
    assert verdict(bound.name, bound.most * 1.001, five).broken
    assert verdict(bound.name, bound.most * 1.001, five).said == "NO"
    assert bound.aim is None or bound.aim < bound.most


@pytest.mark.parametrize("bound", bounds.BOUNDS, ids=lambda one: one.name)
def test_a_short_run_judges_with_a_margin_or_not_at_all(bound):
    found = verdict(bound.name, 1e9, quick=True)
    if bound.quick is None:
        assert not found.broken and found.said == "not judged: only by `make bench`"
    else:
        assert bound.most <= bound.quick <= 2 * bound.most
        assert found.broken and not verdict(bound.name, bound.quick, quick=True).broken


def test_what_cannot_be_judged_says_why():
    assert verdict("flat/log", 9.0).said == "not judged: only from 1 to 5 GB"
    found = bounds.judge({}, {"tables/lnav": "no lnav"}, bounds.WHOLE)
    said = {one.bound.name: one.said for one in found}
    assert said["tables/lnav"] == "not judged: no lnav"
    assert said["tables/mawk"] == "not judged: not measured"
    assert bench.exit_code(Results(), found) == 0


def test_a_bound_that_does_not_hold_and_a_wrong_answer_exit_with_1():
    sound = bounds.judge({"help": 7.0}, {}, bounds.WHOLE)
    assert bench.exit_code(Results(), sound) == 0
    assert bench.exit_code(Results(), bounds.judge({"help": 9.0}, {}, bounds.WHOLE)) == 1
    assert bench.exit_code(Results(wrong=["lnav: decode is 9, not 10"]), sound) == 1


@pytest.mark.parametrize(("value", "code"), [(7.0, 0), (9.0, 1)])
def test_the_command_says_what_does_not_hold(value, code, monkeypatch, tmp_path, capsys):
    for part in ("logs", "traces", "rules", "memory"):
        monkeypatch.setattr(bench.sections, part, lambda *_: None)
    monkeypatch.setattr(bench.sections, "start_up", lambda results, _: results.note("help", value))
    points = [(1e7, 1.0, 1.0), (2e7, 2.0, 2.0)]
    monkeypatch.setattr(
        bench.growth, "grow", lambda results, *_: results.growth.update(rows=points)
    )
    monkeypatch.setattr(bench.inputs, "FOLDER", tmp_path)
    monkeypatch.setattr(bench.os, "chdir", lambda _: None)
    assert bench.main(["--size", "10MB"]) == code
    out = capsys.readouterr().out
    assert ("Does not hold: help." in out) == bool(code)
    assert "not judged: not measured" in out
    assert json.loads((tmp_path / "results.json").read_text())["values"] == {"help": value}


def test_missing_tools_are_named_and_what_needs_them_is_not_judged():
    results = Results(absent=["lnav"], missing={"tables/lnav": "no lnav"})
    found = bounds.judge(results.values, results.missing, bounds.WHOLE)
    text = tables.render(results, found, bounds.WHOLE, 5, bounds.WHOLE)
    assert "| log | lnav | not installed |" in text
    assert "not judged: no lnav" in text


def test_ratios_are_taken_within_rounds():
    """A round in which everything is slow changes no ratio."""
    assert measure.ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == 2.0


def test_times_of_short_inputs_are_extended_without_their_start_up():
    """Half a second, and a second for each 100 bytes."""
    points = [(10, [0.6]), (40, [0.9])]
    assert measure.at_size(points, 100) == pytest.approx([1.5])
    assert measure.at_size([(200, [3.0])], 100) == pytest.approx([1.5])


def test_what_noise_hides_is_not_judged():
    """A larger input that took no longer would be extended to nothing, and hold every bound."""
    hidden = measure.at_size([(10, [0.9, 0.6, 0.9]), (40, [0.6, 0.9, 0.9])], 100)
    results = Results()
    results.note("gz/analyze", measure.ratio(hidden, [1.0, 1.0, 1.0]))
    results.note("report/seconds", -0.1)
    found = bounds.judge(results.values, results.missing, bounds.WHOLE)
    said = {one.bound.name: one.said for one in found}
    assert said["gz/analyze"] == said["report/seconds"] == "not judged: noise hides it"
    assert measure.ratio([2.0, float("nan"), 4.0], [1.0, 1.0, 1.0]) == 3.0


@pytest.mark.parametrize("power", [0.7, 1.0, 1.5, 2.0])
def test_the_exponent_of_growth_is_found_whatever_the_start_up_is(power):
    sizes = [10 * 2**n for n in range(7)]
    for start in (0.0, 0.5):
        took = [start + (size / 40) ** power for size in sizes]
        assert growth.exponent(sizes, took) == pytest.approx(power, abs=0.02)


def test_growth_that_start_up_hides_has_no_exponent():
    assert growth.exponent([10, 20, 40], [0.50, 0.51, 0.53]) is None


def test_the_picture_of_growth_shows_every_series():
    series = {
        what: [(1e7 * 2**n, 0.4 + 0.1 * 2**n, 0.5 + 0.2 * 2**n) for n in range(4)]
        for what in ("rows", "runs", "files", "ranks")
    }
    drawn = growth.picture(series, {"rows": 1.01})
    assert drawn.count("<polyline") == 4 and drawn.count("<circle") == 16
    assert "rows, exponent 1.01" in drawn and "nan" not in drawn


def test_a_process_that_fails_is_an_error_with_what_it_said():
    with pytest.raises(measure.Failed, match="exited with 3: broken"):
        measure.run([sys.executable, "-c", "import sys; sys.stderr.write('broken'); sys.exit(3)"])


def test_memory_and_time_of_a_process_are_measured():
    took = measure.run([sys.executable, "-c", "x = bytearray(300_000_000); print(len(x))"])
    assert took.out == "300000000\n" and took.peak > 290
    assert took.cpu > 0 and took.wall > 0


def test_results_replace_only_what_is_between_the_marks():
    text = f"Before\n{tables.BEGIN}\nold\n{tables.END}\nAfter\n"
    placed = tables.placed(text, "new\n")
    assert placed == f"Before\n{tables.BEGIN}\n\nnew\n\n{tables.END}\nAfter\n"
    assert tables.placed(placed, "new\n") == placed
    with pytest.raises(ValueError, match="no place"):
        tables.placed("Before\n", "new")


def test_the_readme_has_a_place_for_results():
    assert "\nnew\n" in tables.placed(bench.README.read_text(encoding="utf-8"), "new")


def test_sixteen_ranks_hold_the_lines_of_the_log(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.inputs, "FOLDER", tmp_path)
    ranks, plain = bench.inputs.ranks(MEGABYTE), bench.inputs.log(MEGABYTE)
    assert len(ranks.paths) == 16
    counted = {key: value for key, value in ranks.truth.items() if key not in ("lines", "bytes")}
    assert counted.items() <= plain.truth.items()
    found = inside.tables(ranks.names, {})
    assert not peers.differences(found, ranks.truth)


def test_inputs_are_made_again_only_when_their_maker_changes(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.inputs, "FOLDER", tmp_path)
    first = bench.inputs.short().paths[0].stat().st_mtime_ns
    assert bench.inputs.short().paths[0].stat().st_mtime_ns == first
    monkeypatch.setattr(bench.inputs, "_maker", lambda: "another")
    assert bench.inputs.short().paths[0].stat().st_mtime_ns != first


def test_packed_logs_hold_what_the_plain_one_does(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.inputs, "FOLDER", tmp_path)
    plain = bench.inputs.log(1)
    for packed in (bench.inputs.gz(1), bench.inputs.zst(1)):
        assert packed.truth == plain.truth and packed.size < plain.size
        assert not peers.differences(inside.tables(packed.names, {}), plain.truth)
