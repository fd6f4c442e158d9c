"""Logs that print no year may go on over its end."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from specdiag import diagnose, diagnosis
from specdiag.years import Years

SAMPLES = Path(__file__).parents[1] / "sample_logs"
TIME = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")
FORM = "%Y-%m-%d %H:%M:%S"


def moved(text, middle):
    """The log, with its middle at another time."""
    times = [datetime.strptime(f"2000-{one}", FORM) for one in TIME.findall(text)]
    by = middle - times[len(times) // 2]
    return TIME.sub(
        lambda one: (datetime.strptime(f"2000-{one[0]}", FORM) + by).strftime(FORM)[5:], text
    )


def told(path):
    """Findings, without the time of day in their words, and how long the run took."""
    found = diagnose(path)
    words = {(one.rule.name, re.sub(r"\d\d:\d\d:\d\d", "", one.message)) for one in found.findings}
    (run,) = found.runs
    start, end = (datetime.fromisoformat(run.facts[name]) for name in ("started", "ended"))
    return words, end - start


@pytest.mark.parametrize("name", ["hung-vllm.log", "batch_outside_graphs-vllm.log"])
def test_a_log_over_new_year_says_what_it_says_in_summer(name, tmp_path):
    text = (SAMPLES / name).read_text("utf-8")
    for title, middle in (("summer", datetime(2000, 7, 1)), ("winter", datetime(2001, 1, 1))):
        (tmp_path / f"{title}.log").write_text(moved(text, middle), "utf-8")
    summer, winter = (told(tmp_path / f"{title}.log") for title in ("summer", "winter"))
    assert summer == winter and summer[0]


@pytest.mark.parametrize("name", ["hung-vllm.log", "batch_outside_graphs-vllm.log"])
def test_a_log_that_was_rotated_over_new_year_is_one_run(name, tmp_path):
    text = moved((SAMPLES / name).read_text("utf-8"), datetime(2001, 1, 1))
    lines = text.splitlines(keepends=True)
    cuts = [0, len(lines) // 3, 2 * len(lines) // 3, len(lines)]
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, (start, end) in zip("210", pairwise(cuts), strict=True):
        path = folder / f"server.log.{part}".removesuffix(".0")
        path.write_text("".join(lines[start:end]), "utf-8")
    (tmp_path / "whole.log").write_text(text, "utf-8")
    assert told(folder) == told(tmp_path / "whole.log")


@pytest.fixture
def years():
    parsers = {one.name: one for one in diagnosis.definitions([], [])[0]}
    return lambda name: Years(parsers[name])


def rows(*times):
    """A block of lines at these times."""
    return pl.DataFrame(
        {"line": range(1, len(times) + 1), "time": [datetime.fromisoformat(one) for one in times]},
        schema_overrides={"time": pl.Datetime("us")},
    )


def test_a_line_that_lags_behind_stays_in_the_old_year(years):
    one = years("vllm_server")
    block = rows("2000-12-31T23:59:59", "2000-01-01T00:00:00", "2000-12-31T23:59:59")
    one.look([block])
    assert one.placed(block)["time"].dt.year().to_list() == [2000, 2001, 2000]


def test_the_year_turns_between_blocks(years):
    one = years("vllm_server")
    one.look([rows("2000-12-31T23:59:59")])
    later = rows("2000-01-01T00:00:00").with_columns(line=pl.lit(2))
    one.look([later])
    assert one.placed(later)["time"].dt.year().to_list() == [2001]


def test_the_year_turns_between_files(years):
    one = years("vllm_server")
    one.look([rows("2000-12-31T23:59:59")])
    following = one.go_on()
    later = rows("2000-01-01T00:00:00")
    following.look([later])
    assert following.placed(later)["time"].dt.year().to_list() == [2001]
    last = following.go_on()
    last.look([later])
    assert last.placed(later)["time"].dt.year().to_list() == [2001]


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("vllm_server", ("2000-01-01T00:00:00", "2000-12-31T23:59:59")),
        ("vllm_server", ("2000-11-30T23:59:59", "2000-01-01T00:00:00")),
        ("sglang_server", ("2025-12-31T23:59:59", "2026-01-01T00:00:00")),
    ],
)
def test_no_other_time_is_changed(name, times, years):
    one = years(name)
    block = rows(*times)
    one.look([block])
    assert one.placed(block).equals(block)
