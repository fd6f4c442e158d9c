"""The words of words.sql that judge texts and chance."""

from __future__ import annotations

import duckdb
import pytest

from specdiag import rule, store

PROSE = (
    "The harbour keeps three crates of apples without a word. A narrow bridge counts what the "
    "winter took, and the ferry clerk records it in pencil before noon. Nobody remembers who "
    "ordered the second lamp; it stands near the lower dock, where the northern storm left it."
)
LOOP = "It starts well and then it goes on" + " and goes on and on" * 20


@pytest.fixture(scope="module")
def repetition():
    db: duckdb.DuckDBPyConnection = store.open_empty()
    db.execute(rule.MACROS)

    def repetition(text):
        return db.execute("SELECT repetition(?)", [text]).fetchone()[0]

    return repetition


def test_prose_repeats_nothing(repetition):
    assert repetition(PROSE) == 0


def test_a_loop_is_seen_with_and_without_spaces(repetition):
    assert repetition(LOOP) > 0.8
    assert repetition("!" * 200) > 0.9
    assert repetition("ループする" * 40) > 0.8


@pytest.mark.parametrize("text", ["", "ok", "Yes, that is so.", None])
def test_a_short_text_tells_nothing(repetition, text):
    assert repetition(text) is None


@pytest.mark.parametrize(("runs", "errors"), [(1, 3), (30, 3), (100, 3.38), (1000, 4.0)])
def test_the_more_runs_are_looked_at_the_less_chance_may_say(runs, errors):
    db = store.open_empty()
    db.execute(rule.MACROS)
    db.execute("INSERT INTO run (run) SELECT 'run ' || range FROM range(?)", [runs])
    assert db.execute("SELECT sure(3.0)").fetchone()[0] == pytest.approx(errors, abs=0.01)
