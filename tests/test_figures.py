"""Pictures: what the files of figures/ show of logs, and how rows become series."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path

import correct
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import series as thinning
from specdiag.figure import FEW, PANELS, RUNS, Axis, Sketch, draw, draw_all, prepare, sketches
from specdiag.store import Store, open_empty

SAMPLES = Path(__file__).parents[1] / "sample_logs"
SCALES = {"linear", "log", "time", "category"}
CITED = """finding VARCHAR, rule VARCHAR, title VARCHAR, severity VARCHAR, run VARCHAR,
    source BIGINT, line BIGINT"""


def runs(store):
    return [run for (run,) in store.db.execute("SELECT run FROM run ORDER BY run").fetchall()]


def drawn(store, cited=()):
    """Pictures by name."""
    return {one.name: one for one in draw_all(store, cited, runs(store))}


def proofs(found, store):
    """Rows for table cited of the findings of a diagnosis."""
    numbers = dict(store.db.execute("SELECT path, source FROM source").fetchall())
    return [
        {"finding": one.id, "rule": one.rule.name, "title": one.rule.title,
         "severity": one.severity, "run": one.run, "source": numbers[proof.path], "line": proof.line}
        for one in found.findings for proof in one.evidence
    ]  # fmt: skip


def series(picture, name="", run=None, part=None):
    (found,) = [
        one for one in picture.series
        if one.name == name and run in (None, one.run) and part in (None, one.part)
    ]  # fmt: skip
    return found


@pytest.fixture(scope="module")
def everything(load):
    """All sample logs in one store."""
    store = load(SAMPLES)
    prepare(store, [])
    return store


# The files


@pytest.mark.parametrize("sketch", sketches(), ids=lambda one: one.name)
def test_a_sample_log_draws_every_picture(everything, sketch):
    everything.db.execute("CREATE OR REPLACE TEMP TABLE shown AS SELECT run FROM run")
    found = everything.db.execute(
        f"SELECT DISTINCT run FROM ({sketch.sql}) ORDER BY run"
    ).fetchall()
    pictures = draw(everything.db, sketch, [run for (run,) in found if run])
    assert pictures and all(one.series and one.parts for one in pictures)


@pytest.mark.parametrize("sketch", sketches(), ids=lambda one: one.name)
def test_headers_say_what_a_picture_shows_and_how_to_read_it(sketch):
    assert sketch.title and sketch.tells.endswith(".") and len(sketch.tells) < 400
    axes = [sketch.x, *sketch.parts.values()]
    assert all(axis.title and axis.scale in SCALES for axis in axes)
    assert sketch.draw in thinning.KINDS


def test_pictures_have_places_of_their_own_on_the_page():
    places = [one.place for one in sketches()]
    assert places == sorted(set(places))


@pytest.mark.parametrize("sketch", sketches(), ids=lambda one: one.name)
def test_nothing_is_drawn_of_nothing(sketch):
    store = Store(open_empty(), [], [])
    prepare(store, [])
    assert draw(store.db, sketch, []) == []


def test_the_same_input_gives_the_same_pictures(load):
    paths = [SAMPLES / name for name in ("founding-2-long-context.log", "tree_buys_nothing",
                                         "dp_imbalance.log", "healthy-complete-trace.jsonl")]  # fmt: skip
    first, second = load(*paths), load(*paths)
    once = draw_all(first, [], runs(first))
    assert once and once == draw_all(first, [], runs(first)) == draw_all(second, [], runs(second))


# From rows to series


def sketched(rows, cited=(), order=("a", "b"), **header):
    """Pictures of rows as they are: dicts of columns."""
    db = open_empty()
    db.execute(f"CREATE TEMP TABLE cited ({CITED})")
    for run, source, line, finding in cited:
        db.execute(
            "INSERT INTO cited VALUES (?, '', '', 'high', ?, ?, ?)", [finding, run, source, line]
        )
    columns = list(dict.fromkeys(name for row in rows for name in row))
    types = {"run": "VARCHAR", "x": header.pop("x_type", "DOUBLE"), "y": "DOUBLE", "low": "DOUBLE",
             "high": "DOUBLE", "source": "BIGINT", "line": "BIGINT"}  # fmt: skip
    told = ", ".join(f"{name} {types.get(name, 'VARCHAR')}" for name in columns)
    db.execute(f"CREATE TABLE rows ({told})")
    for start in range(0, len(rows), 500):
        some = rows[start : start + 500]
        place = f"({', '.join('?' * len(columns))})"
        db.execute(
            f"INSERT INTO rows VALUES {', '.join([place] * len(some))}",
            [row.get(name) for row in some for name in columns],
        )
    header = {"x": Axis("x"), "parts": {"": Axis("y")}} | header
    sketch = Sketch("test", "FROM rows", "Test", "Test.", 1, **header)
    return draw(db, sketch, list(order))


values = st.floats(-1e6, 1e6, allow_nan=False)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(values, values), min_size=1, max_size=700), st.data(),
    st.sampled_from(["point", "line"]),
)  # fmt: skip
def test_thinning_keeps_ends_peaks_and_proofs(pairs, data, kind):
    rows = [{"run": "a", "x": x, "y": y, "source": 0, "line": n} for n, (x, y) in enumerate(pairs)]
    proof = data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=5))
    cited = [("a", 0, line, f"finding {line}") for line in sorted(proof)]
    most = 100
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thinning, "MOST", most)
        (picture,) = sketched(rows, cited, draw=kind)
    (one,) = picture.series
    assert one.rows == len(rows)
    assert len(one.x) <= min(len(rows), most + len(proof))
    assert len(one.x) == len(rows) or len(rows) > most
    assert picture.thinned == (len(one.x) < len(rows))

    def short(value):
        return thinning._short(float(f"{value:.12g}"))

    assert {short(min(y for _, y in pairs)), short(max(y for _, y in pairs))} <= set(one.y)
    assert {short(min(x for x, _ in pairs)), short(max(x for x, _ in pairs))} <= set(one.x)
    assert one.x == sorted(one.x)
    flagged = {(one.x[n], one.y[n], name) for n, names in one.flags.items() for name in names}
    assert flagged == {(short(pairs[n][0]), short(pairs[n][1]), f"finding {n}") for n in proof}


@pytest.mark.parametrize("kind", ["point", "line"])
def test_the_order_in_which_threads_are_done_changes_nothing(kind):
    sums = [0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1]
    assert sums[0] != sums[1]
    drawn = []
    for turn in range(2):
        rows = [
            {"run": "a", "x": max(n % 600, 100), "y": n % 7 + sums[(n + turn) % 2]}
            for n in range(4_200)
        ]
        random.Random(turn).shuffle(rows)
        drawn.append(sketched(rows, draw=kind))
    assert drawn[0][0].thinned and drawn[0] == drawn[1]


def test_a_cloud_stays_a_cloud():
    rows = [{"run": "a", "x": n % 997, "y": n * 7919 % 1000, "line": n} for n in range(20_000)]
    (picture,) = sketched(rows)
    (one,) = picture.series
    inside = [y for y in one.y if 100 < y < 900]
    assert len(one.y) <= thinning.MOST
    assert len(inside) > 0.3 * len(one.y)


def test_many_series_share_the_points_of_a_picture():
    rows = [
        {"run": f"r{run}", "x": x, "y": x % 13, "series": f"s{name}", "draw": "line"}
        for run in range(20) for name in range(8) for x in range(200)
    ]  # fmt: skip
    (picture,) = sketched(rows, order=[f"r{run}" for run in range(20)])
    assert sum(len(one.x) for one in picture.series) <= thinning.PICTURE
    assert all(len(one.x) >= thinning.FEWEST // 2 for one in picture.series)


def test_what_is_left_out_is_told():
    order = [f"r{n:02}" for n in range(30)]
    (picture,) = sketched([{"run": run, "x": 1, "y": 1} for run in order], order=order)
    assert {one.run for one in picture.series} == set(order[:FEW])
    assert picture.left_out == order[FEW:]
    (picture,) = sketched([{"run": run, "x": 1, "y": 1} for run in order], order=order[:RUNS])
    assert {one.run for one in picture.series} == set(order[:RUNS])
    panels = sketched([{"run": run, "panel": run, "x": 1, "y": 1} for run in order], order=order)
    assert [one.title for one in panels] == [f"Test: {run}" for run in order[:PANELS]]
    assert panels[0].left_out == order[PANELS:] and not panels[1].left_out


def test_a_log_axis_gets_no_zero():
    rows = [{"run": "a", "x": x, "y": y} for x in (-1, 0, 1, 10) for y in (-2, 0, 3)]
    (picture,) = sketched(rows, x=Axis("x", "log"), parts={"": Axis("y", "log")})
    (one,) = picture.series
    assert one.x == [1, 10] and one.y == [3, 3]


def test_what_is_no_number_is_not_drawn():
    odd = [math.nan, math.inf, -math.inf, None]
    rows = [{"run": "a", "x": 1, "y": y} for y in [*odd, 2]] + [
        {"run": "a", "x": x, "y": 2} for x in odd
    ]
    (picture,) = sketched(rows)
    assert [(one.x, one.y) for one in picture.series] == [([1], [2])]


def test_marks_alone_are_no_picture():
    marks = [{"run": "a", "draw": "mark", "x": 1, "label": "ready"},
             {"run": "a", "draw": "shade", "x": 1, "high": 2},
             {"run": "a", "draw": "level", "y": 2}]  # fmt: skip
    assert sketched(marks) == []
    (picture,) = sketched([*marks, {"run": "a", "x": 1, "y": 1}])
    assert {one.draw for one in picture.series} == {"mark", "shade", "level", "point"}


def test_text_of_logs_passes_through_untouched():
    hostile = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m'\"; DROP TABLE run; --"
    rows = [{"run": hostile, "x": 1, "y": 1, "series": hostile, "panel": hostile, "label": hostile}]
    (picture,) = sketched(rows, order=[hostile])
    (one,) = picture.series
    assert (one.run, one.name, one.label) == (hostile, hostile, [hostile])
    assert picture.title == f"Test: {hostile}"


def test_a_line_that_two_findings_cite_is_one_point():
    rows = [{"run": "a", "x": 1, "y": 1, "source": 0, "line": 7}, {"run": "a", "x": 2, "y": 1}]
    (picture,) = sketched(rows, [("a", 0, 7, "one"), ("b", 0, 7, "two"), ("b", 0, 7, "two")])
    (one,) = picture.series
    assert (
        one.x == [1, 2] and one.flags == {0: ["one", "two"]} and picture.findings == ["one", "two"]
    )


def test_categories_stay_in_the_order_of_the_query():
    rows = [
        {"run": "a", "x": x, "y": n, "draw": "bar"}
        for n, x in enumerate(["8 to 9", "10 to 99", "1"])
    ]
    (picture,) = sketched(rows, x=Axis("x", "category"), x_type="VARCHAR", ordered=True)
    assert picture.series[0].x == ["8 to 9", "10 to 99", "1"]


# What the pictures show


def test_every_identity_of_a_trace_is_on_the_line(load, tmp_path):
    records = correct.trace(1, budget=8, top_k=4, length=120)
    path = tmp_path / "steps.jsonl"
    path.write_text(correct.lines(records))
    pictures = drawn(load(path))
    lengths = [len(one["accepted"]) for one in records if one["record"] == "step"]
    depth = series(pictures["depth_against_commit"], "on the line")
    assert all(c == a + 1 for a, c in zip(depth.x, depth.y, strict=True))
    shares = series(pictures["commit_histogram"])
    counted = Counter(lengths)
    assert dict(zip(shares.x, shares.y, strict=True)) == {
        length: pytest.approx(100 * n / len(lengths), rel=1e-4) for length, n in counted.items()
    }
    reached = series(pictures["acceptance_by_position"])
    assert reached.x == list(range(1, max(lengths)))  # also where no step accepts exactly so many
    assert reached.y == pytest.approx(
        [100 * sum(c > k for c in lengths) / len(lengths) for k in map(int, reached.x)], rel=1e-4
    )


def test_contradictions_stand_off_the_line_and_are_flagged(analyze):
    found, store = analyze(SAMPLES / "founding-1-depth-against-commit")
    pictures = drawn(store, proofs(found, store))
    odd = series(pictures["depth_against_commit"], "off the line")
    assert set(odd.x) == {7.0} and all(1.9 < y < 2.1 for y in odd.y)
    assert any(
        name.startswith("depth_contradicts_commit")
        for names in odd.flags.values()
        for name in names
    )


@pytest.mark.parametrize(
    "path", sorted(SAMPLES.glob("healthy*trace*.jsonl")), ids=lambda path: path.name
)
def test_a_last_step_that_is_cut_short_stands_nowhere(load, path):
    picture = drawn(load(path))["depth_against_commit"]
    assert {one.name for one in picture.series} == {"on the line", "C = A + 1"}


def test_the_exponent_is_that_of_the_rule(analyze):
    found, store = analyze(SAMPLES / "step_time_superlinear.jsonl")
    (hit,) = [one for one in found.findings if one.rule.name == "step_time_superlinear"]
    picture = drawn(store)["step_time_by_context"]
    told = "fit: a + b·n^{exponent:.2f} ({exponent_low:.2f} to {exponent_high:.2f})"
    fit = series(picture, told.format(**hit.values))
    medians = series(picture, "median")
    assert fit.y[0] == pytest.approx(medians.y[0], rel=0.1)
    assert fit.y[-1] == pytest.approx(medians.y[-1], rel=0.1)


def test_time_runs_through_all_lives_of_a_server(load):
    store = load(SAMPLES / "dp_imbalance.log")
    picture = drawn(store)["timeline-dp_imbalance.log"]
    speeds = [one for one in picture.series if one.part == "speed"]
    assert len(speeds) == 4 and all("DP" in one.name for one in speeds)  # a line a rank
    assert picture.x.scale == "time" and list(picture.parts) == [
        "speed",
        "accept",
        "requests",
        "cache",
    ]


def test_a_second_start_is_marked_in_the_picture_of_the_first(load, tmp_path):
    text = (SAMPLES / "healthy-dflash.log").read_text()
    later = text.replace("2026-", "2027-").replace("2025-", "2026-")
    path = tmp_path / "server.log"
    path.write_text(text + later)
    store = load(path)
    assert len(runs(store)) == 2
    pictures = [one for name, one in drawn(store).items() if name.startswith("timeline")]
    assert len(pictures) == 1
    assert series(pictures[0], "starts").label == ["server#2"]
    assert {one.run for one in pictures[0].series} == {"server", "server#2"}


def test_findings_and_events_are_marked_at_their_time(analyze):
    found, store = analyze(SAMPLES / "server_died.log")
    picture = drawn(store, proofs(found, store))["timeline-server_died.log"]
    assert "ready" in series(picture, "events").label
    found = series(picture, "findings")
    assert found.flags and found.label[0]
    assert found.x[0] > series(picture, "start-up").high[0]


def test_a_long_log_is_told_in_stretches_that_keep_its_peaks(load, tmp_path):
    lines = (SAMPLES / "healthy-dflash.log").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if "Decode batch" in line)
    stamp = lines[first][1:20]
    made = lines[:first]
    for n in range(3000):
        clock = f"{stamp[:11]}{9 + n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}"
        made.append(
            f"[{clock} TP0] Decode batch. #running-req: 4, #token: 4000, token usage: 0.10, "
            "accept len: 3.00, cuda graph: True, gen throughput (token/s): "
            f"{9000 if n == 1777 else 500}.00, #queue-req: 0"
        )
    path = tmp_path / "long.log"
    path.write_text("\n".join(made))
    speed = series(drawn(load(path))["timeline-long.log"], part="speed")
    assert len(speed.x) < 1500 and max(speed.high) == 9000 and min(speed.low) == 500


def test_break_even_is_drawn_where_a_plain_run_is_known(load):
    picture = drawn(load(SAMPLES / "slower_than_baseline"))["commit_len_by_context"]
    needed = series(picture, "break-even with baseline")
    assert needed.run == "speculative" and all(y > 2.5 for y in needed.y)
    assert max(series(picture, "mean").y) < min(needed.y)


def test_smaller_budgets_commit_no_more(load):
    picture = drawn(load(SAMPLES / "healthy-tree-trace.jsonl"))["budget"]
    lengths = series(picture, part="accept")
    assert lengths.y == sorted(lengths.y) and lengths.x == list(range(1, len(lengths.x) + 1))


def test_only_runs_that_stand_beside_each_other_are_compared(everything):
    (sketch,) = [one for one in sketches() if one.name == "comparison"]
    pairs = everything.db.execute("SELECT run, against FROM pairing ORDER BY ALL").fetchall()
    beside = list(dict.fromkeys(run for pair in pairs for run in pair))
    seen = 0
    for first in range(0, len(beside), RUNS):  # of more runs a picture keeps only a few
        shown = beside[first : first + RUNS]
        pictures = draw(everything.db, sketch, shown)
        for one in (one for picture in pictures for one in picture.series):
            assert one.run in shown and one.x == sorted(one.x) and (one.y[0], one.y[-1]) == (0, 100)
            seen += 1
    assert seen


def test_pictures_are_data_that_json_can_hold(load):
    for one in drawn(load(SAMPLES / "tree_buys_nothing")).values():
        for each in one.series:
            columns = [each.x, each.y, each.low, each.high, each.label]
            assert json.loads(json.dumps(columns, allow_nan=False)) == columns
