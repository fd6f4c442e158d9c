"""Reports that lie beside the logs are no logs, though they quote them; nor are notes and pages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from specdiag import report

SAMPLES = Path(__file__).parents[1] / "sample_logs"
LOGS = {
    "sick": SAMPLES / "founding-1-depth-against-commit" / "ddtree-b7-k1.log",
    "healthy": SAMPLES / "healthy-dflash.log",
}
QUOTES = LOGS["sick"].read_text("utf-8").splitlines()[-12:]


@pytest.fixture(params=LOGS)
def folder(request, tmp_path, monkeypatch):
    """A folder with one log, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(LOGS[request.param], tmp_path)
    return tmp_path


def found(specdiag):
    """What a check of the folder finds, and what it warns of."""
    done = specdiag("check", ".", "--output", "json=-")
    result = json.loads(done.out)
    findings = [(one["id"], one["message"], one["evidence"]) for one in result["findings"]]
    return done.code, result["runs"], findings, done.err


@pytest.mark.parametrize("kind", report.KINDS)
def test_a_report_beside_its_log_changes_nothing(kind, folder, specdiag):
    before = found(specdiag)
    specdiag("check", ".", "--output", f"{kind}=report.{kind}")
    assert (folder / f"report.{kind}").stat().st_size
    assert found(specdiag) == before


@pytest.mark.parametrize("more", [(), ("/nowhere/a.log",)], ids=["alone", "with warnings"])
def test_nor_does_what_the_terminal_was_told(more, folder, specdiag):
    before = found(specdiag)
    (folder / "empty.txt").touch()
    told = specdiag("analyze", ".")
    (folder / "empty.txt").unlink()
    (folder / "specdiag-report.html").unlink()
    (folder / "out.txt").write_text(told.err * bool(more) + told.out, "utf-8")
    assert found(specdiag) == before


def test_the_page_that_an_analysis_leaves_is_not_analysed_the_next_time(folder, specdiag):
    first, second = specdiag("analyze", "."), specdiag("analyze", ".")
    assert (first.out, first.err) == (second.out, second.err)


def test_reports_alone_are_nothing_to_read(folder, specdiag):
    (log,) = folder.iterdir()
    (folder / "reports").mkdir()
    outputs = [word for kind in report.TEXTS for word in ("--output", f"{kind}=reports/r.{kind}")]
    specdiag("check", log.name, *outputs)
    done = specdiag("analyze", "reports")
    assert done.code == 3
    assert "there is nothing to read but results of specdiag itself" in done.err


NOTES = {
    "notes.md": ["# Why is the tree slow?", "", "```", *QUOTES, "```"],
    "thread.html": ["<!doctype html>", "<html><body><pre>", *QUOTES, "</pre></body></html>"],
    "tests.xml": ['<?xml version="1.0"?>', "<testsuite><system-out>", *QUOTES, "</system-out>"],
}


@pytest.mark.parametrize("name", NOTES)
def test_what_quotes_a_log_is_named_and_not_accused(name, folder, specdiag):
    code, runs, findings, told = found(specdiag)
    (folder / name).write_text("\n".join(NOTES[name]), "utf-8")
    after = found(specdiag)
    assert after[:3] == (code, runs, findings)
    assert after[3].startswith(told)
    assert f"warning: this may quote a log, and is none\n --> ./{name}" in after[3]


def test_notes_are_read_where_they_are_given(folder, specdiag):
    (folder / "notes.md").write_text("\n".join(NOTES["notes.md"]), "utf-8")
    result = json.loads(specdiag("check", "notes.md", "--output", "json=-").out)
    assert [run["run"] for run in result["runs"]] == ["notes.md"]
