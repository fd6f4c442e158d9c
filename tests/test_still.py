"""Pictures without a script: what they show is inside their frame, true to scale, and escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdiag.figure import Axis, Figure, Series
from specdiag.report.html import dress, pictures, svg
from specdiag.report.html.scale import scale

HOSTILE = '</svg><script>alert(1)</script> & "quoted" \u202e'
NUMBERS = st.floats(1e-6, 1e9)


def series(
    y: list[float], x: list[float] | None = None, run: str | None = "a", name: str = "", **more
) -> Series:
    rows = len(y)
    columns = {"low": [None] * rows, "high": [None] * rows, "label": [None] * rows, "flags": {}}
    given = {"part": "", "draw": "point", "rows": rows} | columns | more
    return Series(run=run, name=name, x=x if x is not None else list(range(rows)), y=y, **given)


def figure(*some: Series, x: str = "linear", y: str = "linear", stack: bool = False) -> Figure:
    return Figure("name", "Title", "How to read it.", Axis("x", x), {"": Axis("y", y)}, stack,
                  list(some), "SELECT 1")  # fmt: skip


def drawn(one: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(svg.draw(one, dress.dress(one, ["a", "b"])))


def points(picture: ElementTree.Element) -> list[tuple[float, float]]:
    """Where points are drawn, in pixels."""
    return [
        (float(x), float(y))
        for path in picture.iter("path") if path.get("class", "").startswith("point")
        for x, y in re.findall(r"M([\d.-]+) ([\d.-]+)h0", path.get("d", ""))
    ]  # fmt: skip


# Scales


@pytest.mark.parametrize("kind", ["linear", "log", "time"])
@given(values=st.lists(NUMBERS, min_size=1, max_size=30))
def test_every_value_is_inside_the_frame_and_larger_ones_lie_further(kind, values):
    made = scale(Axis("", kind), values, 60, 500)
    places = [made.place(value) for value in sorted(values)]
    assert all(59 <= place <= 501 for place in places)
    assert all(a <= b + 1e-6 for a, b in pairwise(places))


@pytest.mark.parametrize("kind", ["linear", "log", "time"])
@given(values=st.lists(NUMBERS, min_size=2, max_size=10))
def test_ticks_are_in_order_inside_the_frame_and_few(kind, values):
    ticks = scale(Axis("", kind), values, 60, 500).ticks
    assert len(ticks) <= 14
    assert all(a[0] < b[0] for a, b in pairwise(ticks))
    assert all(59 <= place <= 501 for place, _ in ticks)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(1000, 64_000, ["1k", "3k", "10k", "30k"]), (1, 10, ["1", "2", "5", "10"]),
     (1e-3, 1e3, ["0.001", "0.01", "0.1", "1", "10", "100", "1k"])],
)  # fmt: skip
def test_a_log_axis_names_round_numbers(low, high, words):
    assert [said for _, said in scale(Axis("", "log"), [low, high], 0, 100).ticks] == words


def test_a_narrow_log_axis_has_ticks_too():
    assert len(scale(Axis("", "log"), [17.0, 23.0], 0, 100).ticks) >= 3


def test_counts_have_no_ticks_between_them():
    ticks = scale(Axis("", "linear"), [0, 1, 2, 3], 0, 100).ticks
    assert [said for _, said in ticks] == ["0", "1", "2", "3"]


def test_times_are_told_in_the_clock_of_the_log():
    half_past_two = 1_750_861_800_000  # 2025-06-25 14:30:00
    said = [
        w for _, w in scale(Axis("", "time"), [half_past_two, half_past_two + 600e3], 0, 1).ticks
    ]
    assert said[0] == "14:30" and said[-1] == "14:40"


# Pictures


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_points_are_inside_the_picture(values):
    picture = drawn(figure(series(values)))
    _, _, width, height = map(float, picture.get("viewBox", "").split())
    found = points(picture)
    assert len(found) == len(values)
    assert all(0 <= x <= width and 0 <= y <= height for x, y in found)


def test_small_differences_of_positive_values_do_not_look_like_a_cliff():
    (_, high), (_, low) = points(drawn(figure(series([3.5, 3.4]))))
    assert abs(high - low) < 0.05 * svg.HEIGHT


@pytest.mark.parametrize("kind", ["point", "line", "bar"])
def test_a_point_that_a_finding_is_about_is_marked(kind):
    plain = drawn(figure(series([1, 2, 3], draw=kind)))
    flagged = drawn(figure(series([1, 2, 3], draw=kind, flags={1: ["finding"]})))
    marks = [path for path in flagged.iter("path") if path.get("class") == "flag"]
    assert len(marks) == 1
    assert not [path for path in plain.iter("path") if path.get("class") == "flag"]


def test_stacked_bars_stand_on_each_other():
    one = figure(series([1, 1], name="u", draw="bar"), series([2, 2], name="v", draw="bar"),
                 stack=True)  # fmt: skip
    below, above = [p for p in drawn(one).iter("path") if p.get("class", "").startswith("bar")]
    top = re.search(r"V([\d.]+)h", below.get("d", ""))
    foot = re.search(r"M[\d.]+ ([\d.]+)V", above.get("d", ""))
    assert top and foot and top[1] == foot[1]


def test_text_of_logs_stays_text_in_pictures():
    some = series([1, 2], name=HOSTILE, run=HOSTILE, label=[HOSTILE] * 2, draw="mark")
    level = series([1.5], x=[None], name=HOSTILE, label=[HOSTILE], draw="level")
    one = figure(series([1.0, 2.0], run=HOSTILE, name=HOSTILE), some, level)
    picture = svg.draw(one, dress.dress(one, [HOSTILE]))
    assert not [tag for tag in ElementTree.fromstring(picture).iter() if "script" in tag.tag]
    assert "\u202e" not in picture


def test_lines_do_not_cross_time_in_which_nothing_was_measured():
    idle = series([None], x=[2.5], high=[7.5], draw="shade", name="idle")
    (dressed, _) = dress.dress(figure(series([1] * 4, x=[1, 2, 8, 9], draw="line"), idle), ["a"])
    assert dressed.breaks == {2}


def test_a_shade_that_lines_end_in_does_not_break_them():
    idle = series([None], x=[2.5], high=[7.5], draw="shade", name="idle")
    (dressed, _) = dress.dress(figure(series([1] * 3, x=[1, 5, 9], draw="line"), idle), ["a"])
    assert not dressed.breaks


# Colours


def test_a_run_keeps_its_colour_in_all_pictures():
    runs = ["a", "b", "c"]
    both = dress.dress(figure(series([1], run="b"), series([1], run="c")), runs)
    other = dress.dress(figure(series([1], run="a"), series([1], run="c")), runs)
    assert both[1].slot == other[1].slot


def test_colours_tell_runs_apart_and_the_rest_waits_in_the_legend():
    many = [f"run {n}" for n in range(20)]
    dressed = dress.dress(figure(*(series([1], run=run) for run in many)), many)
    shown = [one for one in dressed if not one.hidden]
    assert len(shown) == dress.SLOTS == len({one.slot for one in shown})


def test_of_a_single_run_colours_tell_what_is_drawn():
    dressed = dress.dress(figure(series([1], name="u"), series([1], name="v")), ["a"])
    assert dressed[0].slot != dressed[1].slot


def test_a_law_has_the_colour_of_no_run():
    dressed = dress.dress(figure(series([1]), series([1, 2], run=None, name="C = A + 1")), ["a"])
    assert dressed[1].slot == dress.NEUTRAL


# The table


def test_a_short_series_is_told_row_by_row():
    one = figure(series([1.5, 2.5]))
    assert pictures.rows(one, dress.dress(one, ["a"])) == [
        ["a", "0", "1.50", ""], ["a", "1", "2.50", ""],
    ]  # fmt: skip


@given(number=st.integers(25, 5000))
def test_a_long_series_is_told_in_stretches_that_leave_nothing_out(number):
    one = figure(series([float(n) for n in range(number)]))
    told = pictures.rows(one, dress.dress(one, ["a"]))
    assert len(told) <= pictures.ROWS
    assert sum(int(row[3].split()[-1].replace(",", "")) for row in told) == number
    lowest, highest = told[0][2], told[-1][2]
    assert "(0 to" in lowest and f"to {number - 1:,})" in highest


def test_tables_of_many_series_stay_small():
    many = [series([1.0] * 100, run=f"run {n}") for n in range(200)]
    one = figure(*many)
    assert len(pictures.rows(one, dress.dress(one, []))) <= 2 * pictures.TABLE
