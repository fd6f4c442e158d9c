"""What is composed is diagnosed: every scenario in every version says what it must and no more."""

from __future__ import annotations

import os
from pathlib import Path

import corpus
import mutations
import pytest
from corpus import ALARMING, Case, Said

ROOT = Path(__file__).parents[1]
RULES = {path.stem for path in (ROOT / "rules").glob("*.sql")}
CASES = corpus.cases()

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@pytest.fixture(scope="session")
def said(tmp_path_factory) -> dict[str, Said]:
    """What is said of every case."""
    return corpus.judge(
        tmp_path_factory.mktemp("corpus"), ((case.id, case.files) for case in CASES)
    )


@each_case
def test_finds_what_there_is(case: Case, said: dict[str, Said]) -> None:
    assert set(case.expect) & RULES <= said[case.id].rules()


@each_case
def test_raises_no_false_alarm(case: Case, said: dict[str, Said]) -> None:
    allowed = {*case.expect, *case.also}
    wrong = [
        one for one in said[case.id].findings if one.rule.name in said[case.id].alarms() - allowed
    ]
    assert not wrong, [f"{one.severity} {one.rule.name}: {one.message}" for one in wrong]
    assert not set(case.never) & said[case.id].rules()


@each_case
def test_understands_every_line(case: Case, said: dict[str, Said]) -> None:
    assert said[case.id].read and said[case.id].parsed == 1


def test_there_is_enough_of_everything() -> None:
    assert len(CASES) >= 60 and len({case.id for case in CASES}) == len(CASES)
    assert sum(case.healthy for case in CASES) >= 40
    versions = {case.version for case in CASES}
    assert {"vllm 0.6.6", "vllm 0.9.2", "vllm 0.33.0", "llamacpp 5000", "llamacpp 9950"} <= versions
    releases = {
        tuple(map(int, one.split()[1].split("."))) for one in versions if one.startswith("sglang")
    }
    assert min(releases) == (0, 4, 0) and max(releases) == (0, 5, 23) and len(releases) >= 20


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert CASES[0].files() == CASES[0].files()
    assert CASES[0].files() != CASES[1].files()


# Operators -----------------------------------------------------------------------------------------

# Rules that nothing here makes fire: those on traces, whose power is in benchmarks/detection.md.
WITHOUT_OPERATOR = {
    "accepted_token_mismatch", "device_idle", "grammar_not_applied", "bonus_from_wrong_row", "commit_moved_wrong_rows", "differs_from_target",
    "draft_context_wrong", "emitted_differs_from_accepted", "host_bound_step", "kv_length_wrong",
    "path_not_a_chain", "position_wrong", "requests_exchanged", "sampling_law_broken",
    "stage_grows_with_context", "stage_time_unaccounted", "steps_do_not_chain", "stop_not_honoured",
    "tree_not_as_built", "visibility_leak", "walk_stopped_early", "window_not_applied",
}  # fmt: skip


def test_every_rule_on_logs_has_an_operator(definitions) -> None:
    assert RULES - set(mutations.OPERATORS) == WITHOUT_OPERATOR
    on_traces = {
        rule.name for rule in definitions[1] if rule.needs.get("step") or rule.needs.get("profile")
    }
    assert on_traces == WITHOUT_OPERATOR


def test_every_operator_has_a_scenario() -> None:
    assert {case.fault for case in CASES if case.fault} == set(mutations.OPERATORS)


# What a death ends is the server of the scenario `chat`.
UNHARMED = [name for name, one in mutations.OPERATORS.items() if one.unit != mutations.DEATH]


@pytest.fixture(scope="session")
def unharmed(tmp_path_factory) -> dict[str, Said]:
    """What is said of what every operator starts from."""

    def make(name: str) -> mutations.Files:
        one = mutations.OPERATORS[name]
        return one.make(mutations.server(one.on, f"{name}-unharmed"), one.healthy)

    wanted = ((name, lambda name=name: make(name)) for name in UNHARMED)
    return corpus.judge(tmp_path_factory.mktemp("unharmed"), wanted)


@pytest.mark.parametrize("name", UNHARMED)
def test_what_an_operator_starts_from_is_healthy(name: str, unharmed: dict[str, Said]) -> None:
    assert not unharmed[name].alarms() and name not in unharmed[name].rules()


# Real logs and cases, where they are at hand --------------------------------------------------------

SHARED = Path(os.environ.get("SPECDIAG_SHARED", ROOT.parent / "shared"))
REAL = sorted(SHARED.glob("real/*.[lpjt]*")) + sorted(SHARED.glob("cases/case-*"))
REAL = [path for path in REAL if "vectors" not in path.name]


# What shared/cases must at least say, by the number of the case.
CASE = {
    "01": "draft_never_accepted", "06": "acceptance_decays_with_context", "09": "retraction_storm",
    "13": "binary_mismatch", "20": "out_of_memory_at_start", "24": "server_hung", "27": "sources_disagree",
    "28": "position_cliff", "32": "speculation_never_engages", "34": "depth_contradicts_commit",
    "38": "step_time_superlinear", "39": "draft_never_accepted",
}  # fmt: skip


@pytest.mark.skipif(not REAL, reason="no logs of others beside this repository")
def test_logs_of_others(diagnose) -> None:
    """Healthy ones stay silent, failed starts have one cause; all are read at once."""
    found = diagnose(*REAL)
    files = {run.name: {Path(one["path"]).name for one in run.sources} for run in found.runs}
    said: dict[str, list[tuple[str, str]]] = {path.name: [] for path in REAL}
    for one in found.findings:
        for name in files[one.run] if one.explained_by is None else ():
            said[name].append((one.rule.name, one.severity))
    for name, rules in said.items():
        alarms = [rule for rule, severity in rules if severity in ALARMING]
        if "startfail" in name:
            assert [severity for _, severity in rules if severity in ALARMING] == ["critical"], (
                name,
                rules,
            )
        elif "healthy" in name or not name.startswith("case-"):
            assert not alarms, (name, rules)
        elif (rule := CASE.get(name[5:7])) in RULES:
            assert rule in [one for one, _ in rules], (name, rules)
    assert all((one["parsed"] or 0) >= 0.98 for run in found.runs for one in run.sources)
