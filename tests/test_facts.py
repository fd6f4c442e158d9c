"""Facts: their definitions, their values against hand-computed ones, and what an interval promises."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import statistics
from pathlib import Path

import pytest

from specdiag import bundled, fact, rule
from specdiag import store as stores
from specdiag.estimate import Estimate, places, quantile
from specdiag.fact import AGGREGATES, Fact
from specdiag.store import Store

ROOT = Path(__file__).parents[1]
# Together they have every metric: a server, clients, and a trace with all stages.
SAMPLES = ("founding-1-depth-against-commit", "healthy-clients", "healthy-complete-trace.jsonl")
NAMES = sorted(fact.metrics())
TRIALS = 1000


@pytest.fixture(scope="module")
def samples(load):
    return load(*(ROOT / "sample_logs" / name for name in SAMPLES))


@pytest.fixture(scope="module")
def sampled(samples):
    return {one.metric for one in fact.facts(samples)}


@pytest.fixture
def store():
    """Empty tables, to be filled row by row."""
    db = stores.open_empty()
    db.execute(rule.MACROS)
    return Store(db, [], [])


def put(store, table, rows):
    """Rows as dicts with the same keys; a run of that name, source and line are added."""
    rows = [{"run": "a", "source": 0, "line": n, **row} for n, row in enumerate(rows, start=1)]
    names = list(rows[0])
    store.db.executemany(
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
        [[row[name] for name in names] for row in rows],
    )
    for run in sorted({row["run"] for row in rows}):
        if not store.rows("SELECT 1 FROM run WHERE run = ?", [run]):
            store.db.execute("INSERT INTO run (run, draft_tokens) VALUES (?, 5)", [run])


def measured(store, metric, aggregate=None) -> Fact:
    one = fact.metrics()[metric]
    (found,) = fact.measure(store, one, aggregate or one.aggregate)
    return found


# Definitions


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_says_what_it_is(name):
    one = fact.metrics()[name]
    assert one.title and one.tells.endswith(".")
    assert one.better in ("higher", "lower")
    assert one.kinds and len(set(one.kinds)) == len(one.kinds)
    assert set(one.aggregates) <= set(AGGREGATES)


@pytest.mark.parametrize(
    ("end", "unit"),
    [("_ms", "ms"), ("_per_s", "tokens/s"), ("_rate", "share"), ("_share", "share")],
)
def test_the_name_tells_the_unit(end, unit):
    found = [one for one in fact.metrics().values() if one.name.endswith(end)]
    assert found
    assert {one.unit for one in found} == {unit}


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_metric_are_of_the_kinds_that_it_names(name, samples):
    fact.collect(samples.db, fact.metrics()[name])
    kinds = {row["kind"] for row in samples.rows("SELECT DISTINCT kind FROM fact_sample")}
    assert kinds <= set(fact.metrics()[name].kinds)
    stats = {row["stat"] for row in samples.rows("SELECT DISTINCT stat FROM fact_sample")}
    assert stats - {None} <= set(AGGREGATES)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_log_gives_every_metric(name, sampled):
    assert name in sampled


@pytest.mark.parametrize("path", sorted(bundled.FACTS.glob("*.sql")), ids=lambda path: path.stem)
def test_a_run_without_data_has_no_fact(path, store):
    store.db.execute("INSERT INTO run (run) VALUES ('a')")
    assert fact.measure(store, fact.metrics()[path.stem], "sum") == []


# Values


def steps(*accepted, request="r", **more):
    return [
        {"request": request, "accepted_drafts": a, "nodes": 4, "ctx_len": 10, **more}
        for a in accepted
    ]


def test_each_step_counts_once(store):
    put(store, "step", [*steps(1, 2, 3), *steps(0, request="s")])
    assert measured(store, "accept_len").value == pytest.approx((2 + 3 + 4 + 1) / 4)
    assert measured(store, "accept_len", "mean").value == pytest.approx((3 + 1) / 2)
    assert measured(store, "accepted_drafts").value == pytest.approx(6 / 4)
    assert measured(store, "accept_rate").value == pytest.approx(6 / 16)
    assert measured(store, "accept_len").steps == 4


def test_warm_up_steps_do_not_count(store):
    put(store, "step", [*steps(3, 3, warmup=True), *steps(1, warmup=False)])
    assert measured(store, "accept_len").value == 2
    assert measured(store, "requests").value == 1


def test_steps_at_the_depth_limit_are_counted(store):
    rows = [dict(one, spine_tokens=[1, 2, 3]) for one in steps(3, 3, 1, 0)]
    put(store, "step", rows)
    assert measured(store, "depth_limit_share").value == 0.5


def test_longer_requests_weigh_more(store):
    put(store, "request", [
        {"completion_tokens": 101, "verify_steps": 50, "correct_drafts": 50, "proposed_drafts": 150,
         "e2e_s": 3.0, "ttft_s": 1.0, "prompt_tokens": 10, "cached_tokens": 5, "commit_len": 2.0},
        {"completion_tokens": 41, "verify_steps": 10, "correct_drafts": 30, "proposed_drafts": 30,
         "e2e_s": 1.5, "ttft_s": 0.5, "prompt_tokens": 30, "cached_tokens": 0, "commit_len": 4.0},
    ])  # fmt: skip
    assert measured(store, "accepted_drafts").value == pytest.approx(80 / 60)
    assert measured(store, "accept_rate").value == pytest.approx(80 / 180)
    assert measured(store, "ttft_ms", "mean").value == 750
    assert measured(store, "tpot_ms", "pooled").value == pytest.approx(3000 / 140)
    assert measured(store, "request_tokens_per_s", "max").value == 50
    assert measured(store, "e2e_ms").value == 2250
    assert measured(store, "output_tokens").value == 142
    assert measured(store, "cache_hit_rate").value == pytest.approx(5 / 40)


def test_the_accept_rate_of_decode_lines_does_not_depend_on_what_a_release_prints(store):
    put(store, "other_commit", [{"kind": "decode", "steps": 40, "commit_len": 3.0}])
    assert measured(store, "accept_rate").value == 0.5  # 2 of 4 drafts


def test_replicas_add_up(store):
    put(store, "decode", [
        {"rank": rank, "tokens_per_s": 100.0, "running": 2, "commit_len": 0.5, "usable": True}
        for rank in ("DP0 TP0", "DP1 TP0") * 3
    ])  # fmt: skip
    assert measured(store, "tokens_per_s").value == 200
    assert measured(store, "request_tokens_per_s").value == 50


def test_pooled_throughput_is_all_tokens_over_all_time(store):
    put(store, "decode", [
        {"tokens_per_s": 100.0, "running": 1, "commit_len": 3.0, "usable": True},
        {"tokens_per_s": 400.0, "running": 1, "commit_len": 4.0, "usable": True},
        {"tokens_per_s": 9000.0, "running": 1, "commit_len": 810.0, "usable": False},
    ])  # fmt: skip
    assert measured(store, "tokens_per_s", "pooled").value == pytest.approx((3000 + 4000) / 40)


def test_a_fault_that_kills_is_an_error_and_what_follows_from_it_is_none(store):
    put(store, "problem", [
        {"fatal": True, "follows": False}, {"fatal": True, "follows": True}, {"fatal": False, "follows": False},
    ])  # fmt: skip
    store.db.execute("INSERT INTO run (run, server) VALUES ('b', true)")
    found = fact.measure(store, fact.metrics()["errors"], "sum")
    assert [(one.run, one.value) for one in found] == [("a", 1), ("b", 0)]


def test_the_most_direct_source_counts_alone(store):
    put(store, "step", steps(1, 1))
    put(store, "other_commit", [{"kind": "decode", "steps": 40, "commit_len": 9.0}])
    found = measured(store, "accept_len")
    assert (found.value, found.kind) == (2, "step")


def test_what_a_client_gives_as_median_is_no_mean(store):
    put(store, "benchmark", [
        {"median_ttft_ms": 40.0, "mean_e2e_ms": 7.0}, {"median_ttft_ms": 50.0, "mean_e2e_ms": 8.0},
    ])  # fmt: skip
    found = measured(store, "ttft_ms")
    assert (found.value, found.interval, found.by) == (50, None, "row")  # the last of them
    assert fact.measure(store, fact.metrics()["ttft_ms"], "mean") == []
    (told,) = [one for one in fact.facts(store) if one.metric == "e2e_ms"]
    assert (told.aggregate, told.value) == ("mean", 8)


@pytest.mark.parametrize(("aggregate", "value"), [("min", 1), ("max", 9), ("last", 2), ("sum", 17)])
def test_what_is_counted_is_exact(store, aggregate, value):
    put(store, "decode", [{"queued": n, "complete": True} for n in (1, 5, 9, 2)])
    found = measured(store, "queued", aggregate)
    assert (found.value, found.exact, found.interval) == (value, True, None)


def test_values_that_are_none_are_left_out(store):
    put(store, "decode", [{"usage": v, "complete": True} for v in (0.5, math.inf, math.nan, None)])
    assert measured(store, "usage").value == 0.5


# Intervals


def test_few_requests_have_no_interval(store):
    put(store, "step", [one for n in range(4) for one in steps(1, 2, 3, request=f"r{n}")])
    assert measured(store, "accept_len").interval is None


def test_the_interval_is_that_of_requests_not_of_steps(store):
    lengths = [0, 4, 1, 3, 2, 4, 0, 1]
    put(
        store,
        "step",
        [one for n, a in enumerate(lengths) for one in steps(*[a] * 50, request=f"r{n}")],
    )
    found = measured(store, "accept_len")
    reach = quantile(7) * statistics.stdev(lengths) / math.sqrt(8)
    mean = statistics.mean(lengths) + 1
    assert found.interval == pytest.approx((mean - reach, mean + reach))
    assert (found.units, found.by) == (8, "request")


def test_rows_without_requests_are_cut_into_stretches(store):
    put(store, "other_commit", [
        {"kind": "decode", "steps": 40, "commit_len": 2.0 + (n // 20) % 2} for n in range(400)
    ])  # fmt: skip
    found = measured(store, "accept_len")
    assert (found.units, found.by, found.rows) == (20, "stretch", 400)
    reach = quantile(19) * statistics.stdev([2.0, 3.0] * 10) / math.sqrt(20)
    assert found.interval == pytest.approx((2.5 - reach, 2.5 + reach))


def test_a_quantile_that_no_row_lies_beyond_has_no_interval():
    assert places(0.99, Estimate(0.99, 0.0099, 100), 100) is None
    assert places(0.5, Estimate(0.5, None, 3), 3) is None
    low, high = places(0.5, Estimate(0.5, 0.05, 100), 100)
    assert low == pytest.approx(1 - high) and 0.39 < low < 0.41


SHAPES = {
    # How long a request is, and the accepted drafts of a step; the truth by the definition.
    "even": (lambda r: 20, lambda r, level: int(r.random() < level), 0.2, 0.8),
    "uneven": (lambda r: r.choice((5, 20, 60)), lambda r, level: int(r.random() < level), 0.3, 0.7),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_of_a_pooled_mean_hold_the_truth_as_often_as_they_say(store, shape):
    length, draft, low, high = SHAPES[shape]
    draw = random.Random(f"pooled {shape}")
    rows = []
    for trial in range(TRIALS):
        for request in range(30):
            level = draw.uniform(low, high)  # requests differ
            count = length(draw)
            hits = sum(draft(draw, level) for _ in range(count))
            rows.append((f"{trial:04}", f"{request}", hits, count))
    fill(store, rows)
    found = fact.measure(store, fact.metrics()["accepted_drafts"], "pooled")
    assert len(found) == TRIALS
    assert 930 <= sum(one.interval[0] <= 0.5 <= one.interval[1] for one in found) <= 970


def fill(store, rows):
    """Rows (run, request, hits, steps): so many steps, the first `hits` of them with A = 1."""
    columns = list(zip(*rows, strict=True))
    store.db.execute(
        """INSERT INTO step (run, request, accepted_drafts, source, line)
        SELECT run, request, (nth <= hits)::INTEGER, 0, row_number() OVER ()
        FROM (SELECT *, unnest(range(1, count + 1)) AS nth FROM (
            SELECT unnest(?::VARCHAR[]) AS run, unnest(?::VARCHAR[]) AS request,
                unnest(?::INTEGER[]) AS hits, unnest(?::INTEGER[]) AS count))""",
        [list(column) for column in columns],
    )


@pytest.mark.parametrize(("aggregate", "truth"), [
    ("median", math.log(2)), ("p90", math.log(10)), ("mean", 1.0),
])  # fmt: skip
def test_intervals_over_requests_hold_the_truth_as_often_as_they_say(store, aggregate, truth):
    draw = random.Random(f"requests {aggregate}")
    rows = [
        (f"{trial:04}", draw.expovariate(1) / 1000) for trial in range(TRIALS) for _ in range(200)
    ]
    store.db.execute(
        """INSERT INTO request (run, ttft_s, source, line)
        SELECT unnest(?::VARCHAR[]), unnest(?::DOUBLE[]), 0, unnest(range(?))""",
        [[run for run, _ in rows], [value for _, value in rows], len(rows)],
    )
    found = fact.measure(store, fact.metrics()["ttft_ms"], aggregate)
    assert 930 <= sum(one.interval[0] <= truth <= one.interval[1] for one in found) <= 970


def test_a_median_over_alike_steps_of_a_request_is_not_too_sure_of_itself(store):
    """Steps of a request share its level: a thousand steps of ten requests are ten samples."""
    draw = random.Random("clusters")
    rows = []
    for trial in range(TRIALS):
        for request in range(12):
            level = draw.gauss(20, 2)
            rows += [(f"{trial:04}", f"{request}", level + draw.gauss(0, 0.5)) for _ in range(10)]
    lines = list(range(len(rows)))
    runs, requests, times = (list(column) for column in zip(*rows, strict=True))
    store.db.execute("INSERT INTO run (run) SELECT DISTINCT unnest(?::VARCHAR[])", [runs])
    store.db.execute(
        """INSERT INTO step (run, request, source, line)
        SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), 0, unnest(?::BIGINT[])""",
        [runs, requests, lines],
    )
    store.db.execute(
        """INSERT INTO other_time (run, kind, stage, ms, source, line)
        SELECT unnest(?::VARCHAR[]), 'step', 'step', unnest(?::DOUBLE[]), 0, unnest(?::BIGINT[])""",
        [runs, times, lines],
    )
    found = fact.measure(store, fact.metrics()["step_ms"], "median")
    held = [one.interval[0] <= 20 <= one.interval[1] for one in found if one.interval]
    assert len(held) > 0.95 * TRIALS
    assert sum(held) >= 0.93 * len(held)


# The command


def test_facts_are_listed_with_unit_interval_and_source(specdiag):
    answer = specdiag("facts", ROOT / "sample_logs" / "founding-1-depth-against-commit")
    assert answer.code == 0
    (line,) = [
        one for one in answer.out.splitlines()
        if one.startswith("ddtree-b7-k1") and " accept_len " in one
    ]  # fmt: skip
    assert "2.00 tokens" in line and "1.97 to 2.02" in line
    assert "pooled  decode" in line and line.endswith("6 stretches")


def test_without_a_path_the_metrics_are_listed(specdiag):
    answer = specdiag("facts")
    assert answer.code == 0
    for one in fact.metrics().values():
        assert f"{one.name}  [{one.unit}, {one.better} is better]" in answer.out


def test_facts_as_json_and_csv_say_the_same(specdiag):
    path = ROOT / "sample_logs" / "founding-1-depth-against-commit"
    records = json.loads(specdiag("facts", path, "--format", "json").out)
    rows = list(csv.DictReader(io.StringIO(specdiag("facts", path, "--format", "csv").out)))
    assert records and len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert row == {key: "" if v is None else str(v) for key, v in record.items()}


def test_metrics_as_json_have_their_definition(specdiag):
    records = json.loads(specdiag("facts", "--format", "json").out)
    assert [one["metric"] for one in records] == NAMES
    assert all(one["definition"] and one["aggregate"] in one["aggregates"] for one in records)


def test_facts_of_some_runs_alone(specdiag):
    path = ROOT / "sample_logs" / "founding-1-depth-against-commit"
    records = json.loads(specdiag("facts", path, "--run", "dflash*", "--format", "json").out)
    assert {one["run"] for one in records} == {"dflash-linear"}


@pytest.mark.parametrize(("arguments", "said"), [
    (["--format", "xml"], "one of table, json, csv"),
    (["--run", "nobody"], "no run is called nobody"),
])  # fmt: skip
def test_a_mistake_is_told(specdiag, arguments, said):
    path = ROOT / "sample_logs" / "founding-1-depth-against-commit"
    answer = specdiag("facts", path, *arguments)
    assert answer.code == 2 and said in answer.err


def test_the_same_input_gives_the_same_facts(specdiag):
    path = ROOT / "sample_logs" / "healthy-complete-trace.jsonl"
    assert specdiag("facts", path).out == specdiag("facts", path).out


def test_names_out_of_logs_cannot_move_the_terminal(specdiag, tmp_path):
    path = tmp_path / "evil\x1b[2J.jsonl"
    path.write_text('{"request": "a", "step": 1, "accepted_drafts": 1, "commit_len": 2}\n' * 3)
    for format in ("table", "json", "csv"):
        answer = specdiag("facts", path, "--format", format)
        assert answer.code == 0 and "\x1b" not in answer.out
