"""README.md tells the truth: its commands print what it shows, its rule runs, its links lead on."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from specdiag import rule, store

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """What stands between fences of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """Every `$ specdiag ...` of a console block, with what is shown below it."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            if command.startswith("specdiag "):
                found.append((command, shown))
    return found


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def shows(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines are those that were printed; a line of `...` stands for any number."""
    if not shown:
        return not printed
    if shown[0].strip() == "...":
        return any(shows(shown[1:], printed[n:]) for n in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and shows(shown[1:], printed[1:])


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """The checkout as the working directory, and reports land somewhere else."""
    for path in ROOT.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "specdiag-report.html").unlink(missing_ok=True)
    monkeypatch.chdir(tmp_path)


def test_there_are_commands():
    assert commands()


@pytest.mark.parametrize(("command", "shown"), commands(), ids=[c for c, _ in commands()])
def test_a_command_prints_what_is_shown(command, shown, checkout, specdiag):
    answer = specdiag(*shlex.split(command)[1:])
    printed = lines(answer.err + answer.out)
    assert "Traceback" not in answer.err
    assert shows(lines(shown), printed), "it prints:\n" + "\n".join(printed)


@pytest.mark.parametrize("text", blocks("sql"), ids=lambda text: text.splitlines()[0])
def test_a_rule_that_is_shown_runs(text, tmp_path):
    path = tmp_path / "shown.sql"
    path.write_text(text, encoding="utf-8")
    db = store.open_empty()
    db.execute(rule.MACROS)
    assert rule.apply(rule.load(path), db, rule.load(path).params) == ([], [])


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_a_link_leads_to_a_file(target):
    assert (ROOT / target).exists()


def test_left_out_lines_are_understood_here():
    assert shows(["a", "...", "d"], ["a", "b", "c", "d"])
    assert shows(["...", "d"], ["d"])
    assert not shows(["a", "...", "d"], ["a", "b"])
    assert not shows(["a"], ["a", "b"])
