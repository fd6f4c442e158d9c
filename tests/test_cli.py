"""The command: what it prints, where it writes, how it exits, and what it says to a mistake."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from specdiag import cli
from specdiag.commands import lazy

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
HEALTHY = SAMPLES / "healthy-dflash.log"
SICK = SAMPLES / "draft_never_accepted.log"  # high
MILD = SAMPLES / "acceptance_decays_with_context.log"  # medium
NOTED = SAMPLES / "founding-3-predictable-text"  # info
# Where it is not the analysis that is looked at, a file is analysed by the first test that reads it.
analysed_once = pytest.mark.usefixtures("analyses_once")
COMMANDS = sorted(typer.main.get_command(cli.app).commands)

RULE = """-- title    = "Decode lines"
-- severity = "{severity}"
-- needs    = {{ decode = ["running"] }}
-- enough   = {enough}
-- applies  = "server"
-- why      = "There are some."
-- fix      = ["Read them one after the other."]
-- params   = {{ least = 1 }}
SELECT run, 'it decodes' AS message, count(*) AS rows FROM decode GROUP BY run
HAVING count(*) > $least
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
tokens_per_s = ["float", 't=([0-9.]+)']
[[event.sample]]
line = "tick r=1 t=2.5"
gives = { running = 1, tokens_per_s = 2.5 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rules(folder):
    """A folder with a rule of the user's."""

    def rules(severity="high", enough=1):
        (folder / "rules").mkdir(exist_ok=True)
        path = folder / "rules" / "decode_lines.sql"
        path.write_text(RULE.format(severity=severity, enough=enough))
        return folder / "rules"

    return rules


def error(what, where="", help=""):
    """An error as it is printed."""
    return (
        f"error: {what}\n"
        + (f" --> {where}\n" if where else "")
        + (f"help: {help}\n" if help else "")
    )


# Exit codes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["analyze", HEALTHY, "--no-html"], 0),
        (["analyze", SICK, "--no-html"], 0),
        (["analyze", SICK, "--no-html", "--fail-on", "high"], 1),
        (["analyze", SICK, "--no-html", "--fail-on", "critical"], 0),
        (["check", HEALTHY], 0),
        (["check", SICK], 1),
        (["check", MILD], 0),
        (["check", MILD, "--fail-on", "medium"], 1),
        (["check", NOTED], 0),
        (["check", NOTED, "--fail-on", "info"], 1),
        (["check", SICK, "--fail-on", "critical"], 0),
        (["check", SICK, "--fail-on", "never"], 0),
        (["check", SICK, "--fail-on", "terrible"], 2),
        (["check", HEALTHY, "--require", "depth_contradicts_commit"], 0),
        (["check", HEALTHY, "--require", "slower_than_baseline"], 3),
        (["check", SICK, "--require", "slower_than_baseline"], 3),
        (["check", HEALTHY, "--require", "nobody"], 2),
        (["check", "missing.log"], 2),
        (["check"], 2),
        (["check", HEALTHY, "--unknown"], 2),
        (["unknown"], 2),
    ],
    ids=lambda value: " ".join(Path(str(part)).name for part in value) if isinstance(value, list) else str(value),
)  # fmt: skip
@analysed_once
def test_exit_code(specdiag, arguments, code):
    answer = specdiag(*arguments)
    assert answer.code == code, answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("empty.log", b"", "empty"),
        ("prose.log", b"Once upon a time\nthere was a log.\n", "no parser knows this file"),
        ("picture.log", bytes(range(256)) * 40, "binary"),
    ],
)
def test_exit_code_of_what_cannot_be_read(specdiag, folder, name, data, message):
    (folder / name).write_bytes(data)
    answer = specdiag("check", name)
    assert answer.code == 3 and message in answer.err and name in answer.err
    assert answer.out == ""


def test_an_empty_folder_is_nothing_to_read(specdiag, folder):
    (folder / "empty").mkdir()
    answer = specdiag("check", "empty")
    assert answer.code == 3 and answer.err.startswith("error: no file to read\n --> empty\nhelp: ")


def test_a_file_that_cannot_be_read_does_not_stop_the_others(specdiag, folder):
    (folder / "prose.log").write_text("Once upon a time\n")
    answer = specdiag("check", SICK, "prose.log")
    assert answer.code == 1
    assert "warning: no parser knows this file\n --> prose.log" in answer.err
    assert "draft_never_accepted" in answer.out


def test_a_mistake_of_ours_is_a_traceback(specdiag, monkeypatch):
    monkeypatch.setattr("specdiag.source.find", lambda *paths: 1 / 0)
    answer = specdiag("check", HEALTHY)
    assert answer.code == 101
    assert "ZeroDivisionError" in answer.err and "please report" in answer.err


# Settings ----------------------------------------------------------------------------------------


@analysed_once
def test_a_threshold_is_set(specdiag):
    assert specdiag("check", SICK).code == 1
    assert specdiag("check", SICK, "--param", "draft_never_accepted.floor=0.5").code == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nobody.floor=1", error("no rule is called nobody", help="see `specdiag rules`")),
        ("draft_never_accepted.flor=1", "error: rule draft_never_accepted has no parameter flor\nhelp: it has: floor, "),
        ("draft_never_accepted.steps=x", "error: parameter steps of rule draft_never_accepted cannot be 'x'\nhelp: its default is "),
        ("draft_never_accepted.steps=1.5", "error: parameter steps of rule draft_never_accepted cannot be 1.5\n"),
        ("draft_never_accepted.floor=true", "error: parameter floor of rule draft_never_accepted cannot be True\n"),
        ("draft_never_accepted", "error: 'draft_never_accepted' is no parameter\n --> --param\nhelp: write RULE.NAME=VALUE"),
        ("floor=1", "error: 'floor=1' is no parameter\n"),
    ],
)  # fmt: skip
def test_a_threshold_that_cannot_be_set(specdiag, given, said):
    answer = specdiag("check", SICK, "--param", given)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(said)


@analysed_once
def test_a_rule_of_the_users_fires(specdiag, rules):
    answer = specdiag("check", HEALTHY, "--rules", rules())
    assert answer.code == 1 and "it decodes" in answer.out and "[decode_lines]" in answer.out
    assert specdiag("check", HEALTHY, "--rules", rules() / "decode_lines.sql").code == 1
    assert (
        specdiag("check", HEALTHY, "--rules", rules(), "--param", "decode_lines.least=9999").code
        == 0
    )
    assert "decode_lines" in specdiag("rules", "--rules", rules()).out
    assert "There are some." in specdiag("explain", "decode_lines", "--rules", rules()).out


@analysed_once
def test_a_rule_of_the_users_can_be_required(specdiag, rules):
    folder = rules(enough=9999)
    assert specdiag("check", HEALTHY, "--rules", folder).code == 0
    assert specdiag("check", HEALTHY, "--rules", folder, "--require", "decode_lines").code == 3


def test_a_rule_of_the_users_replaces_a_bundled_one(specdiag, rules):
    folder = rules("info")
    (folder / "decode_lines.sql").rename(folder / "draft_never_accepted.sql")
    answer = specdiag("check", SICK, "--rules", folder)
    assert answer.code == 0 and "it decodes" in answer.out


@pytest.mark.parametrize(
    "text",
    [
        "-- title = 3\n",
        "SELECT 1",
        RULE.format(severity="high", enough=1).replace("decode G", "nowhere G"),
    ],
)
def test_a_broken_rule_is_named_and_the_others_still_run(specdiag, folder, text):
    (folder / "broken.sql").write_text(text)
    answer = specdiag("check", SICK, "--rules", "broken.sql")
    assert answer.code == 2
    assert " --> broken.sql" in answer.err and "Traceback" not in answer.err
    assert "draft_never_accepted" in answer.out


def test_a_format_of_the_users_is_read(specdiag, folder):
    (folder / "formats").mkdir()
    (folder / "formats" / "ticks.toml").write_text(PARSER)
    (folder / "t.log").write_text("tick r=3 t=10.5\ntick r=4 t=11.5\n")
    assert specdiag("check", "t.log").code == 3
    assert specdiag("check", "t.log", "--parsers", "formats").code == 0
    answer = specdiag(
        "query",
        "SELECT running, tokens_per_s FROM decode ORDER BY line",
        "t.log",
        "--parsers",
        "formats",
        "--format",
        "csv",
    )
    assert answer.out == "running,tokens_per_s\n3,10.5\n4,11.5\n"
    assert "A log of this test" in specdiag("parsers", "--parsers", "formats").out
    assert "tick r=1" in specdiag("parsers", "ticks", "--parsers", "formats").out


@pytest.mark.parametrize("option", ["--rules", "--parsers"])
def test_a_folder_that_is_not_there_is_named(specdiag, option):
    answer = specdiag("check", HEALTHY, option, "nowhere")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: no such file or folder\n --> nowhere\nhelp: ")


# specdiag.toml -------------------------------------------------------------------------------------


@analysed_once
def test_settings_are_read_from_a_file(specdiag, folder, rules):
    rules("medium")
    assert specdiag("check", SICK).code == 1
    (folder / "specdiag.toml").write_text("[params.draft_never_accepted]\nfloor = 0.5\n")
    assert specdiag("check", SICK).code == 0
    (folder / "specdiag.toml").write_text('fail_on = "critical"\n')
    assert specdiag("check", SICK).code == 0
    (folder / "specdiag.toml").write_text('rules = ["rules"]\nfail_on = "medium"\n')
    assert specdiag("check", HEALTHY).code == 1
    (folder / "specdiag.toml").write_text('require = ["slower_than_baseline"]\n')
    assert specdiag("check", HEALTHY).code == 3


@analysed_once
def test_options_come_on_top_of_the_file(specdiag, folder):
    (folder / "specdiag.toml").write_text(
        'fail_on = "never"\n[params.draft_never_accepted]\nfloor = 0.5\n'
    )
    assert (
        specdiag(
            "check", SICK, "--fail-on", "high", "--param", "draft_never_accepted.floor=1.05"
        ).code
        == 1
    )


@analysed_once
def test_paths_in_a_settings_file_start_at_it(specdiag, folder, rules):
    rules()
    (folder / "specdiag.toml").write_text('rules = ["rules"]\n')
    (folder / "below").mkdir()
    os.chdir(folder / "below")
    assert specdiag("check", HEALTHY, "--config", "../specdiag.toml").code == 1


@analysed_once
def test_settings_are_read_from_pyproject(specdiag, folder):
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.specdiag]\nfail_on = "never"\n'
    )
    assert specdiag("check", SICK).code == 0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('fail_onn = "high"', "unknown key 'fail_onn' in the configuration"),
        ("fail_on = 3", "key 'fail_on' must be a str"),
        ('rules = "rules"', "key 'rules' must be a list"),
        ('fail_on = "terrible"', "'terrible' is no severity"),
        ("[params.nobody]\nx = 1", "no rule is called nobody"),
        ("[params.draft_never_accepted]\nx = 1", "rule draft_never_accepted has no parameter x"),
        ("fail_on = ", "configuration cannot be read"),
        ("[params]\ndraft_never_accepted = 1", "key 'params' must "),
        ("rules = [1]", "key 'rules' must be a list of "),
    ],
)
def test_a_broken_settings_file_is_named(specdiag, folder, text, what):
    (folder / "specdiag.toml").write_text(text + "\n")
    answer = specdiag("check", HEALTHY)
    assert (answer.code, answer.out) == (2, "") and what in answer.err
    assert "Traceback" not in answer.err


def test_a_settings_file_that_is_not_there_is_named(specdiag):
    answer = specdiag("check", HEALTHY, "--config", "nowhere.toml")
    assert answer.code == 2 and " --> nowhere.toml" in answer.err


# Outputs -----------------------------------------------------------------------------------------


@analysed_once
def test_analyze_writes_a_report_into_this_folder(specdiag, folder):
    answer = specdiag("analyze", SICK)
    assert [path.name for path in folder.iterdir()] == ["specdiag-report.html"]
    assert "specdiag-report.html" in answer.out.splitlines()[-1]
    assert "draft_never_accepted" in (folder / "specdiag-report.html").read_text()


@analysed_once
def test_a_report_is_written_where_it_is_wanted(specdiag, folder):
    (folder / "out").mkdir()
    assert specdiag("analyze", SICK, "--html", "out/a.html").code == 0
    assert specdiag("check", SICK, "--html", "out/b.html").code == 1
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["a.html", "b.html"]
    assert [path.name for path in folder.iterdir()] == ["out"]


@pytest.mark.parametrize("arguments", [["analyze", SICK, "--no-html"], ["check", SICK]])
@analysed_once
def test_nothing_is_written_unasked(specdiag, folder, arguments):
    assert "draft_never_accepted" in specdiag(*arguments).out
    assert list(folder.iterdir()) == []


@analysed_once
def test_json_on_standard_output_is_alone_there(specdiag):
    answer = specdiag("analyze", SICK, "--no-html", "--output", "json=-")
    found = json.loads(answer.out)
    assert [one["rule"] for one in found["findings"]] == ["draft_never_accepted"]
    assert found["findings"][0]["evidence"][0]["path"] == str(SICK)
    assert found["runs"][0]["run"] == "draft_never_accepted"


@analysed_once
def test_a_html_report_beside_json_on_standard_output_says_nothing(specdiag, folder):
    json.loads(specdiag("analyze", SICK, "--output", "json=-").out)
    assert (folder / "specdiag-report.html").exists()


@analysed_once
def test_several_outputs_are_written_at_once(specdiag, folder):
    answer = specdiag(
        "check",
        SICK,
        "--output",
        "json=o.json",
        "--output",
        "markdown=o.md",
        "--output",
        "html=o.html",
    )
    assert "draft_never_accepted" in answer.out
    assert json.loads((folder / "o.json").read_text())["findings"]
    assert (folder / "o.md").read_text().startswith("#")
    assert (folder / "o.html").read_text().lower().startswith("<!doctype html>")


@pytest.mark.parametrize("given", ["pdf=x", "json", "json=", "=x"])
def test_an_output_of_no_known_kind_is_a_mistake(specdiag, given):
    answer = specdiag("check", SICK, "--output", given)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {given!r} is no output\n --> --output\nhelp: KIND=PATH")


@analysed_once
def test_an_output_that_cannot_be_written_is_a_mistake(specdiag):
    answer = specdiag("check", SICK, "--output", "json=no/such/folder.json")
    assert answer.code == 2 and " --> no/such/folder.json" in answer.err


def test_the_same_input_gives_the_same_output(specdiag, folder):
    for n in "12":
        specdiag("check", SAMPLES / "founding-1-depth-against-commit", SAMPLES / "tree_below_chain",
                 "--output", f"json={n}.json", "--html", f"{n}.html", "--output", f"markdown={n}.md")  # fmt: skip
    for kind in ("json", "html", "md"):
        assert (folder / f"1.{kind}").read_bytes() == (folder / f"2.{kind}").read_bytes()


def test_standard_input_is_read():
    done = subprocess.run(
        [sys.executable, "-m", "specdiag", "check", "-"],
        input=SICK.read_bytes(), capture_output=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert b"<stdin>:" in done.stdout and b"draft_never_accepted" in done.stdout


# Colour ------------------------------------------------------------------------------------------


@analysed_once
def test_no_colour_where_nobody_looks(specdiag):
    assert "\x1b" not in specdiag("check", SICK).out


@pytest.mark.parametrize(("given", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_on_a_terminal(given, coloured):
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "specdiag", "check", str(SICK)],
        stdout=follower, cwd=ROOT, env=environment | {"TERM": "xterm"} | given,
    )  # fmt: skip
    os.close(follower)
    printed = b""
    try:
        while piece := os.read(leader, 4096):
            printed += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(leader)
    assert process.wait() == 1 and b"draft_never_accepted" in printed
    assert (b"\x1b[" in printed) is coloured


# What specdiag knows -----------------------------------------------------------------------------


def test_rules_lists_every_rule(specdiag):
    answer = specdiag("rules")
    listed = [line.split()[1] for line in answer.out.splitlines()]
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "rules").glob("*.sql"))
    assert answer.code == 0 and answer.out.startswith("critical ")


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "rules").glob("*.sql")))
def test_explain_tells_why_and_what_to_do(specdiag, name):
    answer = specdiag("explain", name)
    assert answer.code == 0 and answer.out.startswith(f"{name} (")
    assert all(f"\n{heading}\n" in answer.out for heading in ("Why", "What to do", "Needs"))
    assert max(map(len, answer.out.splitlines())) <= 100


def test_explain_knows_what_was_meant(specdiag):
    answer = specdiag("explain", "draft_never_acepted")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == error(
        "no rule is called draft_never_acepted", help="did you mean draft_never_accepted?"
    )
    assert "see `specdiag rules`" in specdiag("explain", "zzz").err


def test_parsers_lists_every_format(specdiag):
    answer = specdiag("parsers")
    listed = [line.split()[0] for line in answer.out.splitlines()]
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "parsers").glob("*.toml"))


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "parsers").glob("*.toml")))
def test_a_format_is_shown_with_a_sample(specdiag, name):
    answer = specdiag("parsers", name)
    assert answer.code == 0 and answer.out.startswith(f"{name}: ") and "e.g. " in answer.out


def test_the_names_for_a_trace_of_ones_own_are_listed(specdiag):
    answer = specdiag("parsers", "flat_steps")
    assert re.search(r"commit_len: commit_len, commit_length, ", answer.out)


def test_a_format_that_is_not_there(specdiag):
    answer = specdiag("parsers", "nobody")
    assert answer.code == 2 and answer.err.startswith(
        "error: no parser is called nobody\nhelp: known: "
    )


# Questions ---------------------------------------------------------------------------------------

QUESTION = "SELECT run, count(*) AS n, NULL AS none, [1.5] AS some FROM decode GROUP BY run"


def test_a_query_as_a_table(specdiag):
    answer = specdiag("query", QUESTION, HEALTHY)
    header, rule, row = answer.out.splitlines()
    assert header.split() == ["run", "n", "none", "some"] and set(rule) == {"-", " "}
    assert row.split()[0] == "healthy-dflash" and int(row.split()[1]) > 50


def test_a_query_as_csv(specdiag):
    answer = specdiag("query", QUESTION, HEALTHY, "--format", "csv")
    header, row = csv.reader(io.StringIO(answer.out))
    assert header == ["run", "n", "none", "some"] and row[2:] == ["", "[1.5]"]


def test_a_query_as_json(specdiag):
    answer = specdiag("query", QUESTION, HEALTHY, "--format", "json")
    (row,) = json.loads(answer.out)
    assert row["run"] == "healthy-dflash" and (row["none"], row["some"]) == (None, [1.5])


def test_a_query_as_json_is_json_whatever_it_holds(specdiag):
    sql = "SELECT 1.5 AS some, 'nan'::DOUBLE AS nan, 'inf'::DOUBLE AS inf, DATE '2026-03-14' AS day"
    answer = specdiag("query", sql, "--format", "json")
    (row,) = json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert row == {"some": 1.5, "nan": None, "inf": None, "day": "2026-03-14"}


@pytest.mark.parametrize("kind", ["table", "csv", "json"])
def test_a_query_without_rows(specdiag, kind):
    answer = specdiag("query", "SELECT run FROM step", HEALTHY, "--format", kind)
    assert answer.code == 0 and answer.out.startswith(("run", "[]"))


def test_a_query_without_a_file_shows_the_tables(specdiag):
    assert "commit_len" in specdiag("query", "DESCRIBE decode").out
    assert "decode" in specdiag("query", "SHOW TABLES").out.split()


@pytest.mark.parametrize(
    "sql",
    [
        "SELEC 1",
        "SELECT nothing FROM decode",
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY decode TO 'out.csv'",
        "SET enable_external_access = true",
        "",
        "/* nothing */",
    ],
)
def test_a_query_that_does_not_run_is_a_mistake(specdiag, folder, sql):
    answer = specdiag("query", sql, HEALTHY)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ") and "Traceback" not in answer.err
    assert list(folder.iterdir()) == []


def test_a_query_in_no_known_format_is_a_mistake(specdiag):
    answer = specdiag("query", "SELECT 1", "--format", "xml")
    assert answer.code == 2 and answer.err.startswith("error: 'xml' is no format\n")


# Help and start ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(specdiag, name):
    answer = specdiag(name, "--help")
    assert answer.code == 0
    assert re.search(rf"Example: specdiag {name}\b", answer.out)


def test_help_lists_every_command(specdiag):
    answer = specdiag("--help")
    assert answer.code == 0
    assert all(re.search(rf"^  {name} +\S", answer.out, re.MULTILINE) for name in COMMANDS)


def test_no_command_is_help(specdiag):
    assert "Usage: " in "".join(map(str, (specdiag().out, specdiag().err)))


def test_version(specdiag):
    assert re.fullmatch(r"specdiag \d+\.\d+\.\d+\n", specdiag("--version").out)


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--help"], ["--version"], ["analyse"], ["--nothing"], ["analyze"], ["check", "--nothing"],
        ["check", "a.log", "--threads", "many"], ["baseline"], ["baseline", "write"], ["ddtree"],
        *([name, "--help"] for name in COMMANDS),
    ],
    ids=" ".join,
)  # fmt: skip
def test_help_and_wrong_use_load_nothing_heavy(arguments):
    heavy = ("torch", "plotly", "polars", "duckdb", "rich", "jinja2", "numpy")
    code = f"import sys; sys.argv[1:] = {arguments}; from specdiag import cli; cli.main()"
    code = f"import atexit, sys; atexit.register(lambda: print([m for m in {heavy} if m in sys.modules])); {code}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode in (0, 2) and done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_all_has_the_first_line_of_the_help_of_each(name):
    line = lazy.COMMANDS[name][2]
    assert (lazy.load(name).help or "").split("\n\n")[0].replace("\n", " ") == line
