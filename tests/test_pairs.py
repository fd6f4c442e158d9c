"""Which runs are compared, in what they differ, and what forbids a verdict."""

from __future__ import annotations

import json

import pytest

START = "[2026-03-{day:02} 10:00:00] server_args=ServerArgs({arguments})\n"
FREE = "[2026-03-{day:02} 10:00:04 TP0] Load weight begin. avail mem={free:.2f} GB\n"
PREFILL = (
    "[2026-03-{day:02} 10:01:{n:02}] Prefill batch, #new-seq: 1, #new-token: {tokens}, "
    "#cached-token: 0, token usage: 0.01, #running-req: 0, #queue-req: 0, #pending-token: 0, "
    "cuda graph: False, input throughput (token/s): 200.00\n"
)
DECODE = (
    "[2026-03-{day:02} 10:01:{n:02}] Decode batch, #running-req: 1, #token: {total}, "
    "token usage: 0.01, accept len: {length:.2f}, accept rate: {rate:.2f}, cuda graph: True, "
    "gen throughput (token/s): 200.00, #queue-req: 0\n"
)
ARGUMENTS = {
    "model_path": "a/target", "port": 30000, "random_seed": 5, "page_size": 64, "device": "cuda",
    "tokenizer_path": "a/target", "speculative_algorithm": "EAGLE3",
    "speculative_num_draft_tokens": 4, "log_level": "info",
}  # fmt: skip


def log(day=1, length=2.5, prompts=(300, 411, 523, 640, 777, 810), free=78.4, **changed):
    """A server that answers these prompts, ten decode lines each."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in (ARGUMENTS | changed).items())
    text = START.format(day=day, arguments=arguments) + FREE.format(day=day, free=free)
    for n, tokens in enumerate(prompts):
        text += PREFILL.format(day=day, n=n, tokens=tokens)
        for m in range(10):
            c = length + 0.1 * ((n + m) % 3 - 1)
            total = tokens + round(40 * length) * (m + 1)
            text += DECODE.format(day=day, n=n, total=total, length=c, rate=(c - 1) / 3)
    return text


@pytest.fixture
def write(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.log").write_text(text)
        return tmp_path

    return write


def differing(filled, run="new"):
    rows = filled.rows("SELECT key, value, other, kind FROM difference WHERE run = ?", [run])
    return {row["key"]: (row["value"], row["other"], row["kind"]) for row in rows}


def hindrances(filled, run="new"):
    return {row["what"] for row in filled.rows("SELECT what FROM hindrance WHERE run = ?", [run])}


# Differences -------------------------------------------------------------------------------------


def test_settings_that_differ_are_named_with_their_kind(write, load):
    changed = {"tp_size": 2, "speculative_draft_window_size": 512, "page_size": 1}
    found = differing(load(write(old=log(), new=log(day=2, **changed))))
    assert found == {
        "tp_size": ("2", None, "layout"),
        "speculative_draft_window_size": ("512", None, "draft"),
        "page_size": ("1", "64", "capacity"),
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"port": 31000}, {"random_seed": 7}, {"log_level": "debug"}, {"api_key": "x"},
        {"served_model_name": "y"}, {"tokenizer_path": "/other/copy"}, {"page_size": 64.0},
    ],
)  # fmt: skip
def test_settings_that_cannot_matter_are_left_out(write, load, changed):
    assert differing(load(write(old=log(), new=log(day=2, **changed)))) == {}


def test_an_option_that_only_one_full_list_has_says_that_the_versions_differ(write, load):
    many = {f"option_{n}": n for n in range(50)}
    new = log(day=2, **many, brand_new_option=3)
    found = differing(load(write(old=log(**many), new=new)))
    assert found == {"options": ("brand_new_option", None, "version")}


# What forbids a comparison -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"free": 138.4}, {"hardware"}),
        ({"device": "cpu"}, {"hardware"}),
        ({"prompts": (40, 44, 51, 60, 72, 77)}, {"prompts"}),
        ({"free": 79.1}, set()),
        ({"page_size": 1}, set()),
    ],
)
def test_hindrances(write, load, changed, what):
    assert hindrances(load(write(old=log(), new=log(day=2, **changed)))) == what


def test_answers_of_other_lengths_are_other_work(tmp_path, load):
    for name, tokens in (("old", 100), ("new", 400)):
        records = [
            {"id": f"{n}", "prompt_tokens": 50 + n, "completion_tokens": tokens, "spec_verify_ct": 40}
            for n in range(6)
        ]  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    assert hindrances(load(tmp_path)) == {"length"}


def test_the_same_prompts_are_known_by_their_lengths(write, load):
    filled = load(write(old=log(), new=log(day=2), other=log(day=3, prompts=(9000,) * 6)))
    rows = filled.rows("SELECT against, same_prompts, later FROM pairing WHERE run = 'new'")
    assert {row["against"]: (row["same_prompts"], row["later"]) for row in rows} == {
        "old": (True, True),
        "other": (False, False),
    }


def test_no_verdict_on_other_hardware(write, diagnose):
    good, bad = log(length=2.8), log(day=2, length=1.6, speculative_draft_window_size=512)
    found = diagnose(write(old=good, new=bad))
    assert [one.id for one in found.findings] == ["acceptance_low_from_start@new"]
    assert "speculative_draft_window_size=512" in found.findings[0].message
    write(new=log(day=2, length=1.6, free=138.4))
    found = diagnose(write(old=good))
    assert found.findings == []


# --baseline --------------------------------------------------------------------------------------


def test_every_run_is_compared_with_the_baseline(write, tmp_path, specdiag):
    good, bad = write(good=log(length=2.8)) / "good.log", tmp_path / "other" / "bad.log"
    bad.parent.mkdir()
    # without a known model nothing pairs the two files
    bad.write_text(log(day=2, length=2.0).replace("model_path='a/target', ", ""))
    assert specdiag("check", bad, good).code == 0
    answer = specdiag("analyze", bad, "--baseline", good, "--no-html")
    assert "acceptance_regressed" in answer.out
    assert "bad against good" in answer.out
    named = specdiag("analyze", bad, good, "--baseline", "good", "--no-html")
    assert "bad against good" in named.out


def test_a_baseline_that_cannot_be_compared_is_a_note_and_no_finding(write, specdiag):
    folder = write(good=log(length=2.8), bad=log(day=2, length=1.6, model_path="b/other"))
    answer = specdiag("analyze", folder, "--baseline", "good", "--no-html", "--output", "json=-")
    found = json.loads(answer.out)
    assert found["findings"] == []
    assert "another model (b/other against a/target)" in found["notices"][0]["what"]
    decided = {one["rule"]: one for one in found["results"] if one["run"] == "bad"}
    assert decided["acceptance_regressed"]["result"] == "undecided"


def test_a_baseline_that_is_not_there(write, specdiag):
    folder = write(good=log(), bad=log(day=2))
    answer = specdiag("check", folder, "--baseline", "nobody")
    assert answer.code == 2
    assert "no such run" in answer.err and "bad, good" in answer.err


def test_nothing_but_the_baseline(write, specdiag):
    path = write(good=log()) / "good.log"
    assert specdiag("check", path, "--baseline", path).code == 2


def test_a_baseline_in_the_same_folder_is_a_run_of_its_own(write, tmp_path, specdiag):
    write(server=log())
    record = {"step": 1, "rid": "r", "accepted_depth": 1, "commit_len": 2}
    (tmp_path / "steps.jsonl").write_text(json.dumps(record) + "\n")
    answer = specdiag(
        "analyze", tmp_path / "steps.jsonl", "--baseline", tmp_path / "server.log", "--no-html",
        "--output", "json=-",
    )  # fmt: skip
    assert [run["run"] for run in json.loads(answer.out)["runs"]] == ["server", "steps"]


def test_the_command_line_of_llamacpp_is_compared(write, load):
    text = (
        "0.00.090.000 I main: build {build} (0badcafe) with gcc 14.1.0 for x86_64-linux-gnu\n"
        "0.00.100.000 I srv   llama_server: argv: llama-server -m a.gguf -md d.gguf {more}\n"
        "0.03.000.000 I srv    load_model: loading model 'a.gguf'\n"
    )
    old = text.format(build=9001, more="--draft-max 8 -ngl -1 --port 8080")
    new = text.format(build=9100, more="--draft-max=16 -ngl -1 --no-mmap --port 8081")
    assert differing(load(write(old=old, new=new))) == {
        "version": ("9100 (0badcafe)", "9001 (0badcafe)", "version"),
        "draft_max": ("16", "8", "draft"),
        "no_mmap": ("true", None, "other"),
    }
