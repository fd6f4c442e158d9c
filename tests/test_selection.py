"""Which rules run: families, --select and --ignore, in options and in the settings file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdiag import header, selection
from specdiag.errors import SpecdiagError
from specdiag.selection import Selection

pytestmark = pytest.mark.usefixtures("analyses_once")

ROOT = Path(__file__).parents[1]
RULES = sorted((ROOT / "rules").glob("*.sql"))
SICK = ROOT / "sample_logs" / "draft_never_accepted.log"  # high
LOUD = ROOT / "sample_logs" / "founding-1-depth-against-commit"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(answer):
    """The rules that an answer in JSON is about."""
    return {one["rule"] for one in json.loads(answer.out)["results"]}


# Families ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_rule_is_of_a_family(path):
    assert header.load(path).family in header.FAMILIES


def test_every_family_has_a_rule():
    assert {header.load(path).family for path in RULES} == set(header.FAMILIES)


def test_a_family_that_does_not_exist_is_named(tmp_path):
    path = tmp_path / "mine.sql"
    path.write_text(
        RULES[0].read_text().replace('family   = "acceptance"', 'family = "acceptence"')
    )
    with pytest.raises(SpecdiagError, match="family 'acceptence' is none of acceptance, tree"):
        header.load(path)


def test_a_rule_of_the_users_needs_no_family(tmp_path):
    path = tmp_path / "mine.sql"
    path.write_text(RULES[0].read_text().replace('-- family   = "acceptance"\n', ""))
    assert header.load(path).family == ""


def test_rules_are_listed_and_explained_with_their_family(specdiag):
    lines = [line.split() for line in specdiag("rules").out.splitlines()]
    assert {words[2] for words in lines} == set(header.FAMILIES)
    assert specdiag("explain", "pool_leak").out.startswith("pool_leak (critical, capacity)\n")
    assert "| critical | capacity | [pool_leak](pool_leak.md) |" in (
        ROOT / "docs" / "rules" / "README.md"
    ).read_text(encoding="utf-8")


# What is chosen ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rules():
    return [header.load(path) for path in RULES]


@pytest.mark.parametrize(
    ("select", "ignore", "has", "lacks"),
    [
        ((), (), ["pool_leak", "tree_below_chain"], []),
        (("tree",), (), ["tree_below_chain"], ["pool_leak"]),
        (("pool_leak", "tree"), (), ["pool_leak", "tree_below_chain"], ["retraction_storm"]),
        ((), ("tree",), ["pool_leak"], ["tree_below_chain"]),
        (("tree",), ("tree_below_chain",), ["tree_buys_nothing"], ["tree_below_chain"]),
        (("tree_below_chain",), ("tree",), ["tree_below_chain"], ["tree_buys_nothing"]),
        ((), ("tree_below_chain",), ["tree_buys_nothing"], ["tree_below_chain"]),
    ],
)
def test_a_name_says_more_than_a_family(rules, select, ignore, has, lacks):
    names = {rule.name for rule in selection.choose(rules, Selection(select, ignore))}
    assert set(has) <= names and not set(lacks) & names


def test_options_take_the_place_of_what_the_file_says():
    file = Selection(("tree", "speed"), ("pool_leak",))
    assert selection.above(file, Selection(("pool_leak",))) == Selection(("pool_leak",))
    assert selection.above(file, Selection((), ("speed",))) == Selection(("tree",), ("pool_leak", "speed"))  # fmt: skip
    assert selection.above(file, Selection()) == file


def test_lists_may_have_commas():
    assert selection.listed(["a, b", "c", ",a,"]) == ("a", "b", "c")


# On the command line -----------------------------------------------------------------------------


def test_a_rule_that_is_not_selected_does_not_run(specdiag):
    answer = specdiag("check", SICK, "--select", "acceptance,tree", "--select", "pool_leak", "--output", "json=-")  # fmt: skip
    families = {path.stem: header.load(path).family for path in RULES}
    assert {families[name] for name in ran(answer) - {"pool_leak"}} == {"acceptance", "tree"}
    assert answer.code == 1 and "pool_leak" in ran(answer)


def test_a_finding_that_is_ignored_fails_no_check(specdiag):
    answer = specdiag("check", SICK, "--ignore", "draft_never_accepted")
    assert answer.code == 0 and "draft_never_accepted]" not in answer.out


def test_what_an_ignored_rule_explained_stands_alone(specdiag):
    whole = json.loads(specdiag("check", LOUD, "--output", "json=-").out)["findings"]
    cause, follower = next(
        (one["explained_by"].partition("@")[0], one["id"]) for one in whole if one["explained_by"]
    )
    rest = json.loads(specdiag("check", LOUD, "--ignore", cause, "--output", "json=-").out)
    found = {one["id"]: one["explained_by"] for one in rest["findings"]}
    assert follower in found
    assert not any((by or "").startswith(f"{cause}@") for by in found.values())


def test_the_file_selects_too_and_options_come_on_top(specdiag, folder):
    (folder / "specdiag.toml").write_text('select = ["tree"]\n')
    assert specdiag("check", SICK).code == 0
    assert specdiag("check", SICK, "--select", "acceptance").code == 1
    (folder / "specdiag.toml").write_text('ignore = ["acceptance"]\n')
    assert specdiag("check", SICK).code == 0
    assert specdiag("check", SICK, "--select", "acceptance").code == 1


@pytest.mark.parametrize(
    ("options", "what", "help"),
    [
        (["--select", "acceptence"], "no rule and no family is called acceptence", "did you mean acceptance"),
        (["--ignore", "pool_leek"], "no rule and no family is called pool_leek", "did you mean pool_leak"),
        (["--select", "zzz"], "no rule and no family is called zzz", "families: acceptance, "),
        (["--select", "tree", "--ignore", "tree"], "tree is selected and ignored", "take it out"),
        (["--ignore", ",".join(header.FAMILIES)], "no rule is left to run", "select others"),
        (["--select", "tree", "--require", "pool_leak"], "rule pool_leak is required, and is not selected", "select it"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", [["analyze", "--no-html"], ["check"]], ids=["analyze", "check"])
def test_a_selection_that_cannot_be_meant(specdiag, command, options, what, help):
    answer = specdiag(command[0], SICK, *command[1:], *options)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {what}\n") and f"help: {help}" in answer.err


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('select = ["tree"]\nignore = ["tree"]', "tree is selected and ignored"),
        ('select = ["treee"]', "no rule and no family is called treee"),
        ('select = "tree"', "key 'select' must be a list of names"),
    ],
)
def test_a_selection_in_the_file_that_cannot_be_meant(specdiag, folder, text, what):
    (folder / "specdiag.toml").write_text(text + "\n")
    answer = specdiag("check", SICK)
    assert (answer.code, answer.out) == (2, "") and what in answer.err


def test_a_parameter_of_a_rule_that_does_not_run_is_still_checked(specdiag):
    with_it = ["--param", "draft_never_accepted.floor=0.5"]
    assert specdiag("check", SICK, "--select", "tree", *with_it).code == 0
    answer = specdiag("check", SICK, "--select", "tree", "--param", "draft_never_accepted.flor=1")
    assert answer.code == 2 and "has no parameter flor" in answer.err


# --exit-zero -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([SICK], 0),
        ([SICK, "--require", "slower_than_baseline"], 3),
        (["missing.log"], 2),
        ([SICK, "--require", "nobody"], 2),
    ],
)
def test_exit_zero_forgives_findings_and_nothing_else(specdiag, arguments, code):
    assert specdiag("check", *arguments, "--exit-zero").code == code


def test_exit_zero_forgives_no_mistake_of_ours(specdiag, monkeypatch):
    monkeypatch.setattr("specdiag.source.find", lambda *paths: 1 / 0)
    assert specdiag("check", SICK, "--exit-zero").code == 101
