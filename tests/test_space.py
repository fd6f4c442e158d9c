"""Logs that do not fit into memory: the same answers, and nothing left of them on the disk."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from specdiag import (
    SpecdiagError,
    bundled,
    diagnosis,
    halves,
    source,
    space,
    spill,
    staging,
    steptable,
    store,
)
from specdiag.means import Means
from specdiag.report import json as document

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
LOGS = (
    "dp_imbalance.log", "hung-vllm.log", "founding-1-depth-against-commit",
    "healthy-complete-trace.jsonl", "server_died.log",
)  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill._home.cache_clear()
    yield tmp_path
    spill._home.cache_clear()


def files(place):
    return [path for path in place.rglob("*") if path.is_file() and path.name != spill.LOCK]


@pytest.fixture
def on_disk(monkeypatch):
    """As if every sample were too large for memory."""
    many_from(5, monkeypatch)


def many_from(rows, monkeypatch):
    monkeypatch.setattr(staging, "WAITING_ROWS", rows)
    monkeypatch.setattr(steptable, "ROWS", rows)


def load(name, parsers, **settings):
    return store.load(source.find([str(SAMPLES / name)]), parsers, **settings)


def rounded(value):
    """Sums of the same numbers in another order differ in their last digits."""
    match value:
        case float():
            return float(f"{value:.9g}")
        case dict():
            return {key: rounded(one) for key, one in value.items()}
        case list() | tuple():
            return [rounded(one) for one in value]
    return value


def answer(name, definitions, **settings):
    """The JSON document of a sample, read with other memory or threads."""
    parsers, rules = definitions
    means = Means(**settings)
    found, filled = diagnosis.analyze(
        source.find([str(SAMPLES / name)]), parsers, rules, {}, means=means
    )
    assert found.broken == []
    disk = filled.db.execute("SELECT current_database()").fetchall() == [(space.NAME,)]
    return rounded(document.document(found)), disk


@pytest.fixture(scope="module")
def definitions():
    parsers, rules, _ = diagnosis.definitions([], [])
    return parsers, rules


@pytest.mark.parametrize("name", LOGS)
def test_answers_depend_neither_on_memory_nor_on_threads(name, definitions, monkeypatch):
    plain, in_memory = answer(name, definitions)
    many_from(5, monkeypatch)
    alone, on_disk = answer(name, definitions, memory="100MB", threads=1)
    beside, beside_on_disk = answer(name, definitions, threads=2)
    assert (in_memory, on_disk, beside_on_disk) == (False, True, True)
    assert alone == beside == plain


def test_the_bounds_that_were_asked_for_hold_to_the_end(definitions):
    filled = load("healthy-complete-trace.jsonl", definitions[0], threads=1, memory="100MB")
    assert filled.rows(
        "SELECT current_setting('threads') AS threads, current_setting('memory_limit') AS memory"
    ) == [{"threads": 1, "memory": "95.3 MiB"}]


@pytest.mark.parametrize("name", LOGS)
def test_tables_on_disk_hold_the_same_rows(name, definitions, on_disk, place, monkeypatch):
    large = load(name, definitions[0])
    many_from(10**9, monkeypatch)
    small = load(name, definitions[0])
    for table in ("config", "event", "decode", "prefill", "acceptance", "step", "problem"):
        rows = f"SELECT * FROM {table} ORDER BY ALL"
        assert rounded(large.rows(rows)) == rounded(small.rows(rows)), table


@pytest.mark.parametrize("few", [2, 5])
@pytest.mark.parametrize("name", LOGS[:3])
def test_halves_hold_the_same_reports(name, few, definitions, on_disk, place, monkeypatch):
    whole = load(name, definitions[0])
    monkeypatch.setattr(halves, "FEW", few)
    monkeypatch.setattr(halves, "_side_by_side", sides := Mock(wraps=halves._side_by_side))
    halved = load(name, definitions[0])
    assert sides.called
    rows = "SELECT * FROM decode ORDER BY ALL"
    assert halved.rows(rows) == whole.rows(rows)


@pytest.mark.parametrize("few", [100, 10**9])
def test_reports_lie_in_the_order_of_their_lines_whatever_stands_between(
    few, definitions, on_disk, place, tmp_path, monkeypatch
):
    monkeypatch.setattr(halves, "FEW", few)
    log = tmp_path / "busy.log"
    report = (
        "[2026-05-20 10:11:{:02}] Decode batch, #running-req: 3, #token: {}, token usage: 0.54, "
        "accept len: 4.29, gen throughput (token/s): 376.46, #queue-req: 0"
    )
    prompt = (
        "[2026-05-20 10:11:{:02}] Prefill batch, #new-seq: 1, #new-token: {}, #cached-token: 0, "
        "token usage: 0.54, #running-req: 3, #queue-req: 0"
    )
    lines = [one.format(n // 60 % 60, 900 + n) for n in range(3000) for one in (report, prompt)]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    filled = store.load(source.find([str(log)]), definitions[0])
    placed = [row["line"] for row in filled.rows("SELECT line FROM decode")]
    assert placed == list(range(1, 6000, 2))


def test_a_few_steps_with_huge_trees_do_not_wait_in_memory(definitions, place, monkeypatch):
    waiting = load("healthy-complete-trace.jsonl", definitions[0])
    monkeypatch.setattr(steptable, "BYTES", 1)
    stored = load("healthy-complete-trace.jsonl", definitions[0])
    databases = [one.rows("SELECT current_database() AS name") for one in (waiting, stored)]
    assert databases == [[{"name": "memory"}], [{"name": space.NAME}]]
    assert waiting.rows("FROM step ORDER BY ALL") == stored.rows("FROM step ORDER BY ALL")


def test_a_median_of_very_many_rows_is_that_of_some_of_them():
    db = store.open_empty()
    db.execute(
        """INSERT INTO decode (run, source, line, tokens_per_s)
           SELECT 'long', 0, range, 100 + range % 200 FROM range(2_500_000)
           UNION ALL SELECT 'short', 0, 5_000_000 + range, range FROM range(9)"""
    )
    (drawing,) = (
        one
        for one in duckdb.extract_statements((bundled.DERIVE / "08_samples.sql").read_text())
        if "INSERT INTO share" in one.query
    )
    db.execute(drawing)
    medians = """SELECT run, count(*) FILTER (drawn('decode', line, every)) AS rows,
                     median(tokens_per_s) FILTER (drawn('decode', line, every)) AS middle
                 FROM decode JOIN share USING (run) GROUP BY run ORDER BY run"""
    (long, rows, middle), short = db.execute(medians).fetchall()
    assert (long, round(rows / 2_500_000, 2)) == ("long", 0.5)
    assert middle == pytest.approx(199.5, abs=0.6)
    assert short == ("short", 9, 4)


def test_what_is_saved_from_disk_is_a_result_like_any_other(specdiag, on_disk, place, monkeypatch):
    monkeypatch.chdir(place)
    log = str(SAMPLES / "dp_imbalance.log")
    specdiag("analyze", log, "--no-html", "--output", "duckdb=large.duckdb")
    monkeypatch.setattr(staging, "WAITING_ROWS", 10**9)
    specdiag("analyze", log, "--no-html", "--output", "duckdb=small.duckdb")
    saved = []
    for name in ("large", "small"):
        with duckdb.connect(f"{name}.duckdb", read_only=True) as db:
            tables = db.execute("SHOW TABLES").fetchall()
            rows = db.execute("SELECT * FROM decode ORDER BY ALL").fetchall()
            types = db.execute("SELECT column_type FROM (DESCRIBE decode)").fetchall()
            saved.append((tables, types, rows))
    assert saved[0] == saved[1]
    assert {path.name for path in place.glob("*.*")} == {"large.duckdb", "small.duckdb"}


def test_a_locked_store_takes_large_tables(definitions, on_disk, place):
    filled = load("dp_imbalance.log", definitions[0], memory="50MB")
    for table in ("TABLE", "TEMP TABLE"):
        filled.db.execute(f"CREATE {table} large AS SELECT hash(range) AS n FROM range(5_000_000)")
        assert filled.rows("SELECT count(n) AS n FROM large") == [{"n": 5_000_000}]
        filled.db.execute("DROP TABLE large")


def test_nothing_is_left_in_the_temporary_folder(definitions, on_disk, place):
    filled = load("healthy-dflash.log", definitions[0], memory="50MB")
    filled.db.execute("CREATE TEMP TABLE large AS SELECT hash(range) AS n FROM range(10_000_000)")
    assert files(place), "the table is larger than memory may be"
    filled.db.close()
    del filled
    gc.collect()
    assert files(place) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SpecdiagError("a", "b", "c")])
def test_nothing_is_left_after_an_error_or_an_interruption(error, definitions, on_disk, place):
    def stop(done):
        raise error

    with pytest.raises((KeyboardInterrupt, SpecdiagError)):
        load("healthy-dflash.log", definitions[0], progress=stop)
    gc.collect()
    assert files(place) == []


def test_a_size_that_is_none_is_refused(definitions):
    with pytest.raises(SpecdiagError, match="is no size"):
        load("healthy-dflash.log", definitions[0], memory="much")


def refused(db, times):
    """Work that finds too little memory so often; it tells how much it had."""
    had = []

    def work():
        had.append(db.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])
        if len(had) <= times:
            raise duckdb.OutOfMemoryException("too little")
        return had

    return work


def test_what_finds_too_little_memory_begins_again_with_more():
    with space.connect() as db:
        assert space.patiently(db, refused(db, 1)) == ["91.5 MiB", "244.1 MiB"]
    with space.connect() as db:
        space.have_read(db)
        assert space.patiently(db, refused(db, 2))[:2] == ["244.1 MiB", "953.6 MiB"]
        with pytest.raises(duckdb.OutOfMemoryException):
            space.patiently(db, refused(db, 1))


def test_nothing_takes_more_memory_than_the_user_allows():
    with space.connect("100MB") as db, pytest.raises(duckdb.OutOfMemoryException):
        space.patiently(db, refused(db, 1))


@pytest.mark.skipif(sys.platform == "win32", reason="files cannot be locked and removed there")
def test_what_a_killed_process_left_behind_is_removed_and_nothing_else(place):
    for name in ("killed", "alive", "somebody's"):
        (place / f"specdiag-{name}").mkdir()
        (place / f"specdiag-{name}" / "tables.duckdb").touch()
    (place / "specdiag-killed" / spill.LOCK).touch()
    held = spill._hold(place / "specdiag-alive")
    own = Path(spill.place()).parent
    os.close(held)
    left = {path.name for path in place.iterdir()}
    assert left == {own.name, "specdiag-alive", "specdiag-somebody's"}
