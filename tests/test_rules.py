"""Every rule keeps the promises of its header; what it finds in samples is in test_samples.py."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import duckdb
import pytest

from specdiag import bundled, diagnosis, rule, source, store
from specdiag.errors import SpecdiagError

ROOT = Path(__file__).parents[1]
RULES = sorted((ROOT / "rules").glob("*.sql"))

each_rule = pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)


@functools.cache
def creations() -> dict[str, str]:
    """The statement of schema.sql that makes each table or view."""
    found = {}
    for one in duckdb.extract_statements(bundled.SCHEMA.read_text(encoding="utf-8")):
        text = re.sub(r"--[^\n]*", "", one.query)
        made = re.search(r"CREATE\s+(?:TABLE|VIEW)\s+(\w+)", text)
        if made:
            found[made[1]] = text
    return found


def standing_on(name: str, known: dict[str, str]) -> list[str]:
    """A table, or a view after the tables that it reads."""
    below = [
        other
        for other in known
        if "VIEW" in known[name]
        and other != name
        and re.search(rf"(?:FROM|JOIN)\s+{other}\b", known[name])
    ]
    return [table for other in below for table in standing_on(other, known)] + [name]


def empty(tables: list[str]) -> duckdb.DuckDBPyConnection:
    """A database that has these tables of schema.sql, and no other."""
    known = creations()
    db = duckdb.connect(config={"python_enable_replacements": False})
    for one in duckdb.extract_statements(bundled.SCHEMA.read_text(encoding="utf-8")):
        if "CREATE MACRO" in one.query:
            db.execute(one)
    for name in dict.fromkeys(one for table in tables for one in standing_on(table, known)):
        db.execute(known[name])
    for word in duckdb.extract_statements(rule.MACROS):
        if set(re.findall(r"FROM (replay|run)\b", word.query)) <= set(tables):
            db.execute(word.query)
    return db


# Headers -----------------------------------------------------------------------------------------


def test_schema_is_understood_here():
    made = {row[0] for row in store.open_empty().execute("SHOW TABLES").fetchall()}
    assert set(creations()) == made


@each_rule
def test_says_what_why_and_what_to_do(path):
    one = rule.load(path)
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", one.name)
    assert one.title and not one.title.endswith(".")
    assert one.why.rstrip().endswith((".", "!", ")", "`"))
    assert one.fix and all(len(text) > 20 for text in one.fix)
    assert one.needs


@pytest.fixture(scope="module")
def filled_empty() -> duckdb.DuckDBPyConnection:
    """A database with every table and no row, for rules, which change nothing."""
    db = store.open_empty()
    db.execute(rule.MACROS)
    return db


@each_rule
def test_needs_columns_that_exist(path, filled_empty):
    one = rule.load(path)
    for table, columns in one.needs.items():
        known = {row[0] for row in filled_empty.execute(f"DESCRIBE {table}").fetchall()}
        assert set(columns) <= known, table
    assert set(one.enough) <= set(one.needs)


@each_rule
def test_reads_nothing_but_what_it_needs(path):
    one = rule.load(path)
    cursor = empty(list(one.needs)).execute(one.sql, dict(one.params))
    assert {"run", "message"} <= {column[0] for column in cursor.description}
    assert cursor.fetchall() == []


@each_rule
def test_applies_to_runs(path, filled_empty):
    one = rule.load(path)
    hits, results = rule.apply(one, filled_empty, one.params)
    assert hits == [] and results == []


@each_rule
def test_explains_rules_that_are_known(path):
    known = {other.stem for other in RULES}
    assert set(rule.load(path).explains) <= known - {path.stem}


def test_nothing_explains_itself_in_a_circle():
    explains = {path.stem: set(rule.load(path).explains) for path in RULES}

    def follows(name: str, seen: tuple[str, ...]) -> None:
        assert name not in seen, " -> ".join([*seen, name])
        for other in explains.get(name, ()):
            follows(other, (*seen, name))

    for name in explains:
        follows(name, ())


# Decisions: what the docstring of rule.py promises -------------------------------------------------

HEADER = """-- title    = "A rule of this test"
-- severity = "{severity}"
-- needs    = {needs}
-- why      = "Because."
-- fix      = ["Look at the line that is quoted."]
{more}
"""
SELECT = """SELECT run, 'seen' AS message, count(*) AS rows, first_few(list(cite(source, line))) AS lines
FROM decode GROUP BY run HAVING count(*) > {least}
"""
SPECULATING = (
    "[2026-03-14 10:21:{:02}] Decode batch, #running-req: 1, #token: {}, token usage: 0.01, "
    "accept len: 3.00, accept rate: 0.40, cuda graph: True, gen throughput (token/s): 100.00, "
    "#queue-req: 0"
)
PLAIN = re.sub(r"accept len.*?rate: 0.40, ", "", SPECULATING)


@pytest.fixture
def decide(tmp_path, definitions):
    """A rule with this header and SQL on a log: (decisions by run, findings)."""

    def decide(needs, more="", sql=None, lines=SPECULATING, severity="high", params=None):
        path = tmp_path / "of_this_test.sql"
        header = HEADER.format(needs=needs, more=more, severity=severity)
        path.write_text(header + (sql or SELECT.format(least=0)))
        log = tmp_path / "server.log"
        log.write_text("".join(lines.format(n, 500 + n) + "\n" for n in range(5)))
        one = rule.load(path)
        given = rule.parameters([one], params or {})
        found, _ = diagnosis.analyze(
            source.find([str(log)]), definitions[0], [one], {"of_this_test": given["of_this_test"]}
        )
        assert not found.broken, str(found.broken[0])
        assert [result.run for result in found.results] == ["server"]
        return found.results[0], found.findings

    return decide


def test_a_row_is_a_finding(decide):
    result, findings = decide('{ decode = ["running"] }')
    assert (result.result, result.reason) == ("finding", "")
    assert (findings[0].id, findings[0].severity) == ("of_this_test@server", "high")
    assert findings[0].values == {"rows": 5}
    assert [one.line for one in findings[0].evidence] == [1, 2, 3, 4]


def test_no_row_is_a_pass(decide):
    result, findings = decide('{ decode = ["running"] }', sql=SELECT.format(least=99))
    assert (result.result, result.reason, findings) == ("pass", "", [])


def test_no_rows_of_what_it_needs_is_not_applicable(decide):
    result, findings = decide('{ step = ["commit_len"], decode = [] }')
    assert (result.result, findings) == ("not applicable", [])


def test_a_condition_that_is_false_is_not_applicable(decide):
    result, findings = decide('{ decode = ["running"] }', '-- applies = "speculates"', lines=PLAIN)
    assert (result.result, findings) == ("not applicable", [])


def test_a_condition_that_is_true_and_rows_that_are_missing_is_undecided(decide):
    result, findings = decide(
        '{ step = ["commit_len"], decode = [] }',
        '-- applies = "speculates AND served"\n-- enable = "record a trace"',
    )
    assert (result.result, findings) == ("undecided", [])
    assert "0 of 1 rows of step with commit_len" in result.reason
    assert result.reason.endswith("record a trace")


def test_too_few_rows_are_undecided(decide):
    result, findings = decide('{ decode = ["running"] }', "-- enough = 6\n-- enable = 'wait'")
    assert (result.result, findings) == ("undecided", [])
    assert "5 of 6 rows of decode" in result.reason and result.reason.endswith("wait")


def test_enough_can_be_told_for_a_table(decide):
    needs = '{ decode = ["running"], prefill = [] }'
    assert decide(needs, "-- enough = { decode = 5 }")[0].result == "finding"
    assert decide(needs, "-- enough = { decode = 6 }")[0].result == "undecided"


def test_rows_without_the_column_do_not_count(decide):
    result, _ = decide('{ decode = ["accept_len"] }', lines=PLAIN)
    assert result.result == "not applicable"


def test_a_table_without_columns_may_be_empty(decide):
    assert decide('{ decode = ["running"], prefill = [], step = [] }')[0].result == "finding"


def test_a_row_may_say_how_bad_it_is(decide):
    sql = "SELECT run, 'x' AS message, 'low' AS severity, 7.0 AS impact, 'y' AS against FROM run"
    _, findings = decide('{ run = [], decode = ["running"] }', sql=sql)
    assert (findings[0].severity, findings[0].impact, findings[0].against) == ("low", 1.0, "y")


def test_a_threshold_can_be_set(decide):
    sql = "SELECT run, 'x' AS message FROM decode GROUP BY run HAVING count(*) > $rows"
    more = "-- params = { rows = 4 }"
    needs = '{ decode = ["running"] }'
    assert decide(needs, more, sql)[0].result == "finding"
    lowered = {"of_this_test": {"rows": 5}}
    assert decide(needs, more, sql, params=lowered)[0].result == "pass"


def test_a_threshold_of_a_bundled_rule_can_be_set(diagnose):
    log = ROOT / "sample_logs" / "step_time_superlinear.jsonl"
    changed = diagnose(log, step_time_superlinear={"exponent": 9.0})
    assert "step_time_superlinear" not in [one.rule.name for one in changed.findings]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nobody": {"x": 1}}, "no rule is called nobody"),
        ({"step_time_superlinear": {"x": 1}}, "has no parameter x"),
        ({"step_time_superlinear": {"exponent": "much"}}, "cannot be 'much'"),
        ({"step_time_superlinear": {"exponent": True}}, "cannot be True"),
    ],
)
def test_a_threshold_that_cannot_be_set(definitions, given, message):
    with pytest.raises(SpecdiagError, match=message):
        rule.parameters(definitions[1], given)


def test_an_integer_is_good_enough_for_a_float(definitions):
    given = rule.parameters(definitions[1], {"step_time_superlinear": {"exponent": 2}})
    assert given["step_time_superlinear"]["exponent"] == 2.0


# Headers that are wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("-- title", "-- titel"), "unknown key titel"),
        (('-- title    = "A rule of this test"\n', ""), "no key 'title'"),
        (('"high"', '"terrible"'), "severity 'terrible' is none of"),
        (("{ decode", "[ decode"), "rule header is wrong"),
        (('-- fix      = ["Look at the line that is quoted."]\n', ""), "no key 'fix'"),
    ],
)
def test_a_broken_header_is_named(tmp_path, change, message):
    path = tmp_path / "broken.sql"
    text = HEADER.format(needs='{ decode = ["running"] }', more="", severity="high")
    path.write_text(text.replace(*change) + SELECT.format(least=0))
    with pytest.raises(SpecdiagError, match=message) as caught:
        rule.load(path)
    assert caught.value.where == str(path) and caught.value.help


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT run, 'x' AS message FROM nowhere", "nowhere"),
        ("SELECT run, 'x' AS message FROM decode WHERE running > $unset", "unset"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT 'x' AS message FROM decode", "run"),
    ],
)
def test_sql_that_does_not_run_is_named_and_the_other_rules_still_run(
    tmp_path, definitions, sql, message
):
    path = tmp_path / "broken.sql"
    header = HEADER.format(needs='{ decode = ["running"] }', more="", severity="high")
    path.write_text(header + sql)
    log = tmp_path / "server.log"
    log.write_text(SPECULATING.format(1, 500) + "\n")
    found, _ = diagnosis.analyze(
        source.find([str(log)]), definitions[0], [rule.load(path), *definitions[1]], {}
    )
    assert len(found.broken) == 1
    assert message in found.broken[0].what and found.broken[0].where == str(path)
    assert {one.rule for one in found.results} == {one.name for one in definitions[1]}
