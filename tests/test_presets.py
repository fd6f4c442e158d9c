"""Presets of `specdiag check`, and founding case 4: the signs of life of a new algorithm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdiag.presets import NEEDS, PRESETS
from specdiag.rule import SEVERITIES

pytestmark = pytest.mark.usefixtures("analyses_once")

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
SMOKE = SAMPLES / "founding-4-smoke-test"
ALIVE = (SMOKE / "healthy-smoke.log").read_text()
MILD = SAMPLES / "acceptance_decays_with_context.log"  # medium
HEALTHY = SAMPLES / "healthy-dflash.log"


def verdicts(specdiag, *arguments):
    answer = specdiag("check", *arguments, "--output", "json=-")
    return answer.code, json.loads(answer.out)["assertions"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_what_fails_it(name):
    assert PRESETS[name].tells and PRESETS[name].fail_on in SEVERITIES


@pytest.mark.parametrize(("preset", "passes"), [("ci", True), ("strict", False)])
def test_a_medium_finding_fails_the_strict_preset_alone(specdiag, preset, passes):
    assert (specdiag("check", MILD, "--preset", preset).code == 0) == passes


def test_fail_on_counts_more_than_the_preset(specdiag):
    assert specdiag("check", MILD, "--preset", "ci", "--fail-on", "medium").code == 1
    assert specdiag("check", MILD, "--preset", "ci", "--fail-on", "never").code == 0


def test_the_preset_can_stand_in_the_configuration(specdiag, tmp_path):
    path = tmp_path / "specdiag.toml"
    path.write_text('preset = "smoke"\n')
    code, found = verdicts(specdiag, SMOKE / "asked.log", "--config", path)
    assert code == 1 and any(one["result"] == "failed" for one in found)
    # The option counts more.
    assert verdicts(specdiag, HEALTHY, "--config", path, "--preset", "ci") == (0, [])


def test_an_unknown_preset_is_named_with_the_nearest_known_one(specdiag):
    answer = specdiag("check", HEALTHY, "--preset", "smok")
    assert answer.code == 2
    assert "no preset is called smok" in answer.err and "did you mean smoke?" in answer.err


# strict


def test_rules_that_apply_and_lack_data_fail_the_strict_preset(specdiag):
    code, found = verdicts(specdiag, HEALTHY, "--preset", "strict")
    (decided,) = [one for one in found if one["name"] == "rules decided"]
    assert (decided["result"], code) == ("undecided", 3)
    results = json.loads(specdiag("check", HEALTHY, "--output", "json=-").out)["results"]
    undecided = {one["rule"] for one in results if one["result"] == "undecided"}
    named = decided["message"].partition(": ")[2].removesuffix(", ...").split(", ")
    assert named and set(named) <= undecided


def test_a_file_that_is_read_in_part_fails_the_strict_preset(specdiag, tmp_path):
    records = (SAMPLES / "healthy-complete-trace.jsonl").read_text()
    torn = tmp_path / "torn.jsonl"
    torn.write_text(records + '{"kind": "step", "st\n' * len(records.splitlines()))
    code, found = verdicts(specdiag, torn, "--preset", "strict", "--fail-on", "never")
    (read,) = [one for one in found if one["name"] == "files understood"]
    assert read["result"] == "failed" and code != 0
    assert "torn.jsonl" in read["message"] and "wanted 90%" in read["message"]


def test_a_file_that_is_understood_does_not(specdiag):
    _, found = verdicts(specdiag, HEALTHY, "--preset", "strict")
    assert [one["result"] for one in found if one["name"] == "files understood"] == ["ok"]


# smoke


def smoke(specdiag, folder, text):
    path = folder / "server.log"
    path.write_text(text)
    code, found = verdicts(specdiag, path, "--preset", "smoke")
    return code, {one["name"].removeprefix("smoke: "): one for one in found}


def test_all_hook_lines_pass_and_are_not_called_a_proof(specdiag, tmp_path):
    code, found = smoke(specdiag, tmp_path, ALIVE)
    assert code == 0
    assert list(found) == [need.title for need in NEEDS]
    assert {one["result"] for one in found.values()} == {"ok"}
    assert "no proof of correctness" in found["at least one verification"]["message"]


@pytest.mark.parametrize(("line", "need"), [
    ("draft runner", "runner initialised"),
    ("shadow-linear mode is enabled", "mode announced"),
    ("verify completed", "at least one verification"),
])  # fmt: skip
def test_each_missing_hook_line_fails(specdiag, tmp_path, line, need):
    assert line in ALIVE
    text = "".join(one for one in ALIVE.splitlines(keepends=True) if line not in one)
    code, found = smoke(specdiag, tmp_path, text)
    assert code == 1
    assert found[need]["result"] == "failed"
    assert "DDTREE was asked for, but" in found[need]["message"]


def test_another_algorithm_that_verifies_fails(specdiag, tmp_path):
    code, found = smoke(specdiag, tmp_path, ALIVE.replace("DDTREE verify", "DFLASH verify"))
    assert code == 1
    assert found["requested mode executed"]["result"] == "failed"
    assert "DFLASH" in found["requested mode executed"]["message"]


def test_the_silent_fall_back_of_the_founding_case_fails(specdiag):
    code, found = verdicts(specdiag, SMOKE, "--preset", "smoke")
    failed = {(one["run"], one["name"]) for one in found if one["result"] == "failed"}
    assert code == 1
    assert ("asked", "smoke: requested mode executed") in failed
    assert {run for run, _ in failed} == {"asked"}


def test_a_trace_shows_what_ran_by_its_steps(specdiag):
    code, found = verdicts(specdiag, SAMPLES / "healthy-complete-trace.jsonl", "--preset", "smoke")
    assert code == 0 and {one["result"] for one in found} == {"ok"}


def test_a_smoke_test_of_no_speculation_checks_nothing_and_is_not_green(specdiag):
    answer = specdiag("check", SAMPLES / "healthy-no-speculation.log", "--preset", "smoke")
    assert answer.code == 2 and "no run speculates" in answer.err
