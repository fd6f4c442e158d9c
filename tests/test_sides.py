"""What contradicts what: the figures that a rule's header names, and how they look side by side."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from specdiag import diagnosis, rule, source, store
from specdiag.errors import SpecdiagError
from specdiag.finding import Finding
from specdiag.report.sides import WIDEST, sides

ROOT = Path(__file__).parents[1]
RULES = sorted((ROOT / "rules").glob("*.sql"))
NAMING = [path for path in RULES if rule.load(path).sides]
LONGEST = 28  # characters of a label that stands over a large figure

HEADER = """-- title    = "A rule of this test"
-- severity = "high"
-- needs    = { decode = ["running"] }
-- why      = "Because."
-- fix      = ["Look at the line that is quoted."]
-- sides    = SIDES
SELECT run, 'seen' AS message, count(*) AS rows, avg(accept_len) AS commit_len,
    [cite(any_value(source), min(line))] AS lines
FROM decode GROUP BY run
"""
LINE = (
    "[2026-03-14 10:21:07] Decode batch, #running-req: 1, #token: 900, token usage: 0.01, "
    "accept len: 3.00, accept rate: 0.40, cuda graph: True, gen throughput (token/s): 100.00, "
    "#queue-req: 0\n"
)


@pytest.fixture
def written(tmp_path):
    """A rule whose header has this text as its `sides`."""

    def written(text):
        path = tmp_path / "of_this_test.sql"
        path.write_text(HEADER.replace("SIDES", text), encoding="utf-8")
        return rule.load(path)

    return written


def finding(named: dict[str, str], values: dict[str, object]) -> Finding:
    one = dataclasses.replace(rule.load(RULES[0]), sides=named)
    return Finding("rule@run", one, "run", None, "high", "", None, values, [])


def shown(**values: object) -> list[str]:
    """The values of a finding whose every column is a side."""
    return [value for _, value in sides(finding({name: name for name in values}, values))]


# The bundled rules -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def empty():
    """A database with every table and no row."""
    db = store.open_empty()
    db.execute(rule.MACROS)
    return db


@pytest.mark.parametrize("path", NAMING, ids=lambda path: path.stem)
def test_a_rule_selects_what_it_sets_side_by_side(path, empty):
    one = rule.load(path)
    selected = [column[0] for column in empty.execute(one.sql, dict(one.params)).description]
    assert set(one.sides.values()) <= set(selected)


@pytest.mark.parametrize("path", NAMING, ids=lambda path: path.stem)
def test_labels_are_short(path):
    assert [label for label in rule.load(path).sides if len(label) > LONGEST] == []


def test_most_rules_have_sides():
    assert len(NAMING) > 0.8 * len(RULES)


def test_an_accepted_depth_stands_beside_the_commit_length(sample):
    found = sample("founding-1-depth-against-commit").causes[0]
    assert sides(found) == [
        ("accepted depth", "7.00"),
        ("commit length", "2.00"),
        ("commit length it needs", "8.00"),
    ]


# How a value looks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("step_ms", 8.04, "8.04 ms"),
        ("long_ms", 1428.57, "1.43 s"),
        ("silence_s", 14.0, "14 s"),
        ("silence_s", 302.0, "5.03 min"),
        ("tokens_per_s", 118.24, "118.2 tok/s"),
        ("baseline_tokens_per_s", 5784.1, "5,784 tok/s"),
        ("steps_per_s", 40.0, "40 a second"),
        ("busy_share", 0.573, "57.3%"),
        ("cached_share_of_all", 0.444444, "44.4%"),
        ("usage_max", 0.99, "99%"),
        ("usage_max", 1.02, "1.02"),
        ("accept_rate", 0.7, "70%"),
        ("baseline_hit_ratio", 1, "100%"),
        ("steps_ratio", 0.974, "0.97"),
        ("free_before_capture_gb", 20.9, "20.90 GB"),
        ("kv_bytes", 512, "512 B"),
        ("kv_bytes", 3 * 1024**3, "3 GiB"),
        ("commit_len", 7.0, "7.00"),
        ("accepted_depth", 12.0, "12.00"),
        ("accepted_drafts", 0.0, "0.00"),
        ("retractions", 28, "28"),
        ("steps", 5240.0, "5,240"),
        ("odds", 4.31817e-21, "4.3e-21"),
        ("observed", "10458", "10458"),
        ("padded", True, "yes"),
        ("batches_outside", [8, 10], "8, 10"),
    ],
)
def test_a_value_has_the_unit_of_its_column(column, value, expected):
    assert shown(**{column: value}) == [expected]


def test_figures_that_are_compared_have_the_same_decimals():
    assert shown(load_most=38.0, load_least=2.66667) == ["38.00", "2.67"]
    assert shown(load_most=38.0, load_least=2.0) == ["38", "2"]
    assert shown(load_most=38.0, busy_share=0.512) == ["38", "51.2%"]


def test_a_value_that_is_not_there_is_left_out():
    named = {"commit length": "commit_len", "elsewhere": "other_len", "first": "first_share"}
    values = {"commit_len": 2.0, "other_len": None}
    assert sides(finding(named, values)) == [("commit length", "2.00")]
    assert shown(a=None, b="", c=[], d=float("nan"), e=0) == ["0"]


def test_a_rule_without_sides_has_none():
    assert sides(finding({}, {"commit_len": 2.0})) == []


def test_the_order_is_the_headers(written):
    one = written('{ "z" = "rows", "a" = "commit_len" }')
    assert list(one.sides) == ["z", "a"]
    told = dataclasses.replace(finding({}, {"commit_len": 3.0, "rows": 5}), rule=one)
    assert sides(told) == [("z", "5"), ("a", "3.00")]


def test_text_of_a_log_is_made_visible_and_cut():
    (value,) = shown(observed="a\x1b[31mb\u202e" + "c" * 500)
    assert value.startswith(r"a\x1b[31mb\u202e") and len(value) == WIDEST and "…" in value


# Headers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ['["commit_len"]', '"commit_len"', '{ "a" = 1 }', '{ "a" = ["rows"] }', '{ "" = "rows" }',
     '{ "a" = "" }', '{ "a" = "message" }', '{ "a" = "impact" }'],
)  # fmt: skip
def test_sides_that_are_no_table_of_labels_and_columns_are_named(written, text):
    with pytest.raises(SpecdiagError, match=r"sides is \{ label = column \}") as caught:
        written(text)
    assert caught.value.where.endswith("of_this_test.sql") and caught.value.help


def test_a_side_that_is_not_selected_is_named(written, tmp_path, definitions):
    log = tmp_path / "server.log"
    log.write_text(LINE)
    files = source.find([str(log)])
    good = written('{ "rows" = "rows" }')
    found, _ = diagnosis.analyze(files, definitions[0], [good], {})
    assert [sides(one) for one in found.findings] == [[("rows", "1")]]
    found, _ = diagnosis.analyze(files, definitions[0], [written('{ "x" = "commits" }')], {})
    assert "sides names what is not selected: commits" in found.broken[0].what
