"""`specdiag.diagnose`: the same answer as the command's, with names, types and a notebook's view."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest

import specdiag as package
from specdiag import Diagnosis, SpecdiagError, diagnose
from specdiag.report import terminal

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
HEALTHY = SAMPLES / "healthy-dflash.log"
SICK = SAMPLES / "draft_never_accepted.log"  # high
MILD = SAMPLES / "acceptance_decays_with_context.log"  # medium
FOUNDING = SAMPLES / "founding-1-depth-against-commit"  # critical, with consequences
METRICS = (
    "[2026-04-02 09:11:00] DDTREE metrics: avg_accepted_depth=7.00 avg_accepted_drafts=2.00 "
    "avg_commit_len=2.00 budget=7"
)
HOSTILE = "</script><img src=x onerror=alert(1)> & \x1b[31mred \u202ereversed"
RULE = """-- title    = "Decode lines"
-- severity = "{severity}"
-- needs    = {{ decode = ["running"] }}
-- enough   = {enough}
-- applies  = "server"
-- why      = "There are some."
-- fix      = ["Read them one after the other."]
SELECT run, 'it decodes' AS message, count(*) AS rows FROM decode GROUP BY run
"""
PARSER = """title = "A log of this test"
format = "lines"
recognise = ['^tick ']
[[event]]
table = "decode"
title = "A tick"
has = "tick "
[event.fields]
running = ["int", 'r=([0-9]+)']
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test works in a folder of its own, without settings."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def sick(tmp_path_factory):
    """One run with a critical finding and what follows from it, beside a healthy one."""
    here = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("sick"))
    try:
        return diagnose(FOUNDING)
    finally:
        os.chdir(here)


@pytest.fixture
def rule(folder):
    def rule(severity="high", enough=1, name="decode_lines"):
        path = folder / "more" / f"{name}.sql"
        path.parent.mkdir(exist_ok=True)
        path.write_text(RULE.format(severity=severity, enough=enough))
        return path

    return rule


# The same as the command -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "paths",
    [[HEALTHY], [SICK, HEALTHY], [FOUNDING], [SAMPLES / "healthy-wrapped.log.gz"],
     [SAMPLES / "walk_stopped_early.jsonl"], [SAMPLES / "tree_below*"]],
    ids=lambda paths: "+".join(path.name for path in paths),
)  # fmt: skip
def test_the_json_is_that_of_the_command_byte_for_byte(specdiag, folder, paths):
    specdiag("analyze", *paths, "--no-html", "--output", "json=out.json")
    found = diagnose(paths)
    assert found.to_json().encode() == (folder / "out.json").read_bytes()
    assert found.to_dict() == json.loads(found.to_json())


def test_the_text_is_that_of_the_command(specdiag, folder):
    (folder / "prose.log").write_text("Once upon a time\n")
    answer = specdiag("check", SICK, "prose.log")
    assert str(diagnose([SICK, "prose.log"])) + "\n" == answer.err + answer.out


SETTINGS = {
    "none": "",
    "medium": 'fail_on = "medium"',
    "never": 'fail_on = "never"',
    "critical": 'fail_on = "critical"',
    "required": 'require = ["slower_than_baseline"]',
    "decided": 'require = ["depth_contradicts_commit"]',
    "unknown": 'require = ["nobody"]',
    "ignored": 'ignore = ["draft_never_accepted"]',
    "accepted": '[[suppress]]\nrule = "draft_never_accepted"\nreason = "known"',
    "held": '[[assert]]\nmetric = "accept_len"\nat_least = 1.5',
    "not held": '[[assert]]\nmetric = "accept_len"\nat_least = 99.0',
    "nothing held": '[[assert]]\nmetric = "accept_len"\nrun = "other"\nat_least = 1.5',
    "strict": 'preset = "strict"',
}


@pytest.mark.usefixtures("analyses_once")
@pytest.mark.parametrize("toml", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("path", [HEALTHY, MILD, SICK], ids=lambda path: path.stem)
def test_it_is_ok_where_check_exits_with_0(specdiag, folder, path, toml):
    (folder / "specdiag.toml").write_text(toml)
    answer = specdiag("check", path)
    try:
        ok = diagnose(path).ok
    except SpecdiagError as error:
        ok = False
        assert str(error) in answer.err
    assert ok == (answer.code == 0), answer.out + answer.err


# Arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [str, Path, lambda path: [path], lambda path: (str(path),),
                                  lambda path: iter([path])])  # fmt: skip
def test_paths_come_as_text_as_paths_and_in_any_collection(form):
    assert [run.name for run in diagnose(form(HEALTHY)).runs] == ["healthy-dflash"]


def test_a_threshold_is_set_and_comes_on_top_of_the_file(folder):
    given = {"draft_never_accepted": {"floor": 0.5}}
    assert diagnose(SICK).finding("draft_never_accepted")
    assert diagnose(SICK, params=given).finding("draft_never_accepted") is None
    (folder / "specdiag.toml").write_text("[params.draft_never_accepted]\nfloor = 0.5\n")
    assert diagnose(SICK).finding("draft_never_accepted") is None
    given["draft_never_accepted"]["floor"] = 1.05
    assert diagnose(SICK, params=given).finding("draft_never_accepted")


def test_settings_come_from_the_file_that_is_named(folder):
    (folder / "specdiag.toml").write_text('fail_on = "never"\n')
    (folder / "strict.toml").write_text('fail_on = "medium"\n')
    assert diagnose(MILD).ok
    assert not diagnose(MILD, config="strict.toml").ok


@pytest.mark.parametrize("form", [lambda path: path, lambda path: str(path.parent),
                                  lambda path: [path.parent]])  # fmt: skip
def test_a_rule_of_ones_own_is_applied(rule, form):
    found = diagnose(HEALTHY, rules=form(rule()))
    assert found.finding("decode_lines").values["rows"] > 50
    assert not found.ok


def test_a_finding_without_words_has_the_title_of_its_rule(rule):
    path = rule()
    path.write_text(path.read_text().replace("'it decodes'", "NULL"))
    found = diagnose(HEALTHY, rules=path).finding("decode_lines")
    assert found.message == found.rule.title


def test_a_broken_rule_is_named_and_the_others_still_run(rule):
    path = rule()
    path.write_text("-- title = 3\n")
    found = diagnose(SICK, rules=path)
    assert [error.where for error in found.broken] == [str(path)]
    assert found.finding("draft_never_accepted") and str(path) in str(found)
    assert not diagnose(HEALTHY, rules=path).ok


def test_a_format_of_ones_own_is_read(folder):
    (folder / "ticks.toml").write_text(PARSER)
    (folder / "t.log").write_text("tick r=3\ntick r=4\n")
    found = diagnose("t.log", parsers="ticks.toml")
    assert found.store.execute("SELECT running FROM decode ORDER BY line").fetchall() == [(3,), (4,)]  # fmt: skip


def test_runs_are_compared_with_the_baseline_that_is_named():
    logs = SAMPLES / "slower_than_baseline"
    by_path = diagnose(logs / "speculative.log", baseline=logs / "baseline.log")
    by_name = diagnose(logs, baseline="baseline")
    for found in (by_path, by_name):
        assert found.finding("slower_than_baseline", "speculative").against == "baseline"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"paths": "nowhere.log"}, "no such file or folder"),
        ({"paths": []}, "no file to read"),
        ({"paths": HEALTHY, "rules": "nowhere"}, "no such file or folder"),
        ({"paths": HEALTHY, "parsers": ["nowhere"]}, "no such file or folder"),
        ({"paths": HEALTHY, "config": "nowhere.toml"}, "configuration cannot be read"),
        ({"paths": HEALTHY, "params": {"nobody": {"x": 1}}}, "no rule is called nobody"),
        ({"paths": HEALTHY, "params": {"draft_never_accepted": {"x": 1}}}, "no parameter x"),
        ({"paths": HEALTHY, "baseline": "nobody"}, "nobody"),
    ],
)
def test_a_mistake_is_a_specdiag_error(arguments, what):
    with pytest.raises(SpecdiagError, match=what):
        diagnose(**arguments)


def test_what_cannot_be_read_is_an_error_alone_and_a_notice_beside_a_log(folder):
    (folder / "prose.log").write_text("Once upon a time\n")
    with pytest.raises(SpecdiagError, match="no parser knows this file"):
        diagnose("prose.log")
    assert [one.where for one in diagnose([HEALTHY, "prose.log"]).notices] == ["prose.log"]


@pytest.mark.parametrize("path", [FOUNDING, SAMPLES / "healthy-wrapped.log.gz"])
def test_progress_grows_to_the_size_of_the_files(path):
    told = []
    diagnose(path, progress=lambda done, total: told.append((done, total)))
    size = sum(one.stat().st_size for one in (path.iterdir() if path.is_dir() else [path]))
    assert told == sorted(told) and {total for _, total in told} == {size}
    assert told[-1] == (size, size)


# What a diagnosis answers -------------------------------------------------------------------------


def test_facts_are_those_of_the_runs(sick):
    assert sorted(sick.facts) == ["ddtree-b7-k1", "dflash-linear"]
    assert sick.facts["ddtree-b7-k1"]["accept_len"] == pytest.approx(2.0, abs=0.05)


def test_findings_are_counted_from_a_severity_on_and_only_causes(sick):
    assert [one.rule.name for one in sick.at_least("critical")] == ["depth_contradicts_commit"]
    assert len(sick.findings) > len(sick.at_least("info"))
    assert sick.at_least("never") == []
    with pytest.raises(SpecdiagError, match="'terrible' is no severity"):
        sick.at_least("terrible")


def test_a_finding_is_asked_for_by_rule_and_run(sick):
    assert sick.finding("depth_contradicts_commit").run == "ddtree-b7-k1"
    assert sick.finding("depth_contradicts_commit", "dflash-linear") is None
    with pytest.raises(SpecdiagError, match="no rule is called depth_contradict"):
        sick.finding("depth_contradict")


def test_the_store_answers_sql(sick):
    rows = sick.store.execute("SELECT run, count(*) FROM decode GROUP BY run ORDER BY run")
    assert [run for run, count in rows.fetchall() if count] == ["ddtree-b7-k1", "dflash-linear"]
    assert sick.tables.rows("SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY decode TO 'out.csv'",
        "ATTACH 'out.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ],
)
def test_the_store_is_locked(sick, folder, sql):
    with pytest.raises(duckdb.Error):
        sick.store.execute(sql)
    assert list(folder.iterdir()) == []


def test_python_variables_are_no_tables(sick):
    secret = duckdb.sql("SELECT 1 AS one")
    with pytest.raises(duckdb.CatalogException, match="secret"):
        sick.store.execute("SELECT * FROM secret")
    assert secret


def test_a_diagnosis_without_tables_says_so(sick):
    with pytest.raises(SpecdiagError, match="no tables"):
        _ = replace(sick, tables=None).store


def test_copies_share_the_tables_and_nothing_else(sick):
    other = copy.deepcopy(sick)
    assert other == sick and other.store is sick.store
    other.findings.clear()
    assert sick.findings


def test_nothing_is_left_behind(folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(folder))
    os.mkfifo("pipe")
    writer = subprocess.Popen(["cp", str(SICK), "pipe"])
    found = diagnose("pipe")
    assert writer.wait() == 0
    assert found.findings[0].evidence[0].text
    assert [path.name for path in folder.iterdir()] == ["pipe"]


# What it looks like -------------------------------------------------------------------------------


def test_text_has_no_colour_and_does_not_depend_on_the_terminal(sick, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "\x1b" not in str(sick)
    assert str(sick) == terminal.render(sick, width=100)


def test_the_representation_is_one_short_line(sick):
    assert repr(sick) == (
        "<Diagnosis: 1 critical finding (and 2 that follow from it) in run ddtree-b7-k1>"
    )


def test_a_failed_assertion_prints_the_findings(folder):
    (folder / "test_it.py").write_text(
        "from specdiag import diagnose\n"
        "def test_it():\n"
        f"    found = diagnose({str(SICK)!r})\n"
        "    assert found.ok, str(found)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "[draft_never_accepted]" in done.stdout and f"{SICK}:" in done.stdout


class Fragment(HTMLParser):
    """The elements of a fragment; every one that is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_verdict_runs_and_findings(sick):
    shown = Fragment(sick._repr_html_())
    assert shown.open == [] and {"html", "body", "style", "script"}.isdisjoint(shown.tags)
    for text in ("1 critical finding", "dflash-linear", "depth_contradicts_commit",
                 "tree_below_chain", sick.findings[0].message, "decidable: 33 of 34 rules"):  # fmt: skip
        assert text in shown.text


def test_a_notebook_escapes_hostile_text(folder):
    home = folder / "a|b`<img src=y onerror=alert(2)>"
    home.mkdir()
    (home / "server.log").write_text(f"{METRICS} {HOSTILE}\n" * 3)
    (home / "<b>prose.log").write_text("Once upon a time\n")
    found = diagnose(home)
    found.findings[0] = replace(found.findings[0], message=HOSTILE)
    shown = Fragment(found._repr_html_())
    assert shown.tags == {"div", "p", "strong", "code", "br", "table", "thead", "tbody", "tr", "th", "td"}  # fmt: skip
    assert shown.attributes == {"class", "style"}
    assert "<img src=x onerror=alert(1)>" in shown.text and "<b>prose.log" in shown.text
    assert not any(hidden in shown.text for hidden in "\x1b\u202e")


def test_a_notebook_names_a_few_of_very_many(sick):
    finding, run = sick.findings[0], sick.runs[0]
    many = Diagnosis(
        runs=[replace(run, name=f"run {n}") for n in range(500)],
        findings=[
            replace(finding, id=str(n), run=f"run {n}", rule=replace(finding.rule, name=f"rule_{n}"))
            for n in range(500)
        ],
        results=[], rules=[finding.rule], notices=sick.notices * 0 + [], broken=[SpecdiagError("x")] * 50,
    )  # fmt: skip
    shown = many._repr_html_()
    assert len(shown) < 100_000 and "more run" in shown and "more finding" in shown
    assert "more warning" in shown


# The package -------------------------------------------------------------------------------------


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_to_import_the_package_costs_nothing():
    loaded = python("import sys, specdiag; print(*sys.modules)").split()
    assert {"duckdb", "polars", "rich", "jinja2", "typer", "specdiag.diagnosis"}.isdisjoint(loaded)


def test_a_diagnosis_needs_neither_torch_nor_typer():
    code = (
        f"import sys, specdiag; specdiag.diagnose({str(HEALTHY)!r}).to_json(); print(*sys.modules)"
    )
    assert {"torch", "typer", "plotly"}.isdisjoint(python(code).split())


def test_the_names_of_the_package_are_there():
    for name in package.__all__:
        assert getattr(package, name) is not None and name in dir(package)
    with pytest.raises(AttributeError, match="'specdiag' has no attribute 'diagnos'"):
        _ = package.diagnos


SNIPPET = """from pathlib import Path

import duckdb

from specdiag import Diagnosis, Finding, SpecdiagError, diagnose


def worst(logs: list[Path]) -> Finding | None:
    try:
        found: Diagnosis = diagnose(logs, params={"a": {"b": 1}}, rules="more", config=Path("x"))
    except SpecdiagError as error:
        raise SystemExit(error.exit_code) from error
    db: duckdb.DuckDBPyConnection = found.store
    assert db, found.to_json() + str(found.facts["run"]["accept_len"])
    return found.at_least("high")[0]
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (SNIPPET, "Success"),
        ("from specdiag import diagnose\ndiagnose(3)\n", 'incompatible type "int"'),
        ("from specdiag import diagnose\ndiagnose('x').findigs\n", 'has no attribute "findigs"'),
        ("from specdiag import diagnose\ndiagnose('x', rule='y')\n", "Unexpected keyword"),
    ],
    ids=["right", "paths", "attribute", "argument"],
)
def test_it_is_typed(folder, code, said):
    (folder / "snippet.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'snippet'}",
         "snippet.py"],
        env=os.environ | {"MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said in done.stdout, done.stdout + done.stderr


def test_the_marker_of_types_is_in_the_package():
    assert (ROOT / "specdiag" / "py.typed").is_file()
