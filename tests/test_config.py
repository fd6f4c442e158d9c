"""The settings file: what it may hold, and what is said of what it may not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from specdiag import config
from specdiag.errors import SpecdiagError

SICK = Path(__file__).parents[1] / "sample_logs" / "draft_never_accepted.log"

WHOLE = """
fail_on = "medium"
rules = ["my-rules"]
parsers = ["my-parsers"]
require = ["pool_leak"]
select = ["tree", "capacity"]
ignore = ["tree_buys_nothing"]
preset = "ci"
[params.step_time_superlinear]
exponent = 1.5
[[suppress]]
rule = "tree"
run = "long-*"
reason = "known"
until = 2026-12-31
[[assert]]
metric = "accept_len"
at_least = 3.4
"""


@pytest.fixture
def load(tmp_path):
    """The settings of a text."""

    def load(text, name="specdiag.toml"):
        (tmp_path / name).write_text(text)
        return config.load(tmp_path / name)

    return load


def test_every_key_is_read(load, tmp_path):
    assert load(WHOLE) == config.Config(
        file=tmp_path / "specdiag.toml", fail_on="medium", rules=[tmp_path / "my-rules"],
        parsers=[tmp_path / "my-parsers"], require=["pool_leak"],
        params={"step_time_superlinear": {"exponent": 1.5}},
        select=["tree", "capacity"], ignore=["tree_buys_nothing"],
        suppress=[config.Suppression(
            "tree", "long-*", "known", date(2026, 12, 31), str(tmp_path / "specdiag.toml"), 11,
            "[[suppress]]",
        )],
        asserts=[{"metric": "accept_len", "at_least": 3.4}], preset="ci",
    )  # fmt: skip


def test_the_same_stands_in_pyproject(load, tmp_path):
    text = '[project]\nname = "x"\n[tool.specdiag]\nselect = ["tree"]\n[[tool.specdiag.suppress]]\nrule = "tree"\nreason = "known"\n'
    found = load(text, "pyproject.toml")
    assert found.select == ["tree"]
    assert [(one.run, one.until, one.line) for one in found.suppress] == [("*", None, 5)]


def test_an_entry_without_a_heading_of_its_own_has_no_line(load):
    found = load('suppress = [{ rule = "tree", reason = "known" }]\n')
    assert [(one.rule, one.line) for one in found.suppress] == [("tree", None)]


ENTRY = '[[suppress]]\nrule = "tree"\nreason = "known"\n'


@pytest.mark.parametrize(
    ("text", "what", "help"),
    [
        ('fail_onn = "high"', "unknown key 'fail_onn' in the configuration", "did you mean fail_on?"),
        ('supress = []', "unknown key 'supress' in the configuration", "did you mean suppress?"),
        ("zzz = 1", "unknown key 'zzz' in the configuration", "known: fail_on, rules, "),
        ("fail_on = 3", "key 'fail_on' must be a string", ""),
        ("preset = 3", "key 'preset' must be a string", ""),
        ("params = 3", "key 'params' must be a table", ""),
        ("ignore = [3]", "key 'ignore' must be a list of names", ""),
        ("select = 'tree'", "key 'select' must be a list of names", ""),
        ("suppress = ['tree']", "key 'suppress' must be a list of tables: [[suppress]]", ""),
        ("[suppress]\nrule = 'tree'", "key 'suppress' must be a list of tables: [[suppress]]", ""),
        ("assert = 3", "key 'assert' must be a list of tables: [[assert]]", ""),
        ("[[suppress]]\nreason = 'known'", "[[suppress]] number 1 has no rule", "name a rule or a family"),
        ("[[suppress]]\nrule = 'tree'", "[[suppress]] number 1 has no reason", "say why these findings are in order"),
        ("[[suppress]]\nrule = 'tree'\nreason = ' '", "[[suppress]] number 1 has no reason", "say why"),
        (ENTRY + "[[suppress]]\nrule = 3\nreason = 'x'", "[[suppress]] number 2 has no rule", ""),
        (ENTRY + "untill = 2026-01-01", "unknown key 'untill' in [[suppress]] number 1", "did you mean until?"),
        (ENTRY + "until = '2026-01-01'", "until of [[suppress]] number 1 must be a date", "write it without quotes"),
        (ENTRY + "until = 2026-01-01T10:00:00", "until of [[suppress]] number 1 must be a date", ""),
        (ENTRY + "run = 3", "run of [[suppress]] number 1 must be a pattern", ""),
        ("a = " + "[" * 5000, "configuration cannot be read", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(load, tmp_path, text, what, help):
    with pytest.raises(SpecdiagError) as caught:
        load(text + "\n")
    assert what in caught.value.what and help in caught.value.help
    assert caught.value.where.startswith(str(tmp_path / "specdiag.toml"))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("tool = 3", "tool must be a table"),
        ("[tool]\nspecdiag = 3", "tool.specdiag must be a table"),
    ],
)
def test_a_pyproject_that_is_something_else(load, text, what):
    with pytest.raises(SpecdiagError, match=what):
        load(text, "pyproject.toml")


@pytest.mark.parametrize(
    "outputs",
    [
        ["--output", "json=a", "--output", "markdown=a"],
        ["--output", "json=a", "--output", "markdown=./a"],
        ["--output", "json=a", "--html", "a"],
        ["--output", "json=-", "--output", "markdown=-"],
        ["--output", "duckdb=a", "--output", "json=a"],
        ["--output", "json=link", "--output", "markdown=a"],
    ],
    ids=" ".join,
)
def test_two_reports_in_one_file_are_a_mistake(specdiag, tmp_path, monkeypatch, outputs):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("a")
    answer = specdiag("check", SICK, *outputs)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: two reports go to one file\n --> ")
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_what_keeps_nothing_may_be_named_twice(specdiag):
    two = ["--output", "json=/dev/null", "--output", "markdown=/dev/null"]
    assert specdiag("check", SICK, *two).code == 1
