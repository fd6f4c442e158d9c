"""A run leaves a trace and a server-shaped log; both say the same, and an analysis finds no fault."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from statistics import fmean

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import pair, recording  # noqa: E402
from specdiag.ddtree.decode import MODES, Options, Request  # noqa: E402
from specdiag.ddtree.recording import Recording  # noqa: E402
from specdiag.ddtree.verify import Sampling  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

ALGORITHM = {"linear": "DFLASH", "ddtree": "DDTREE", "shadow_linear": "DDTREE"}
SEVERE = ("critical", "high", "medium")


@pytest.fixture(scope="module")
def models(pair_folder):
    """The tiny pair, loaded."""
    return pair.load(pair_folder / "target", pair_folder / "drafter")


def written(models, folder, mode, requests=None, **options):
    """A run of two batches: its folder, its log, its records and its results."""
    requests = requests or [request(models, at) for at in range(4)]
    with Recording(
        models, Options(mode, 12, 4, run=mode, stop_ids=models.stop_ids, **options),
        folder / "steps.jsonl", folder / "server.log",
    ) as run:  # fmt: skip
        batches = filter(None, (requests[:3], requests[3:]))
        results = [each for batch in batches for each in run.decode(batch)]
    lines = (folder / "server.log").read_text().splitlines()
    records = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    return folder, lines, records, results


@pytest.fixture
def record(models, tmp_path):
    """`record(mode, requests)`: what is written of a run of these requests."""
    return lambda mode, requests=None, **options: written(
        models, tmp_path / mode, mode, requests, **options
    )


@pytest.fixture(scope="module")
def recorded(models, tmp_path_factory):
    """What is written of a run in each mode, all in one folder, for tests that only read it."""
    folder = tmp_path_factory.mktemp("runs")
    return {mode: written(models, folder / mode, mode) for mode in MODES}


def request(models, at, tokens=90, **changes):
    sampling = Sampling(1.0, 0.9, at) if at % 2 else Sampling()
    prompt = models.tokenizer.encode("def read(path):\n" * (at + 1))
    return Request(f"r{at}", prompt, tokens + 7 * at, sampling=sampling, **changes)


def kind(records, name):
    return [each for each in records if each["record"] == name]


def numbers(lines, label, head="Decode batch"):
    found = [
        re.search(rf"{re.escape(label)}[:=] ?([0-9.]+)", each) for each in lines if head in each
    ]
    return [float(each[1]) for each in found if each]


def windows(records):
    """The steps of every 40 steps of the batch, as the trace has them in their order."""
    forwards, rows = [], []
    for step in kind(records, "step"):
        rows.append(step)
        if len(rows) == step["batch"]:
            forwards.append(rows)
            rows = []
    assert not rows
    whole = len(forwards) // 40 * 40
    return [list(chain(*forwards[at : at + 40])) for at in range(0, whole, 40)]


@pytest.mark.parametrize("mode", MODES)
def test_log_and_trace_of_a_run_are_read_whole_and_nothing_is_wrong(mode, recorded, diagnose):
    folder, *_ = recorded[mode]
    found = diagnose(folder)
    assert [cause.message for cause in found.causes if cause.severity in SEVERE] == []
    (run,) = found.runs
    assert run.name == mode
    assert sorted((each["format"], each["parsed"]) for each in run.sources) == [
        ("sglang_server", 1.0),
        ("steps", 1.0),
    ]


def test_the_runs_of_all_modes_together_show_no_fault(recorded, diagnose):
    runs = [recorded[mode] for mode in MODES]
    texts = {tuple(tuple(each.tokens) for each in results) for *_, results in runs}
    assert len(texts) == 1
    found = diagnose(runs[0][0].parent)
    assert len(found.runs) == len(MODES)
    assert [c.message for c in found.causes if c.severity in ("critical", "medium")] == []
    assert {c.rule for c in found.causes if c.severity == "high"} <= {"slower_than_baseline"}


@pytest.mark.parametrize("mode", ["linear", "ddtree", "shadow_linear"])
def test_decode_lines_are_the_means_of_their_forty_steps(mode, recorded):
    _, lines, records, _ = recorded[mode]
    spans = windows(records)
    assert spans
    width = records[0]["effective"]["width"]
    lengths = [fmean(step["commit_len"] for step in span) for span in spans]
    assert numbers(lines, "accept len") == [pytest.approx(each, abs=0.006) for each in lengths]
    rates = [(each - 1) / (width - 1) for each in lengths]
    assert numbers(lines, "accept rate") == [pytest.approx(each, abs=0.006) for each in rates]
    last = [span[-span[-1]["batch"] :] for span in spans]  # the rows of the fortieth step
    assert numbers(lines, "#token") == [sum(each["kv_after"] for each in rows) for rows in last]
    assert numbers(lines, "#running-req") == [len(rows) for rows in last]


def test_metric_lines_are_the_means_of_the_same_steps(recorded):
    _, lines, records, _ = recorded["ddtree"]
    spans = windows(records)
    for label, column in (
        ("avg_accepted_depth", "accepted_depth"), ("avg_accepted_drafts", "accepted_drafts"),
        ("avg_commit_len", "commit_len"), ("avg_tree_size", "nodes"),
    ):  # fmt: skip
        means = [fmean(step[column] for step in span) for span in spans]
        assert numbers(lines, label, "metrics") == [pytest.approx(m, abs=0.006) for m in means]
    assert numbers(lines, "budget", "metrics") == [12] * len(spans)


@pytest.mark.parametrize("mode", MODES)
def test_hook_lines_say_what_runs(mode, recorded):
    _, lines, records, _ = recorded[mode]
    text = "\n".join(lines)
    name = ALGORITHM.get(mode)
    assert re.findall(r"Initialized (\w+) draft runner", text) == ([name] if name else [])
    assert ("DDTREE shadow-linear mode is enabled" in text) == (mode == "shadow_linear")
    first = kind(records, "step")
    drafts = [int(step["accepted_drafts"]) for step in first[: first[0]["batch"]]]
    verified = re.findall(r"(\w+) verify completed. num_accepted_drafts_per_req=(.*)", text)
    assert verified == ([(name, str(drafts))] if name else [])
    assert ("accept len" in text) == ("metrics" in text or mode == "linear") == (name is not None)


def test_arguments_are_the_values_that_ran(recorded, load):
    folder, *_ = recorded["ddtree"]
    (run,) = load(folder).rows("SELECT * FROM run")
    wanted = {
        "algorithm": "DDTREE", "executed": "DDTREE", "speculates": True, "tree": True,
        "shadow": False, "draft_tokens": 13, "budget": 12, "top_k": 4, "block": 7, "page_size": 1,
        "log_interval": 40, "ready": True,
    }  # fmt: skip
    assert wanted.items() <= run.items()


def test_prompts_are_counted(recorded):
    _, lines, _, results = recorded["ddtree"]
    prompts = [len(each.request.prompt) for each in results]
    assert numbers(lines, "#new-token", "Prefill") == [sum(prompts[:3]), prompts[3]]
    assert numbers(lines, "#new-seq", "Prefill") == [3, 1]


@pytest.mark.parametrize("mode", MODES)
def test_request_records_count_what_the_steps_did(mode, recorded):
    _, _, records, results = recorded[mode]
    found = {each["request"]: each for each in kind(records, "request")}
    assert sorted(found) == sorted(each.request.name for each in results)
    for result in results:
        one, wanted = found[result.request.name], result.request
        steps = [s for s in kind(records, "step") if s["request"] == wanted.name]
        assert one["prompt_tokens"] == len(wanted.prompt)
        assert one["completion_tokens"] == len(result.tokens)
        assert one["completion_tokens"] == 1 + sum(len(step["emitted"]) for step in steps)
        assert (one["first_token"], one["finish"]) == (result.tokens[0], result.finish)
        assert (one["max_new_tokens"], one["seed"]) == (wanted.max_new_tokens, wanted.sampling.seed)
        assert (one["temperature"], one["top_p"]) == (
            wanted.sampling.temperature,
            wanted.sampling.top_p,
        )
        if mode == "autoregressive":
            assert "verify_steps" not in one  # nothing is verified there
            continue
        assert one["verify_steps"] == len(steps) == sum(one["histogram"])
        drafts = [len(step["accepted"]) - 1 for step in steps]
        assert [drafts.count(at) for at in range(len(one["histogram"]))] == one["histogram"]
        assert one["correct_drafts"] == sum(drafts)
        assert one["proposed_drafts"] == sum(step["nodes"] for step in steps)


def test_a_request_record_follows_its_last_step(recorded):
    _, _, records, _ = recorded["ddtree"]
    assert records[0]["record"] == "run"
    for at, each in enumerate(records):
        if each["record"] == "step" and "finish" in each:
            assert (records[at + 1]["record"], records[at + 1]["request"]) == (
                "request",
                each["request"],
            )


def test_a_request_that_prefill_ends_has_a_record_without_steps(record, models):
    _, _, records, _ = record("ddtree", [request(models, 0, tokens=1)])
    assert [each["record"] for each in records] == ["run", "request"]
    assert (records[1]["completion_tokens"], records[1]["verify_steps"]) == (1, 0)


def test_the_oracle_holds_steps_back_but_no_line_of_the_log(recorded, record, diagnose):
    _, plain, _, _ = recorded["ddtree"]
    folder, late, records, _ = record("ddtree", detail=frozenset({"oracle"}))
    assert all("oracle_tokens" in step for step in kind(records, "step"))
    for label in ("accept len", "#token", "#running-req"):
        assert numbers(late, label) == numbers(plain, label)
    assert [c.message for c in diagnose(folder).causes if c.severity in SEVERE] == []


def test_budgets_of_their_own_are_no_contradiction(record, models, diagnose):
    own = [request(models, at, budget=3 * at) for at in range(4)]
    folder, _, records, _ = record("ddtree", own)
    assert {step["budget"] for step in kind(records, "step")} == {0, 3, 6, 9}
    assert [c.message for c in diagnose(folder).causes if c.severity in SEVERE] == []


def test_the_run_record_holds_what_was_asked_for(models, tmp_path):
    options = Options("ddtree", 5, 3, depth_limit=4, depth_bonus=0.5, run="mine")
    with Recording(
        models, options, tmp_path / "a" / "b" / "t.jsonl", context={"text": "hard"}
    ) as run:
        run.decode([request(models, 1, tokens=3)])
    first = json.loads((tmp_path / "a" / "b" / "t.jsonl").read_text().splitlines()[0])
    of = models.drafter.architecture
    wanted = {
        "record": "run", "run": "mine", "algorithm": "DDTREE", "accept_rule": "sample_and_match",
        "block": 7, "budget": 5, "top_k": 3, "depth_bonus": 0.5, "mask_id": of.mask_token_id,
        "vocab": of.vocab_size, "tap_layers": [0, 2], "dtype": "float32", "page_size": 1,
        "target": str(models.target_folder), "drafter": str(models.drafter_folder),
        "effective": {"depth_limit": 4, "width": 6},
    }  # fmt: skip
    assert wanted.items() <= first.items()
    assert (first["requested"]["text"], first["requested"]["mode"]) == ("hard", "ddtree")
    assert [layer["window"] for layer in first["draft_layers"]] == [9, None]


def test_a_bundled_model_is_named_without_its_place():
    assert recording._name(pair.BUNDLED / "plain" / "target") == "plain/target"


def test_without_files_nothing_is_recorded(models, monkeypatch):
    def forbidden(*_):
        raise AssertionError("a record was made")

    monkeypatch.setattr(Recording, "_step", forbidden)
    with Recording(models, Options("ddtree", 4)) as run:
        (result,) = run.decode([request(models, 0, tokens=9)])
    assert len(result.tokens) == 9


def test_requests_of_a_run_need_names_of_their_own(models, tmp_path):
    one = request(models, 0, tokens=2)
    with (
        Recording(models, Options(), tmp_path / "t.jsonl") as run,
        pytest.raises(SpecdiagError, match="'r0'"),
    ):
        run.decode([one])
        run.decode([one])
    with (
        Recording(models, Options(), tmp_path / "t.jsonl") as run,
        pytest.raises(SpecdiagError, match="'r0'"),
    ):
        run.decode([one, one])


# What goes wrong


def test_requests_that_do_not_fit_leave_old_files_alone(models, tmp_path):
    for name in ("t.jsonl", "s.log"):
        (tmp_path / name).write_text("old")
    with (
        Recording(models, Options(), tmp_path / "t.jsonl", tmp_path / "s.log") as run,
        pytest.raises(SpecdiagError, match="positions"),
    ):
        run.decode([request(models, 0, tokens=600)])
    assert {each.read_text() for each in tmp_path.iterdir()} == {"old"}


def test_a_file_that_cannot_be_made_leaves_no_other(models, tmp_path):
    (tmp_path / "file").write_text("")
    bad, good = tmp_path / "file" / "t.jsonl", tmp_path / "good"
    for files in ((bad, good), (good, bad), (tmp_path, good), (good, tmp_path)):
        with Recording(models, Options(), *files) as run, pytest.raises(SpecdiagError) as error:
            run.decode([request(models, 0, tokens=2)])
        assert error.value.where == str(bad if bad in files else tmp_path)
        assert not good.exists()


@pytest.mark.parametrize("files", [("/dev/full", None), (None, "/dev/full")])
def test_a_full_disk_stops_the_run_in_three_lines(models, files, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    trace, log = (Path(each) if each else tmp_path / "other" for each in files)
    with (
        pytest.raises(SpecdiagError, match="no space left on device") as error,
        Recording(models, Options("ddtree", 3), trace, log) as run,
    ):
        run.decode([request(models, 0, tokens=30)])
    assert str(error.value).count("\n") == 2


def test_an_interrupted_run_is_readable_up_to_there(models, tmp_path, load):
    seen = 0

    def stop(request, tokens):
        nonlocal seen
        seen += 1
        if seen == 60:
            raise KeyboardInterrupt

    folder = tmp_path / "stopped"
    with (
        pytest.raises(KeyboardInterrupt),
        Recording(models, Options("autoregressive"), folder / "t.jsonl", folder / "s.log") as run,
    ):
        run.decode([request(models, 0)], stop)
    store = load(folder)
    assert store.rows("SELECT parsed FROM source") == [{"parsed": 1.0}] * 2
    assert len(store.rows("SELECT * FROM step")) == 58
    assert len(store.rows("SELECT * FROM decode")) == 1
