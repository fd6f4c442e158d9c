"""Whatever standard output is, a command says what it can, ends as it should, and never breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
SICK = str(SAMPLES / "draft_never_accepted.log")
TREE = str(SAMPLES / "walk_stopped_early.jsonl")
COMMANDS = {
    "analyze": ["analyze", SICK, "--no-html"],
    "check": ["check", SICK],
    "tree": ["tree", TREE, "--step", "1"],
    "query": ["query", "SELECT '世界' AS a", SICK],
    "rules": ["rules"],
}


@pytest.fixture
def run(tmp_path):
    """A process in a folder of its own, as a shell starts it."""

    def run(arguments, shell="", **environment):
        words = [sys.executable, "-m", "specdiag", *arguments]
        start = ["sh", "-c", f'"$@" {shell}', "sh", *words] if shell else words
        return subprocess.run(
            start, capture_output=True, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """How each command ends where nothing is unusual."""
    known: dict[str, subprocess.CompletedProcess[bytes]] = {}

    def usual(name):
        if name not in known:
            known[name] = subprocess.run(
                [sys.executable, "-m", "specdiag", *COMMANDS[name]], capture_output=True,
                cwd=tmp_path_factory.mktemp("usual"),
                env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
            )  # fmt: skip
        return known[name]

    return usual


@pytest.mark.parametrize("name", COMMANDS)
def test_letters_that_a_terminal_lacks_are_question_marks(name, run, usual):
    done = run(COMMANDS[name], PYTHONIOENCODING="cp1252")
    assert done.returncode == usual(name).returncode, done.stderr.decode()
    expected = usual(name).stdout.decode().encode("cp1252", "replace")
    assert done.stdout.split() == expected.split()


@pytest.mark.parametrize("kind", ["json", "markdown", "sarif"])
def test_a_report_on_standard_output_is_what_the_file_would_be(kind, run, tmp_path):
    done = run(["check", SICK, "--output", f"{kind}=-"], PYTHONIOENCODING="cp1252")
    run(["check", SICK, "--output", f"{kind}=out"])
    told, written = done.stdout.decode(), (tmp_path / "out").read_text("utf-8")
    assert len(told) > 1000
    assert [line for line in told.splitlines() if "time" not in line] == [
        line for line in written.splitlines() if "time" not in line
    ]


@pytest.mark.parametrize(
    ("name", "closed"),
    [("analyze", ">&-"), ("analyze", "2>&-"), *((name, ">&- 2>&-") for name in COMMANDS)],
)
def test_a_closed_stream_hears_nothing(name, closed, run, usual):
    done = run(COMMANDS[name], closed)
    assert done.returncode == usual(name).returncode, done.stderr.decode()
    assert done.stderr == (usual(name).stderr if "2>" not in closed else b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, which Linux has")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_behind_it_is_named(name, run):
    done = run(COMMANDS[name], ">/dev/full")
    *_, what, where, help = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert what == "error: what was found could not be told: no space left on device"
    assert (where, help) == (" --> standard output", "help: send it to another place")
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize("name", ["analyze", "rules"])
def test_who_reads_only_the_first_line_gets_it(name, run, usual):
    done = run(COMMANDS[name], "| head -n 1")
    assert done.stdout.splitlines() == usual(name).stdout.splitlines()[:1]
    assert b"Traceback" not in done.stderr
