"""Lines that somebody shortened before pasting them: no date, no rank, no end."""

from __future__ import annotations

import re

import pytest
import writers
from compose import Server

from specdiag.report import html

SERVER = Server(version="0.5.14", traffic=((4, 80),), seed=9)
DATE = re.compile(r"\[20\d\d-\d\d-\d\d ")
BAD = ("critical", "high", "medium")


def log(wrap="{}", keep=""):
    return "".join(
        DATE.sub(keep or "[", wrap.format(line)) + "\n" for line in writers.lines(SERVER)
    )


@pytest.fixture
def told(tmp_path, diagnose, load):
    """What is known of a run that nothing is wrong with."""

    def told(text):
        path = tmp_path / "a.log"
        path.write_text(text, encoding="utf-8")
        assert not [one for one in diagnose(path).findings if one.severity in BAD]
        (row,) = load(path).rows(
            "SELECT accept_len, tokens_per_s, step_ms, started, ended FROM run"
        )
        return row

    return told


@pytest.mark.parametrize("wrap", ["{}", "sglang-1  | {}", "2026-03-14T10:21:07.482913Z {}"])
def test_a_clock_without_a_date_is_a_time(wrap, told):
    assert told(log(wrap)) == told(log(keep="[2000-01-01 "))


def test_a_date_that_is_not_known_is_not_told(tmp_path, diagnose, load):
    path = tmp_path / "a.log"
    path.write_text(log(), encoding="utf-8")
    found = diagnose(path)
    page = html.render(found, load(path))
    assert "2000-01-01" not in found.to_json() + page
    assert re.search(r">\d\d:\d\d:\d\d to \d\d:\d\d:\d\d<", page)


def test_among_lines_with_a_date_another_program_s_clock_is_no_time(tmp_path, diagnose):
    path = tmp_path / "a.log"
    lines = log(keep="[2026-03-14 ").splitlines()
    lines[3:3] = ["[09:59:19] /project/cpp/grammar.cc:12: Warning: no tokenizer"] * 9
    path.write_text("\n".join(lines), encoding="utf-8")
    assert diagnose(path).facts["a"]["started"].startswith("2026-03-14")


def test_a_clock_that_passes_midnight_is_none(tmp_path, diagnose):
    path = tmp_path / "a.log"
    lines = log().splitlines()
    lines[-1] = re.sub(r"^\[[0-9:]{8}", "[00:00:01", lines[-1])
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert "started" not in diagnose(path).facts["a"]


def cut(lines, end):
    """The decode lines without what stands behind their throughput."""
    pattern = re.compile(r"(gen throughput \(token/s\): [0-9.]+), #queue-req.*")
    return [pattern.sub(r"\1", line) if nth >= end else line for nth, line in enumerate(lines)]


def test_lines_that_all_lack_their_end_are_whole_and_one_of_them_is_torn(load, tmp_path):
    path = tmp_path / "a.log"
    lines = writers.lines(SERVER)
    rows = "SELECT count(*) AS rows, count(*) FILTER (complete) AS complete FROM decode"
    for end, torn in ((0, 0), (len(lines) - 1, 1)):
        last = max(nth for nth, line in enumerate(lines) if "Decode batch" in line)
        path.write_text("\n".join(cut(lines, min(end, last))), encoding="utf-8")
        (found,) = load(path).rows(rows)
        assert found["rows"] - found["complete"] == torn
