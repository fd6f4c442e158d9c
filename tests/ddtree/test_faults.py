"""Every fault breaks what it should, and nothing is reported without one."""

from __future__ import annotations

import dataclasses
import json

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import detect, faults, trials  # noqa: E402
from specdiag.ddtree.trials import Trial  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

CASES = {case.number: case for case in detect.fault_cases(quick=True)}
# What only shows in the text, in a law, or over many steps shows later than it begins, and a law
# is broken only so often.
LATE = {4, 27, 28, 33, 34, 49}
TIMED = {48, 49}  # what a busy machine can hide


def of_fault(number):
    return not CASES[number].benign


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """All cases, and the same runs without a fault, in one folder and one analysis."""
    folder = tmp_path_factory.mktemp("faults")
    for case in CASES.values():
        detect.write(case, folder)
    sound = {dataclasses.replace(case.trial, label="sound-") for case in CASES.values()}
    for number, trial in enumerate(sorted(sound, key=str)):
        if trial.max_new_tokens < 200:
            detect.write(detect.Case(dataclasses.replace(trial, label=f"sound{number}-")), folder)
    return folder, detect.judge(folder)


def test_the_catalogue_is_whole():
    known = [*faults.all_faults(), *faults.ELSEWHERE]
    assert sorted(known) == list(range(1, 68))


@pytest.mark.parametrize("number", [n for n in CASES if of_fault(n)], ids="F{}".format)
def test_a_fault_is_named_first_and_at_its_step(number, judged):
    case = CASES[number]
    assert not case.error
    assert case.due is not None, "it had nothing to act on"
    causes = judged[1].get(case.trial.name, [])
    if number in TIMED and not causes:
        return
    rule, _, message, step, named = causes[0]
    assert f"F{number}" in named.split(", "), f"{rule}: {message}"
    if number not in LATE:
        assert step == case.due, message


@pytest.mark.parametrize("number", [n for n in CASES if not of_fault(n)], ids="F{}".format)
def test_what_only_looks_like_a_fault_raises_no_alarm(number, judged):
    case = CASES[number]
    found = judged[1].get(case.trial.name, [])
    assert [one for one in found if one[1] not in detect.QUIET] == []


def test_nothing_is_reported_without_a_fault(judged):
    sound = {name: found for name, found in judged[1].items() if name.startswith("sound")}
    loud = [(n, one) for n, found in sound.items() for one in found if one[1] not in detect.QUIET]
    assert loud == []


def emitted(path):
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    steps = [one for one in records if one["record"] == "step" and one["request"] == "r0"]
    return [token for one in sorted(steps, key=lambda one: one["step"]) for token in one["emitted"]]


@pytest.mark.parametrize("number", [n for n in CASES if faults.all_faults()[n].effect in "SM"])
def test_text_is_left_alone_by_what_costs_acceptance_or_counts_wrong(number, judged, tmp_path):
    case = CASES[number]
    if case.trial.max_new_tokens > 100:  # the same as others, and long
        return
    plain = dataclasses.replace(case.trial, label="plain-", detail=frozenset())
    trials.run(plain, tmp_path / "plain.jsonl")
    broken = emitted(judged[0] / f"{case.trial.name}.jsonl")
    assert broken == emitted(tmp_path / "plain.jsonl")


# The founding case, rebuilt -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "rule"), [(20, "counter_is_not_acceptance"), (18, "walk_stopped_early")]
)
def test_a_wrong_counter_is_told_from_a_walk_that_stops_early(number, rule, tmp_path):
    """Budget 7, top-k 1: a depth of 7.00 beside a commit length of 2.00 has two explanations."""
    trial = Trial("sliding", budget=7, top_k=1, max_new_tokens=60)
    detect.write(detect.Case(trial, number, start=0), tmp_path)
    (found,) = detect.judge(tmp_path).values()
    assert [one[0] for one in found] == [rule]


def test_a_chain_whose_first_row_alone_has_a_mask_is_found(tmp_path):
    trial = dataclasses.replace(CASES[44].trial, mode="linear")
    case = detect.write(detect.Case(trial, 44, start=2), tmp_path)
    (found,) = detect.judge(tmp_path).values()
    assert (found[0][0], found[0][3]) == ("grammar_not_applied", case.due)


# As it is ordered -----------------------------------------------------------------------------------


def test_a_fault_and_its_step_are_read():
    assert faults.parse("F12@40") == (faults.all_faults()[12], 40)
    assert faults.parse("f3") == (faults.all_faults()[3], 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [("F99@x", "no fault"), ("12", "no fault"), ("F99", "called F99"), ("F47", "cannot be shown")],
)
def test_what_is_no_fault_is_said_in_three_lines(given, message):
    with pytest.raises(SpecdiagError, match=message) as caught:
        faults.parse(given)
    assert caught.value.where == "--fault" and caught.value.help


def test_the_command_breaks_a_run(specdiag, tmp_path):
    trace = tmp_path / "steps.jsonl"
    answer = specdiag(
        "ddtree", "generate", "import os", "--max-new-tokens", 24, "--trace", trace,
        "--fault", "F26@2",
    )  # fmt: skip
    assert answer.code == 0 and "F26" in answer.err
    assert "draft_context_wrong" in specdiag("check", trace).out
    assert specdiag("ddtree", "generate", "import os", "--fault", "F99@x").code == 2


@pytest.mark.parametrize(("name", "needed"), [("F44", "--grammar"), ("F66", "--prefix-cache")])
def test_a_fault_says_what_it_needs(specdiag, name, needed):
    answer = specdiag("ddtree", "generate", "import os", "--fault", name)
    assert answer.code == 2 and needed in answer.err


def test_the_list_has_every_fault(specdiag):
    out = specdiag("ddtree", "faults").out
    assert all(f"F{number}" in out for number in faults.all_faults())


def test_nothing_is_left_of_a_fault():
    from specdiag.ddtree import loop

    before = (loop.accept, loop.compile, loop.Loop.step, loop.Loop._emit)
    for one in faults.all_faults().values():
        with faults.inject(one):
            pass
    assert (loop.accept, loop.compile, loop.Loop.step, loop.Loop._emit) == before
