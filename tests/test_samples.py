"""Every sample log says what tests/expected says; `pytest --update` writes those files.

All that is asked of every sample stands here, since one worker then diagnoses each of them once.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from specdiag import outcome, report, rule
from specdiag.report import json as document
from specdiag.report.sides import WIDEST, sides

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "docs" / "samples.md"
EXPECTED = Path(__file__).parent / "expected"
ENTRIES = sorted((ROOT / "sample_logs").iterdir())
FILES = sorted(path for path in (ROOT / "sample_logs").rglob("*") if path.is_file())
HEALTHY = [path for path in FILES if "healthy" in path.name]
RULES = sorted((ROOT / "rules").glob("*.sql"))
NAMING = [path for path in RULES if rule.load(path).sides]
ALARMING = ("critical", "high", "medium")
SCHEMA = Draft202012Validator(json.loads(document.FILE.read_text(encoding="utf-8")))
LONGEST = 300  # lines of a sample: more than that nobody reads


def title(path: Path) -> str:
    return re.sub(r"(?:\.(?:log|txt|csv|json|jsonl|prom|parquet|pt|gz|zst))+$", "", path.name)


def findings(diagnosis):
    """What an expected file holds: nothing that changes when a rule or a number is added."""
    return [
        {
            "rule": one.rule.name,
            "run": one.run,
            "severity": one.severity,
            "explained_by": one.explained_by,
        }
        for one in diagnosis.findings
    ]


@pytest.mark.parametrize("path", ENTRIES, ids=title)
def test_findings(path, sample, request):
    found = findings(sample(path.name))
    expected = EXPECTED / f"{title(path)}.json"
    if request.config.getoption("--update"):
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    assert expected.exists(), f"nothing says what {path.name} shows: pytest --update"
    assert found == json.loads(expected.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", ENTRIES, ids=title)
def test_its_json_is_what_the_schema_says(path, sample):
    written = json.loads(report.render("json", sample(path.name)))
    assert not list(SCHEMA.iter_errors(written))


# What docs/samples.md says of them


def table(found: dict[str, tuple[int, str]]) -> str:
    rows = [f"| {name} | {code} | {first} |" for name, (code, first) in sorted(found.items())]
    return "\n".join(["| sample | exit code | first finding |", "| --- | --- | --- |", *rows, ""])


def told() -> dict[str, tuple[int, str]]:
    rows = re.findall(r"^\| (\S+) \| (\d) \| (.*?) \|$", SAMPLES.read_text(encoding="utf-8"), re.M)
    return {name: (int(code), first) for name, code, first in rows}


@pytest.mark.parametrize("path", ENTRIES, ids=title)
def test_check_ends_as_documented(path, sample, request):
    found = sample(path.name)
    first = next((one.rule.name for one in found.findings), "nothing")
    now = outcome.exit_code(found, "high"), first
    if request.config.getoption("--update"):
        text = SAMPLES.read_text(encoding="utf-8")
        head = text[: text.index("| sample |")]
        SAMPLES.write_text(head + table(told() | {path.name: now}), encoding="utf-8")
    assert told().get(path.name) == now


def test_no_sample_is_documented_that_is_not_there():
    assert set(told()) == {path.name for path in ENTRIES}


def test_no_expectation_without_a_sample():
    stale = {path.stem for path in EXPECTED.glob("*.json")} - {title(path) for path in ENTRIES}
    assert not stale


def test_titles_are_unique():
    titles = [title(path) for path in ENTRIES]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT / "sample_logs")))
def test_sample_is_short(path):
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    assert data.count(b"\n") <= LONGEST


@pytest.mark.parametrize("path", ENTRIES, ids=title)
def test_everything_in_a_sample_is_understood(path, sample):
    assert not [str(notice) for notice in sample(path.name).notices]


@pytest.mark.parametrize("path", ENTRIES, ids=title)
def test_proof_is_quoted_from_the_sample(path, sample):
    for finding in sample(path.name).findings:
        assert finding.evidence, f"{finding.id} proves nothing"
        for one in finding.evidence:
            data = Path(one.path).read_bytes()
            data = gzip.decompress(data) if one.path.endswith(".gz") else data
            assert data.decode().split("\n")[one.line - 1] == one.text


# What rules make of them ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_fires_on_a_sample(path, sample):
    ordered = sorted(ENTRIES, key=lambda one: not one.name.startswith(path.stem))
    assert any(
        finding.rule.name == path.stem for one in ordered for finding in sample(one.name).findings
    )


@pytest.mark.parametrize("path", HEALTHY, ids=lambda p: str(p.relative_to(ROOT / "sample_logs")))
def test_is_silent_on_a_healthy_log(path, sample, diagnose):
    top = path.parent.name == "sample_logs"
    found = sample(path.name) if top else diagnose(path)
    assert [one.id for one in found.findings if one.severity in ALARMING] == []


def test_there_are_healthy_logs():
    assert len(HEALTHY) >= 5


@pytest.mark.parametrize("path", ENTRIES, ids=title)
def test_every_rule_decides_on_every_run(path, sample):
    found = sample(path.name)
    runs = {run.name for run in found.runs}
    for name in {one.stem for one in RULES}:
        decided = [one.run for one in found.results if one.rule == name]
        assert sorted(decided) == sorted(runs), name
    hit = {(one.rule.name, one.run) for one in found.findings}
    assert hit == {(one.rule, one.run) for one in found.results if one.result == "finding"}


@pytest.mark.parametrize("path", NAMING, ids=lambda path: path.stem)
def test_a_sample_has_the_figures_that_a_rule_sets_side_by_side(path, sample):
    ordered = sorted(ENTRIES, key=lambda one: not one.name.startswith(path.stem))
    found = next(
        sides(one)
        for entry in ordered
        for one in sample(entry.name).findings
        if one.rule.name == path.stem and sides(one)
    )
    assert len(found) <= 3, "more than a card has room for"
    assert all(value and len(value) <= WIDEST for _, value in found)


# The cases that this project was started for ------------------------------------------------------


def causes(diagnosis):
    return [(one.rule.name, one.run) for one in diagnosis.causes]


def test_a_tree_that_commits_less_than_it_accepts(sample):
    found = sample("founding-1-depth-against-commit")
    tree = next(run.name for run in found.runs if "ddtree" in run.name)
    first = found.causes[0]
    assert (first.rule.name, first.run) == ("depth_contradicts_commit", tree)
    assert "tree_below_chain" in [one.rule.name for one in found.consequences(first)]
    assert {one.run for one in found.findings} == {tree}


def test_a_step_that_grows_faster_than_its_context(sample):
    found = sample("founding-2-long-context.log")
    assert {name for name, _ in causes(found)} == {
        "depth_contradicts_commit",
        "step_time_superlinear",
    }


def test_a_text_that_is_hard_to_predict_is_no_fault(sample):
    found = sample("founding-3-predictable-text")
    assert [(one.rule.name, one.severity) for one in found.findings] == [("text_is_hard", "info")]


def test_a_mode_that_was_asked_for_and_did_not_run(sample):
    found = sample("founding-4-smoke-test")
    assert causes(found) == [("mode_not_executed", "asked")]


def test_servers_that_do_not_start(sample):
    found = sample("founding-5-failed-starts")
    assert sorted(causes(found)) == [
        ("binary_mismatch", "torch-other-cuda"),
        ("kernel_missing_for_gpu", "capability-120"),
        ("module_missing", "missing-soundfile"),
        ("module_missing", "xgrammar-structural-tag"),
    ]
