"""Assertions: green, red or undecided, what would decide them, and that none checks nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from specdiag import assertions, fact, rule
from specdiag import store as stores
from specdiag.errors import SpecdiagError
from specdiag.store import Store

pytestmark = pytest.mark.usefixtures("analyses_once")

ROOT = Path(__file__).parents[1]
CASE = ROOT / "sample_logs" / "founding-1-depth-against-commit"  # ddtree-b7-k1, dflash-linear
HEALTHY = ROOT / "sample_logs" / "healthy-dflash.log"


@pytest.fixture(scope="module")
def store():
    """Run a: ten requests of 100 steps, C = 3 +- 0.5; run b: three requests."""
    db = stores.open_empty()
    db.execute(rule.MACROS)
    db.execute("INSERT INTO run (run, server) VALUES ('a', true), ('b', false), ('c', false)")
    db.execute(
        """INSERT INTO step (run, request, commit_len, source, line)
        SELECT 'a', (n // 100)::VARCHAR, 3 + CASE WHEN n // 100 % 2 = 0 THEN 0.5 ELSE -0.5 END, 0, n
        FROM range(1000) t(n)
        UNION ALL SELECT 'b', (n // 100)::VARCHAR, 2, 1, n FROM range(300) t(n)"""
    )
    db.execute("INSERT INTO benchmark (run, mean_ttft_ms, source, line) VALUES ('c', 40, 2, 1)")
    return Store(db, [], [])


def judged(store, **written):
    return assertions.judge(assertions.parse([written], "specdiag.toml"), store)


def one(store, **written):
    (verdict,) = judged(store, **{"metric": "accept_len", "run": "a", **written})
    return verdict


REACH = 2.2622 * 0.5270463 / math.sqrt(10)  # of run a: Student's t for 9, deviation of +-0.5


@pytest.mark.parametrize(
    ("bound", "result"),
    [
        ({"at_least": 2.5}, "ok"),
        ({"at_least": 3.5}, "failed"),
        ({"at_least": 3.1}, "undecided"),
        ({"at_least": 2.9}, "undecided"),
        ({"at_most": 3.5}, "ok"),
        ({"at_most": 2.5}, "failed"),
        ({"at_most": 3.1}, "undecided"),
        ({"above": 2.5}, "ok"),
        ({"above": 3.5}, "failed"),
        ({"below": 3.5}, "ok"),
        ({"below": 2.5}, "failed"),
        ({"below": 3.0}, "undecided"),
        ({"equals": 3, "tolerance": 0.5}, "ok"),
        ({"equals": 4, "tolerance": 0.5}, "failed"),
        ({"equals": 3, "tolerance": 0.3}, "undecided"),
        ({"at_least": 2.5, "at_most": 3.5}, "ok"),
        ({"at_least": 2.5, "at_most": 3.1}, "undecided"),
        ({"at_least": 2.9, "at_most": 2.5 + 0.4}, "undecided"),
        ({"at_least": 3.6, "at_most": 4.0}, "failed"),
    ],
)
def test_the_interval_decides(store, bound, result):
    verdict = one(store, **bound)
    assert verdict.result == result
    assert verdict.value == 3
    assert verdict.interval == pytest.approx((3 - REACH, 3 + REACH), abs=1e-3)


@pytest.mark.parametrize(("aggregate", "bound", "result"), [
    ("max", {"at_most": 3.5}, "ok"), ("max", {"below": 3.5}, "failed"),
    ("min", {"above": 2.5}, "failed"), ("min", {"at_least": 2.5}, "ok"), ("min", {"equals": 2.5}, "ok"),
])  # fmt: skip
def test_what_is_counted_needs_no_interval(store, aggregate, bound, result):
    assert one(store, aggregate=aggregate, **bound).result == result


def test_an_undecided_one_says_how_many_more_steps_would_decide_it(store):
    verdict = one(store, at_least=2.9)
    wanted = 1000 * ((REACH / 0.1) ** 2 - 1)
    assert wanted < verdict.more < 1.1 * wanted
    assert f"about {verdict.more:,} more steps would decide it" in verdict.message
    assert "3 tokens (2.62" in verdict.message and "wanted at least 2.9" in verdict.message


def test_the_nearer_the_bound_the_more_steps_are_needed(store):
    more = [one(store, at_least=bound).more for bound in (2.7, 2.8, 2.9, 2.99)]
    assert more == sorted(more) and more[0] < more[-1]


def test_no_number_of_steps_decides_a_value_on_the_bound(store):
    verdict = one(store, at_least=3.0)
    assert verdict.result == "undecided" and verdict.more is None
    assert "no number of steps" in verdict.message


def test_too_few_steps_are_undecided_whatever_the_value(store):
    verdict = one(store, at_least=1.0, min_steps=1200)
    assert (verdict.result, verdict.more) == ("undecided", 200)
    assert "1,000 of 1,200 steps" in verdict.message
    assert one(store, at_least=1.0, min_steps=1000).result == "ok"


def test_steps_that_no_source_counts_are_not_enough(store):
    (verdict,) = judged(
        store, metric="ttft_ms", run="c", aggregate="mean", at_most=90, min_steps=1, interval=False
    )
    assert verdict.result == "undecided" and "does not say" in verdict.message


def test_few_requests_have_no_interval_and_say_so(store):
    verdict = one(store, run="b", at_least=1.0)
    assert (verdict.result, verdict.interval) == ("undecided", None)
    assert "3 requests are too few for an interval, 5 are the least" in verdict.message
    assert one(store, run="b", at_least=1.0, interval=False).result == "ok"


def test_a_figure_of_a_client_can_be_judged_as_it_stands(store):
    written = {"metric": "ttft_ms", "run": "c", "aggregate": "mean", "at_most": 50}
    assert one(store, **written).result == "undecided"
    assert "interval = false" in one(store, **written).message
    assert one(store, **written, interval=False).result == "ok"
    assert one(store, **{**written, "at_most": 30}, interval=False).result == "failed"


def test_without_a_run_every_run_that_has_the_metric_is_judged(store):
    found = judged(store, metric="accept_len", at_least=1)
    assert [verdict.run for verdict in found] == ["a", "b"]


def test_a_run_that_is_named_and_lacks_the_metric_is_undecided(store):
    found = judged(store, metric="accept_len", run="[ac]", at_least=1)
    assert [(verdict.run, verdict.result) for verdict in found] == [("a", "ok"), ("c", "undecided")]
    assert "has no accept_len" in found[1].message


@pytest.mark.parametrize(("written", "said"), [
    ({"metric": "accept_len", "run": "nobody*"}, "no run is called nobody*; there are: a, b, c"),
    ({"metric": "accept_len", "run": "c"}, "none of the 1 runs that c names has accept_len"),
    ({"metric": "usage"}, "none of the runs has usage"),
    ({"metric": "ttft_ms", "aggregate": "p99"}, "has ttft_ms as p99"),
])  # fmt: skip
def test_what_there_is_nothing_to_judge_for_is_not_green(store, written, said):
    (verdict,) = judged(store, at_least=1, **written)
    assert (verdict.result, verdict.run) == ("unmatched", None)
    assert said in verdict.message


# How they are written

GOOD = {"metric": "accept_len", "at_least": 3.0}


@pytest.mark.parametrize(("written", "what", "help"), [
    ({**GOOD, "at_leest": 3.0}, "unknown key 'at_leest'", "did you mean at_least?"),
    ({**GOOD, "metric": "acept_len"}, "no metric is called acept_len", "did you mean accept_len?"),
    ({**GOOD, "metric": "zzz"}, "no metric is called zzz", "known: accept_len, accept_rate"),
    ({"at_least": 3.0}, "names no metric", "specdiag facts"),
    ({"metric": "accept_len"}, "has no bound", "at_least, at_most, above, below, equals"),
    ({**GOOD, "at_least": "3"}, "must be a number, not '3'", ""),
    ({**GOOD, "at_least": True}, "must be a number, not True", ""),
    ({**GOOD, "at_least": math.nan}, "must be a number, not nan", ""),
    ({**GOOD, "min_steps": 0}, "must be a whole number above 0", ""),
    ({**GOOD, "min_steps": 1.5}, "must be a whole number above 0", ""),
    ({**GOOD, "run": 3}, "must be a text", ""),
    ({**GOOD, "run": ""}, "must be a text", ""),
    ({**GOOD, "required": 1}, "must be true or false", ""),
    ({**GOOD, "aggregate": "sum"}, "accept_len has no aggregate 'sum'", "it has: pooled, mean"),
    ({**GOOD, "at_most": 2.0}, "no value can be within these bounds", ""),
    ({**GOOD, "below": 3.0}, "no value can be within these bounds", ""),
    ({**GOOD, "equals": 3.0}, "equals stands alone, without at_least", ""),
    ({**GOOD, "tolerance": 1}, "a tolerance belongs to equals", ""),
    ({"metric": "accept_len", "equals": 3.0}, "equals needs a tolerance", "tolerance = 0.05"),
    ({"metric": "accept_len", "equals": 3.0, "tolerance": -1}, "a number, 0 or more", ""),
    (3, "an assertion is a table", "[[assert]]"),
])  # fmt: skip
def test_a_mistake_in_an_assertion_is_named(written, what, help):
    with pytest.raises(SpecdiagError) as raised:
        assertions.parse([GOOD, written], "ci.toml")
    assert what in raised.value.what and help in raised.value.help
    assert raised.value.where == "ci.toml, [[assert]] number 2"


@pytest.mark.parametrize("name", sorted(fact.metrics()))
def test_every_metric_can_be_asserted(name):
    (made,) = assertions.parse([{"metric": name, "at_least": 1}], "")
    assert made.aggregate == fact.metrics()[name].aggregate


# The command


def configured(folder, text):
    path = folder / "ci.toml"
    path.write_text(text)
    return path


def held(**keys):
    return "[[assert]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


LOW = held(metric="accept_len", run="dflash-*", at_least=2.0)
HIGH = held(metric="accept_len", run="dflash-*", at_least=5.0)
NEAR = held(metric="accept_len", run="dflash-*", at_least=3.65)


@pytest.mark.parametrize(("text", "code", "said"), [
    (LOW, 0, "ok         dflash-linear: accept_len is 3.686 tokens"),
    (HIGH, 1, "failed     dflash-linear: accept_len is 3.686 tokens"),
    (NEAR, 0, "undecided  dflash-linear: accept_len is 3.686 tokens"),
    (NEAR + "required = true\n", 3, "undecided  dflash-linear: accept_len is 3.686 tokens"),
    (held(metric="accept_len", run="nobody", at_least=1), 2, "unmatched  accept_len at least 1: no run"),
    (held(metric="ttft_ms", at_most=1), 2, "unmatched  ttft_ms at most 1: none of the runs"),
    (HIGH + held(metric="accept_len", run="nobody", at_least=1), 2, "failed     dflash-linear"),
])  # fmt: skip
def test_check_exits_by_its_assertions(specdiag, tmp_path, text, code, said):
    path = configured(tmp_path, text)
    answer = specdiag("check", CASE, "--config", path, "--fail-on", "never")
    assert answer.code == code
    assert said in answer.out
    if code == 2:
        assert str(path) in answer.err and "[[assert]] number" in answer.err


@pytest.mark.parametrize("text", [LOW, HIGH, NEAR, held(metric="ttft_ms", at_most=1)])
def test_analyze_tells_the_assertions_and_does_not_fail(specdiag, tmp_path, text):
    answer = specdiag("analyze", CASE, "--config", configured(tmp_path, text), "--no-html")
    assert answer.code == 0 and "\nAssertions\n" in answer.out


def test_a_mistake_is_told_before_anything_is_read(specdiag, tmp_path):
    path = configured(tmp_path, held(metric="accept_len", at_leat=3))
    for command in ("check", "analyze"):
        answer = specdiag(command, CASE, "--config", path)
        assert answer.code == 2 and not answer.out
        assert "did you mean at_least?" in answer.err


def test_findings_count_beside_assertions(specdiag, tmp_path):
    assert specdiag("check", CASE, "--config", configured(tmp_path, LOW)).code == 1


def test_assertions_travel_in_json(specdiag, tmp_path):
    path = configured(tmp_path, LOW + HIGH)
    answer = specdiag("check", CASE, "--config", path, "--output", "json=-")
    first, second = json.loads(answer.out)["assertions"]
    assert (first["result"], second["result"]) == ("ok", "failed")
    assert first["run"] == "dflash-linear" and first["name"] == "accept_len at least 2"
    assert first["low"] < first["value"] < first["high"]
    assert (first["metric"], first["aggregate"], first["unit"]) == (
        "accept_len",
        "pooled",
        "tokens",
    )


def test_without_assertions_the_list_is_empty(specdiag):
    answer = specdiag("check", HEALTHY, "--output", "json=-")
    assert answer.code == 0
    assert json.loads(answer.out)["assertions"] == []
    assert "Assertions" not in specdiag("check", HEALTHY).out


def test_names_out_of_logs_cannot_move_the_terminal(specdiag, tmp_path):
    log = tmp_path / "evil\x1b[2J.jsonl"
    log.write_text('{"request": "a", "step": 1, "accepted_drafts": 1, "commit_len": 2}\n' * 3)
    path = configured(tmp_path, held(metric="accept_len", at_least=1))
    answer = specdiag("check", log, "--config", path, "--fail-on", "never")
    assert "evil" in answer.out and "\x1b" not in answer.out + answer.err
    assert "\x1b" not in specdiag("check", log, "--config", path, "--output", "json=-").out
