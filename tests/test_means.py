"""Threads, memory, timings and progress change nothing of the answer; an interruption leaves nothing."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from specdiag import SpecdiagError, diagnose
from specdiag.progress import ERASE, Line
from specdiag.timings import Timings

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
FOLDER = SAMPLES / "founding-1-depth-against-commit"
HEALTHY = SAMPLES / "healthy-dflash.log"
ENDLESS = """-- title    = "It never ends"
-- severity = "low"
-- needs    = { decode = ["running"] }
-- why      = "It counts to a trillion."
-- fix      = ["Interrupt it."]
SELECT run, sum(a.range * b.range)::VARCHAR AS message
FROM run, range(1000000) a, range(1000000) b GROUP BY run
"""


# Threads and memory ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def usual() -> str:
    return diagnose(FOLDER).to_json()


@pytest.mark.parametrize(
    "means", [{"threads": 1}, {"threads": 2}, {"threads": 3, "memory": "200MB"}]
)
def test_the_result_depends_neither_on_threads_nor_on_memory(means, usual):
    assert diagnose(FOLDER, **means).to_json() == usual


def test_the_database_obeys():
    store = diagnose(HEALTHY, threads=1, memory="200 MB").store
    asked = "SELECT current_setting('threads'), current_setting('memory_limit')"
    assert store.execute(asked).fetchone() == (1, "190.7 MiB")


def test_polars_obeys():
    code = (
        "import sys; sys.argv[1:] = ['check', sys.argv[1], '--threads', '1']\n"
        "from specdiag import cli\n"
        "try: cli.main()\n"
        "finally: import polars; print(polars.thread_pool_size())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, HEALTHY], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "1"


def test_the_settings_file_is_obeyed_and_options_come_on_top(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("specdiag.toml").write_text('threads = 1\nmemory = "300MB"\n', encoding="utf-8")
    asked = "SELECT current_setting('threads'), current_setting('memory_limit')"
    assert diagnose(HEALTHY).store.execute(asked).fetchone() == (1, "286.1 MiB")
    assert diagnose(HEALTHY, threads=2).store.execute(asked).fetchone() == (2, "286.1 MiB")


@pytest.mark.parametrize(
    ("option", "value", "help"),
    [
        ("--threads", "0", "from 1 to 1024, as 2"), ("--threads", "9999", "from 1 to 1024, as 2"),
        ("--memory", "lots", "a number and a unit: 500MB, 1GB, 1.5GiB"),
        ("--memory", "1", "a number and a unit: 500MB, 1GB, 1.5GiB"),
        ("--memory", "-1GB", "a number and a unit: 500MB, 1GB, 1.5GiB"),
        ("--memory", "3kB", "at least 50MB"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_told_how_to_write(option, value, help, specdiag):
    answer = specdiag("check", HEALTHY, f"{option}={value}")
    assert answer.code == 2 and answer.err.endswith(f" --> {option}\nhelp: {help}\n")


@pytest.mark.parametrize("text", ["threads = 0", "threads = true", 'threads = "2"', "memory = 1",
                                  'memory = "much"', "cache = 1"])  # fmt: skip
def test_a_setting_that_cannot_be_is_named(text, tmp_path):
    path = tmp_path / "specdiag.toml"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(SpecdiagError, match=r"specdiag\.toml"):
        diagnose(HEALTHY, config=path)


# Timings -----------------------------------------------------------------------------------------


def test_timings_name_every_part_and_the_whole_on_standard_error(specdiag, tmp_path):
    page = tmp_path / "page.html"
    answer = specdiag("check", HEALTHY, "--timings", "--html", page)
    for part in (
        rf"reading {HEALTHY} \(sglang_server\): \d+ MB, [\d,]+ rows/s", r"derived tables \d\d_\w+\.sql",
        "replay", r"\d+ rules of at most 1 % each", "report terminal", "report html", "all else",
    ):  # fmt: skip
        assert re.search(rf"^{part} +\d+\.\d\d +\d+\.\d\d +\d+%$", answer.err, re.MULTILINE), part
    assert re.search(r"^whole +\d+\.\d\d +\d+\.\d\d +100%$", answer.err, re.MULTILINE)
    assert answer.out.replace(f"\nReport: {page}\n", "") == specdiag("check", HEALTHY).out


def test_timings_are_not_kept_where_nobody_wants_them():
    timings = Timings()
    with timings.part("rule", "a"):
        pass
    assert timings.parts == []


def test_a_part_that_fails_is_timed():
    timings = Timings(on=True)
    with pytest.raises(ValueError), timings.part("rule", "a"):
        raise ValueError
    assert [(one.kind, one.name) for one in timings.parts] == [("rule", "a")]


# Progress ----------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_says_what_how_fast_and_how_long_after_two_seconds():
    stream, clock = io.StringIO(), Clock()
    line = Line(stream, clock)
    line.tell("reading", "a\x1b[2J.log")
    clock.now = 1.9
    line.count(100_000_000, 500_000_000)
    line.draw()
    assert stream.getvalue() == ""
    clock.now = 2.0
    line.draw()
    told = r"reading a\x1b[2J.log: 100 of 500 MB, 50 MB/s, 8 s left"
    assert stream.getvalue() == ERASE + told
    line.tell("rule", "slow")
    line.draw()
    assert stream.getvalue() == ERASE + told + ERASE + "rule slow"


def test_progress_is_one_line_that_is_gone_at_the_end(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream, clock = io.StringIO(), Clock()
    line = Line(stream, clock)
    with line:
        line.tell("reading", "a-very-long-name-of-a-log.log")
        clock.now = 3.0
        line.draw()
    drawn = stream.getvalue().split(ERASE)
    assert drawn[-1] == "" and {len(one) for one in drawn[1:-1]} == {19}
    assert "\n" not in stream.getvalue()


def test_nothing_is_drawn_where_nobody_looks(specdiag):
    clock = Clock()
    line = Line(None, clock)
    clock.now = 10.0
    with line:
        line.tell("reading", "a.log")
        line.draw()
    assert line.drawer is None
    assert ERASE not in specdiag("check", HEALTHY).err


# Interruption ------------------------------------------------------------------------------------

# A process that says when it is where it shall be interrupted: with its first block parsed, or
# about to ask the rule that never ends.
READING = """
from specdiag import stretches
parsed = stretches.parsed
def told(*given):
    for one in parsed(*given):
        print("now", flush=True)
        yield one
stretches.parsed = told
"""
ASKING = """
from specdiag import rule
apply = rule.apply
def told(*given):
    print("now", flush=True)
    return apply(*given)
rule.apply = told
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "kill"])
@pytest.mark.parametrize("where", [READING, ASKING], ids=["reading", "asking"])
def test_an_interrupted_process_exits_with_130_and_leaves_no_file(where, how, tmp_path):
    rules, log = tmp_path / "rules", tmp_path / "a.log"
    rules.mkdir()
    (rules / "endless.sql").write_text(ENDLESS, encoding="utf-8")
    data = HEALTHY.read_bytes()
    log.write_bytes(data * (60_000_000 // len(data) if where == READING else 1))
    places = [tmp_path / name for name in ("work", "temporary", "cache")]
    for one in places:
        one.mkdir()
    code = where + "from specdiag import cli; cli.run()"
    with log.open("rb") as pipe, subprocess.Popen(
        [sys.executable, "-c", code, "analyze", "-", "--rules", str(rules), "--select", "endless",
         "--output", "duckdb=a.duckdb"],
        stdin=pipe, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=places[0],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(places[1]),
                          "XDG_CACHE_HOME": str(places[2])},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert [file for one in places for file in one.rglob("*")] == []
