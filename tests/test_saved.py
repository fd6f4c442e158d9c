"""What `--output duckdb=` and `specdiag report` promise: nothing is lost, and nothing else is written."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import bundled, checked, cli, diagnosis, saved, source
from specdiag.diagnosis import Diagnosis
from specdiag.errors import SpecdiagError
from specdiag.finding import Evidence, Finding
from specdiag.provenance import Provenance
from specdiag.report import drawing, files, html, terminal
from specdiag.report import json as document

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
SICK = SAMPLES / "draft_never_accepted.log"
TRACE = SAMPLES / "tree_not_as_built.jsonl"
SOME = (
    "founding-1-depth-against-commit", "tree_below_chain", "sources_disagree",
    "acceptance_regressed", "tree_not_as_built.jsonl", "healthy-profile.trace.json.gz",
    "founding-5-failed-starts", "healthy-scrapes.prom",
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reports of a few samples."""
    folder = tmp_path_factory.mktemp("written")
    command = [*(str(SAMPLES / name) for name in SOME), "--html", str(folder / "a.html")]
    for kind in ("duckdb", "json"):
        command += ["--output", f"{kind}={folder / f'a.{kind}'}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["specdiag", "analyze", *command])
        with pytest.raises(SystemExit):
            cli.main()
    return folder


@pytest.fixture(scope="module")
def wanted(diagnose: Callable[..., Diagnosis]) -> Diagnosis:
    """The diagnosis of the same samples, as far as a file tells it: no folder of rules, no line ends."""
    found = diagnose(*(SAMPLES / name for name in SOME))
    rules = {
        rule.name: dataclasses.replace(rule, path=Path(rule.path.name)) for rule in found.rules
    }
    findings = [
        dataclasses.replace(
            one, rule=rules[one.rule.name],
            evidence=[Evidence(e.path, e.line, e.text.rstrip("\r\n")) for e in one.evidence],
        )
        for one in found.findings
    ]  # fmt: skip
    return dataclasses.replace(found, rules=list(rules.values()), findings=findings)


def save(specdiag: Callable[..., Any], *paths: Path, to: str = "a.duckdb") -> Any:
    return specdiag("check", *paths, "--output", f"duckdb={to}")


# The file ----------------------------------------------------------------------------------------


def test_every_table_and_view_is_in_the_file(written):
    here = duckdb.connect()
    here.execute(bundled.SCHEMA.read_text(encoding="utf-8"))
    here.execute(bundled.SAVED.read_text(encoding="utf-8"))
    there = duckdb.connect(str(written / "a.duckdb"), read_only=True)
    for kind in ("table", "view"):
        ask = f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE NOT internal"
        wanted = {name for (name,) in here.execute(ask).fetchall()}
        found = {name for (name,) in there.execute(ask).fetchall()}
        assert wanted and wanted <= found
        for name in wanted:
            columns = here.execute(f"DESCRIBE {name}").fetchall()
            assert there.execute(f"DESCRIBE {name}").fetchall() == columns


def test_tables_and_views_of_the_file_answer_as_those_of_the_store(written, load):
    filled = load(*(SAMPLES / name for name in SOME))
    there = duckdb.connect(str(written / "a.duckdb"), read_only=True)
    names = [
        name for (name,) in there.execute(
            """SELECT table_name FROM information_schema.tables
            WHERE table_name NOT IN ('finding', 'verdict', 'saved') ORDER BY ALL"""
        ).fetchall()
    ]  # fmt: skip
    assert {"run", "step", "ledger", "comparable"} <= set(names)
    filled_ones = 0
    for name in names:
        (wanted,) = filled.db.execute(f"SELECT count(*) FROM {name}").fetchall()
        (found,) = there.execute(f"SELECT count(*) FROM {name}").fetchall()
        assert found == wanted, name
        assert len(there.execute(f"FROM {name}").fetchall()) == wanted[0]
        filled_ones += wanted[0] > 0
    assert filled_ones > 15
    assert there.execute("FROM run ORDER BY run").fetchall() == filled.db.execute(
        "FROM run ORDER BY run"
    ).fetchall()  # fmt: skip


def test_the_words_of_rules_are_in_the_file(written):
    there = duckdb.connect(str(written / "a.duckdb"), read_only=True)
    assert there.execute("SELECT cite(1, 2)").fetchall() == [({"source": 1, "line": 2},)]
    ((identity,),) = there.execute("SELECT min(identity) FROM replay").fetchall()
    assert there.execute("SELECT steps > 0 FROM broken([?], [])", [identity]).fetchall() == [
        (True,)
    ]


def test_what_the_rules_said_is_in_the_file(written):
    found = json.loads((written / "a.json").read_text())
    there = duckdb.connect(str(written / "a.duckdb"), read_only=True)
    rows = there.execute(
        'SELECT id, severity, message, "values", evidence, fix, explained_by FROM finding'
    ).fetchall()
    assert len(rows) == len(found["findings"]) > 5
    for (id, severity, message, values, evidence, fix, cause), one in zip(
        rows, found["findings"], strict=True
    ):
        assert (id, severity, message) == (one["id"], one["severity"], one["message"])
        assert (json.loads(values), fix, cause) == (one["values"], one["fix"], one["explained_by"])
        assert [(e["path"], e["line"]) for e in evidence] == [
            (e["path"], e["line"]) for e in one["evidence"]
        ]
    assert there.execute("FROM verdict").fetchall() == [
        (one["rule"], one["run"], one["result"], one["reason"]) for one in found["results"]
    ]
    assert there.execute(
        "SELECT schema, specdiag, diagnosis->>'$.runs[0].run' FROM saved"
    ).fetchall() == [(found["schema"], found["specdiag"], found["runs"][0]["run"])]  # fmt: skip


def test_a_healthy_run_is_saved_without_findings(specdiag, folder):
    assert save(specdiag, SAMPLES / "healthy-no-speculation.log").code == 0
    there = duckdb.connect("a.duckdb", read_only=True)
    assert there.execute("SELECT count(*) FROM finding").fetchall() == [(0,)]
    assert there.execute("SELECT count(*) > 0 FROM verdict").fetchall() == [(True,)]
    assert saved.load(Path("a.duckdb")).diagnosis.findings == []


# Writing -----------------------------------------------------------------------------------------


def test_a_database_replaces_the_old_one_and_leaves_nothing_else(specdiag, folder):
    for _ in "12":
        assert save(specdiag, SICK).code == 1
        assert [path.name for path in folder.iterdir()] == ["a.duckdb"]


def test_a_database_is_as_readable_as_any_other_file(specdiag, folder):
    save(specdiag, SICK)
    (folder / "other").touch()
    assert (folder / "a.duckdb").stat().st_mode == (folder / "other").stat().st_mode


@pytest.mark.parametrize("name", ["it's ä.duckdb", "temp.duckdb"])
def test_a_database_may_have_any_name(specdiag, folder, name):
    (folder / "o'f").mkdir()
    assert save(specdiag, SICK, to=f"o'f/{name}").code == 1
    answer = specdiag("report", f"o'f/{name}")
    assert (answer.code, "draft_never_accepted" in answer.out) == (0, True)


def test_several_databases_are_written_at_once(specdiag, folder):
    specdiag("check", SICK, "--output", "duckdb=a.db", "--output", "duckdb=b.db")
    assert sorted(path.name for path in folder.iterdir()) == ["a.db", "b.db"]
    assert saved.load(Path("a.db")).diagnosis == saved.load(Path("b.db")).diagnosis


@pytest.mark.parametrize(
    ("stage", "error"),
    [
        ("_fill", KeyboardInterrupt),
        ("_insert", KeyboardInterrupt),
        ("_insert", RuntimeError("Query interrupted")),
        ("_insert", duckdb.IOException("no space left")),
        ("put", OSError(28, "No space left on device")),
    ],
)
def test_a_write_that_fails_or_is_interrupted_leaves_the_old_database(
    specdiag, folder, monkeypatch, stage, error
):
    from specdiag.report import duckdb as writer

    (folder / "a.duckdb").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(files if stage == "put" else writer, stage, fail)
    answer = save(specdiag, SICK)
    if error is KeyboardInterrupt or isinstance(error, RuntimeError):
        assert (answer.code, answer.err) == (130, "")
    else:
        assert (answer.code, answer.err.count("\n")) == (2, 3) and " --> a.duckdb" in answer.err
    assert [path.name for path in folder.iterdir()] == ["a.duckdb"]
    assert (folder / "a.duckdb").read_bytes() == b"old"


def test_an_analysis_that_fails_leaves_the_old_database(specdiag, folder):
    (folder / "a.duckdb").write_bytes(b"old")
    (folder / "empty.log").touch()
    assert save(specdiag, folder / "empty.log").code == 3
    assert sorted(path.name for path in folder.iterdir()) == ["a.duckdb", "empty.log"]
    assert (folder / "a.duckdb").read_bytes() == b"old"


def test_a_database_cannot_go_to_standard_output(specdiag):
    answer = specdiag("analyze", SICK, "--no-html", "--output", "duckdb=-")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "error: a database cannot go to standard output\n --> --output duckdb=-\n"
        "help: name a file: --output duckdb=FILE\n"
    )


@pytest.mark.parametrize("name", ["no/such/a.duckdb", ".", os.devnull])
def test_a_database_that_cannot_be_written_is_a_mistake_before_the_analysis(
    specdiag, monkeypatch, name
):
    monkeypatch.setattr(diagnosis, "analyze", lambda *_: pytest.fail("the logs were read"))
    answer = save(specdiag, SICK, to=name)
    assert (answer.code, answer.out) == (2, "") and f" --> {name}" in answer.err


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH '{folder}/evil.db' AS evil",
        "COPY (SELECT 1) TO '{folder}/evil.csv'",
        "COPY (SELECT 1) TO '{folder}/a.duckdb'",
        "EXPORT DATABASE '{folder}/evil'",
        "SET allowed_paths = ['{folder}/evil.db']",
        "SELECT * FROM read_text('{folder}/secret')",
        "SELECT * FROM '{folder}/secret'",
        "SELECT * FROM glob('{folder}/*')",
    ],
)
def test_a_store_that_will_be_saved_opens_no_other_file(definitions, folder, sql):
    (folder / "secret").write_text("1")
    filled = diagnosis.fill(
        source.find([str(SICK)]), definitions[0], saved=[files.reserve(folder / "a.duckdb")]
    )
    with pytest.raises(duckdb.Error):
        filled.db.execute(sql.format(folder=folder)).fetchall()
    assert [path.name for path in folder.iterdir()] == ["secret"]


def test_a_rule_of_the_users_cannot_write_beside_the_saved_file(specdiag, folder):
    header = '-- title = "x"\n-- severity = "info"\n-- why = "x"\n-- fix = ["x"]\n-- needs = { run = ["run"] }\n'
    (folder / "rules").mkdir()
    for name, sql in (
        ("one", "ATTACH 'evil.db'"),
        ("two", "SELECT * FROM read_text('rules/one.sql')"),
    ):
        (folder / "rules" / f"{name}.sql").write_text(f"{header}{sql}\n")
    answer = specdiag("check", SICK, "--rules", "rules", "--output", "duckdb=a.duckdb")
    assert answer.code == 2 and "rule one does not run" in answer.err and "rule two" in answer.err
    assert sorted(path.name for path in folder.iterdir()) == ["a.duckdb", "rules"]
    again = specdiag("report", "a.duckdb")
    assert "2 rules did not run" in again.out and "rule one does not run" in again.err


# Reports from a database -------------------------------------------------------------------------


def test_a_page_from_a_database_is_the_one_that_analyze_wrote(specdiag, written):
    assert (
        specdiag("report", written / "a.duckdb", "--html", "b.html", "--output", "json=b.json").code
        == 0
    )
    assert Path("b.html").read_bytes() == (written / "a.html").read_bytes()
    assert Path("b.json").read_bytes() == (written / "a.json").read_bytes()


def test_a_diagnosis_comes_back_whole(written, wanted):
    assert saved.load(written / "a.duckdb").diagnosis == wanted


def test_a_database_gives_its_tables_locked_and_read_only(written, folder):
    found = saved.load(written / "a.duckdb")
    assert found.store is not None and found.store.readings == []
    assert found.store.rows("SELECT count(*) AS rows FROM step")[0]["rows"] > 0
    found.store.db.execute("CREATE TEMP TABLE mine AS FROM run")
    for sql in ("DROP TABLE run", "COPY run TO 'x.csv'", "ATTACH 'x.db'", "SET threads = 1"):
        with pytest.raises(duckdb.Error):
            found.store.db.execute(sql)
    assert list(folder.iterdir()) == []


def test_a_database_says_where_it_comes_from(written):
    found = saved.load(written / "a.duckdb").provenance
    assert found.command.startswith("specdiag analyze ") and "--output" not in found.command
    assert len(found.inputs) > len(SOME) and all(one.sha256 for one in found.inputs)
    assert Provenance.from_dict(found.to_dict()) == found


def test_a_report_can_be_printed_alone(specdiag, written, folder):
    answer = specdiag("report", written / "a.duckdb", "--output", "json=-")
    assert answer.out == (written / "a.json").read_text()
    assert "findings" in specdiag("report", written / "a.duckdb").out
    assert list(folder.iterdir()) == []


# Reports from JSON -------------------------------------------------------------------------------


def test_json_gives_the_same_page_but_for_the_tables_and_the_ends_of_long_lines(written, wanted):
    found = saved.load(written / "a.json")
    assert found.store is None
    assert document.render(found.diagnosis) == document.render(wanted)
    cut = [dataclasses.replace(one, evidence=proofs_cut(one)) for one in wanted.findings]
    wanted = dataclasses.replace(wanted, findings=cut)
    assert html.render(found.diagnosis) == html.render(wanted)
    assert terminal.render(found.diagnosis) == terminal.render(wanted)


def proofs_cut(finding: Finding) -> list[Evidence]:
    texts = document.document(one_finding(finding))["findings"][0]["evidence"]
    return [Evidence(**one) for one in texts]


def one_finding(finding: Finding) -> Diagnosis:
    return Diagnosis([], [finding], [], [finding.rule], [])


def test_json_names_its_files_and_no_more_of_where_it_comes_from(written):
    found = saved.load(written / "a.json").provenance
    assert (found.command, found.rules, found.parsers) == ("", None, None)
    assert {one.sha256 for one in found.inputs} == {None}
    whole = saved.load(written / "a.duckdb").provenance
    assert {one.path for one in found.inputs} <= {one.path for one in whole.inputs}


def test_a_rule_that_is_not_installed_is_told_by_what_json_says(specdiag, folder):
    specdiag("check", SICK, "--output", "json=a.json")
    data = json.loads(Path("a.json").read_text())
    text = json.dumps(data).replace("draft_never_accepted", "rule_of_mine")
    Path("b.json").write_text(text)
    answer = specdiag("report", "b.json")
    assert answer.code == 0 and "rule_of_mine" in answer.out
    assert (
        data["findings"][0]["title"] in answer.out
        and data["findings"][0]["fix"][0][:40] in answer.out
    )
    (rule,) = (
        one for one in saved.load(Path("b.json")).diagnosis.rules if one.name == "rule_of_mine"
    )
    assert (rule.why, rule.sql, rule.causes) == ("", "", ())


def test_json_without_what_was_added_later_is_still_read(specdiag, folder):
    specdiag("check", TRACE, "--output", "json=a.json")
    data = json.loads(Path("a.json").read_text())
    assert any(one.pop("step") for one in data["findings"])
    data["notices"] = [{"what": "a", "where": "b", "help": "c"}]
    Path("b.json").write_text(json.dumps(data, sort_keys=True))
    found = saved.load(Path("b.json")).diagnosis
    assert {one.step for one in found.findings} == {None} and len(found.notices) == 1


# What is no saved result -------------------------------------------------------------------------


def mistakes(folder: Path, written: Path) -> dict[str, str]:
    """Files that are no saved result, and what is said of each."""
    other = duckdb.connect(str(folder / "other.duckdb"))
    other.execute("CREATE TABLE run AS SELECT 1 AS run")
    other.close()
    newer = duckdb.connect(str(folder / "newer.duckdb"))
    newer.execute(bundled.SAVED.read_text(encoding="utf-8"))
    newer.execute("""INSERT INTO saved VALUES (2, '9.0', '{}', '{}')""")
    newer.close()
    spoilt = shutil.copy(written / "a.duckdb", folder / "spoilt.duckdb")
    with duckdb.connect(str(spoilt)) as db:
        db.execute("UPDATE saved SET diagnosis = '{}'")
    (folder / "cut.duckdb").write_bytes((written / "a.duckdb").read_bytes()[:50_000])
    whole = (written / "a.json").read_text()
    texts = {
        "log": "a line\n", "empty": "", "list": "[1]", "other.json": '{"schema": 1}',
        "bench.json": '{"schema": 1, "specdiag": "0.1.0", "arms": [], "runs": [], "findings": []}',
        "broken.json": whole[:-20], "nan.json": whole.replace("null", "NaN", 1),
        "deep.json": '{"a":' * 100_000, "newer.json": whole.replace('"schema": 1', '"schema": 2', 1),
        "spoilt.json": whole.replace('"severity": "critical"', '"severity": "<b>"', 1),
        "schema.json": whole.replace('"schema": 1', '"schema": "1"', 1),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "bytes").write_bytes(b"\xff\xfe{}")
    (folder / "folder").mkdir()
    return {
        "log": "this is no saved result", "empty": "this is no saved result",
        "list": "this is no saved result", "other.json": "this is no saved result",
        "bench.json": "this is no saved result", "bytes": "this is no saved result",
        "schema.json": "this is no saved result", "other.duckdb": "this is no saved result",
        "folder": "this is not a file", "missing.json": "no such file or directory",
        "broken.json": "the JSON is broken: ", "nan.json": "the JSON is broken: ",
        "deep.json": "the JSON is broken: it is nested too deeply",
        "newer.json": "schema version 2 is newer than 1",
        "newer.duckdb": "schema version 2 is newer than 1",
        "spoilt.json": "the saved result is spoilt: result.findings[",
        "spoilt.duckdb": "the saved result is spoilt: diagnosis has no findings",
        "cut.duckdb": "the database cannot be opened: ",
    }  # fmt: skip


def test_what_is_no_saved_result_is_a_mistake_in_three_lines(specdiag, folder, written):
    for name, what in mistakes(folder, written).items():
        answer = specdiag("report", name)
        assert (answer.code, answer.out) == (2, ""), name
        first, where, help = answer.err.splitlines()
        assert first.startswith(f"error: {what}"), answer.err
        assert where == f" --> {name}" and help.startswith("help: ")


@pytest.mark.parametrize("kind", ["duckdb", "json"])
def test_a_report_does_not_replace_what_it_is_made_from(specdiag, written, kind):
    shutil.copy(written / f"a.{kind}", f"a.{kind}")
    Path("link").symlink_to(f"a.{kind}")
    for option in (["--html", f"a.{kind}"], ["--output", "json=link"]):
        answer = specdiag("report", f"./a.{kind}", *option)
        assert answer.code == 2 and "would replace the result" in answer.err
    assert Path(f"a.{kind}").read_bytes() == (written / f"a.{kind}").read_bytes()


def test_a_report_makes_no_database(specdiag, written):
    answer = specdiag("report", written / "a.duckdb", "--output", "duckdb=b.duckdb")
    assert answer.code == 2 and "KIND one of json, markdown, html" in answer.err


def test_a_saved_database_is_no_log(specdiag, written):
    answer = specdiag("check", written / "a.duckdb")
    assert answer.code == 3 and "this is a DuckDB file" in answer.err
    assert "specdiag report" in answer.err


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the values of a document are."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(spot for key, one in inner for spot in spots(one, (*path, key)))]


@pytest.fixture(scope="module")
def small(written: Path) -> str:
    """A result with a finding on a traced step, one on a log, and little else."""
    data = json.loads((written / "a.json").read_text())
    steps = [one for one in data["findings"] if one["step"]]
    data["findings"] = [steps[0], next(one for one in data["findings"] if not one["step"])]
    names = {one["rule"] for one in data["findings"]}
    data["results"] = [one for one in data["results"] if one["rule"] in names][:8]
    return json.dumps(data)


JUNK = st.sampled_from(
    [None, True, -1, 2**70, 1e300, "", "<b>\0\ud800", [], {}, [None], {"a": [1]}]
)


@settings(max_examples=50)
@given(data=st.data(), junk=JUNK)
def test_whatever_json_holds_it_is_a_report_or_a_mistake_of_the_users(
    small, tmp_path_factory, data, junk
):
    found = json.loads(small)
    *outer, last = data.draw(st.sampled_from(spots(found)[1:]))
    holder = found
    for key in outer:
        holder = holder[key]
    holder[last] = junk
    path = tmp_path_factory.mktemp("junk") / "a.json"
    path.write_text(json.dumps(found))
    try:
        back = saved.load(path)
    except SpecdiagError:
        return
    for render in (html.render, terminal.render, document.render):
        assert render(back.diagnosis)


def test_values_are_checked_against_their_columns():
    assert checked.fits([[1, None], None], "BIGINT[][]") and not checked.fits([1], "BIGINT[][]")
    assert not checked.fits(True, "DOUBLE") and not checked.fits("1", "BIGINT")
    assert not checked.fits(2**63, "BIGINT") and checked.fits(1, "DOUBLE")
    with pytest.raises(ValueError, match=r"a\.b is no object that is nested so little"):
        checked.Record({"b": {"c": json.loads("[" * 60 + "]" * 60)}}, "a").free("b")
    with pytest.raises(ValueError, match="1e999 is no JSON"):
        checked.parse("1e999")


def test_a_drawing_reads_no_other_columns_of_a_step(wanted):
    steps = [one.step for one in wanted.findings if one.step is not None]
    assert steps
    for step in steps:
        assert drawing.draw(step) == drawing.draw({key: step[key] for key in drawing.COLUMNS})
