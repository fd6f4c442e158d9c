"""What was parsed is not parsed again, and whatever is wrong with what was kept, answers are right."""

from __future__ import annotations

import gzip
import threading
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from specdiag import cache, content, definition, diagnosis, lines, opening, parser, quoting, reading
from specdiag.cache import Cache
from specdiag.source import Source

ROOT = Path(__file__).parents[1]
LOG = (ROOT / "sample_logs" / "healthy-dflash.log").read_bytes()
TRACE = (ROOT / "sample_logs" / "healthy-complete-trace.jsonl").read_bytes()


class Rows:
    """A staging area that keeps everything."""

    def __init__(self) -> None:
        self.frames: list[tuple[str, pl.DataFrame]] = []

    def add(self, table: str, frame: pl.DataFrame) -> None:
        self.frames.append((table, frame))

    def tables(self) -> dict[str, list[dict]]:
        found: dict[str, list[dict]] = {}
        for table, frame in self.frames:
            rows = found.setdefault(table, [])
            rows += [
                {key: value for key, value in row.items() if value is not None}
                for row in frame.to_dicts()
            ]
        return {
            table: sorted(rows, key=lambda row: (row["line"], repr(row)))
            for table, rows in found.items()
        }


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(cache, "LEAST", 0)
    monkeypatch.setattr(content, "MOST_LINES", 20)
    monkeypatch.setattr(content, "MARK", 2000)


@pytest.fixture
def kept(tmp_path):
    return Cache(tmp_path / "kept")


@pytest.fixture
def parsed(monkeypatch):
    """The lines that were parsed, by every reading since."""
    seen: list[bytes] = []

    def noting(work):
        def noted(chosen, data, *more):
            seen.extend(data.splitlines())
            return work(chosen, data, *more)

        return noted

    monkeypatch.setattr(parser, "read", noting(parser.read))
    monkeypatch.setattr(lines, "begin", noting(lines.begin))
    return seen


@pytest.fixture
def read(definitions):
    def read(path, cache, parsers=definitions[0], **more):
        rows = Rows()
        file = Source(path.name, path, **more)
        with closing(opening.in_turn([file], parsers, 2, cache)) as turns:
            one = reading.read(rows, 3, next(turns), lambda done: None)
        return (
            rows.tables(), one.format, one.lines, one.understood, one.unread, one.strangers,
            one.arms, one.source.notices, one.source.document,
        )  # fmt: skip

    return read


FILES = {
    "a.log": LOG + b"what is this\n" * 3,
    "a.jsonl": TRACE,
    "a.json": b"[" + b",\n".join(TRACE.splitlines()) + b"]",
    "a.log.gz": gzip.compress(LOG),
    "wide.log": LOG.replace(b"\n", "\N{GREEK SMALL LETTER ALPHA}\n".encode(), 30),
}


@pytest.mark.parametrize("name", FILES)
def test_an_unchanged_file_is_not_parsed_again(name, tmp_path, kept, read, parsed):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    fresh = read(path, None)
    assert read(path, kept) == fresh
    parsed.clear()
    assert read(path, kept) == fresh and not parsed


def test_a_copy_under_another_name_is_not_parsed_again(tmp_path, kept, read, parsed):
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(LOG + b"what is this\n")
    read(tmp_path / "a.log", kept)
    parsed.clear()
    found = read(tmp_path / "b.log", kept)
    assert not parsed and found == read(tmp_path / "b.log", None)


@pytest.mark.parametrize("data", [LOG, TRACE], ids=["log", "trace"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.71, 0.99])
def test_a_grown_file_is_parsed_from_where_it_ended(
    share, data, tmp_path, kept, read, parsed, monkeypatch
):
    monkeypatch.setattr(cache, "HEAD", 1000)
    monkeypatch.setattr(
        content, "BLOCK", 2000
    )  # as large beside this file as it is beside a gigabyte
    path = tmp_path / "a"
    part = int(len(data) * share)
    path.write_bytes(data[:part])
    read(path, kept)
    parsed.clear()
    path.write_bytes(data)
    found = read(path, kept)
    assert len(parsed) < data.count(b"\n") * (1 - share) + 30
    assert found == read(path, None)
    parsed.clear()
    assert read(path, kept) == found and not parsed


@pytest.mark.parametrize("at", [0, 5_000, -20])
def test_a_file_of_the_same_size_with_one_other_byte_is_parsed_again(at, tmp_path, kept, read):
    path = tmp_path / "a.log"
    path.write_bytes(LOG)
    read(path, kept)
    changed = bytearray(LOG)
    changed[at] = ord("7") if changed[at] != ord("7") else ord("8")
    path.write_bytes(changed)
    assert read(path, kept) == read(path, None)


def test_a_file_that_was_cut_is_parsed_again(tmp_path, kept, read):
    path = tmp_path / "a.log"
    path.write_bytes(LOG)
    read(path, kept)
    path.write_bytes(LOG[: len(LOG) // 2])
    assert read(path, kept) == read(path, None)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "no meta"])
def test_a_damaged_entry_is_ignored_and_replaced(damage, tmp_path, kept, read, parsed):
    path = tmp_path / "a.log"
    path.write_bytes(LOG)
    fresh = read(path, kept)
    ((_, entry, size),) = kept.entries()
    data = bytearray(entry.read_bytes())
    if damage == "changed":
        data[size // 2] ^= 255
    elif damage == "no meta":
        data = data.replace(b"meta.json", b"Meta.json")
    entry.write_bytes({"cut": data[: size // 2], "empty": b""}.get(damage, data))
    assert read(path, kept) == fresh
    parsed.clear()
    assert read(path, kept) == fresh and not parsed


def test_a_changed_format_parses_again(tmp_path, kept, read, parsed, definitions):
    path, folder = tmp_path / "a.log", tmp_path / "mine"
    path.write_bytes(LOG)
    read(path, kept)
    folder.mkdir()
    server = ROOT / "parsers" / "sglang_server.toml"
    text = server.read_text(encoding="utf-8")
    (folder / server.name).write_text(text.replace('"SGLang', '"My SGLang', 1), encoding="utf-8")
    own = [one if one.name != "sglang_server" else definition.load(folder / server.name)
           for one in definitions[0]]  # fmt: skip
    parsed.clear()
    read(path, kept, own)
    assert parsed


def test_changed_code_parses_again(tmp_path, kept, read, parsed, monkeypatch):
    path = tmp_path / "a.log"
    path.write_bytes(LOG)
    read(path, kept)
    monkeypatch.setattr(cache, "__version__", "99")
    parsed.clear()
    read(path, kept)
    assert parsed


def test_what_a_pipe_said_is_not_kept(tmp_path, kept, read):
    path = tmp_path / "spooled"
    path.write_bytes(LOG)
    read(path, kept, temporary=True)
    assert not kept.folder.exists()


def test_the_latest_used_stay(tmp_path, read):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(LOG.replace(b"2026", f"20{ord(name):02}"[:4].encode(), 1))
    kept = Cache(tmp_path / "kept")
    read(tmp_path / "a", kept)
    ((_, _, size),) = kept.entries()
    kept = Cache(tmp_path / "kept", limit=size * 5 // 2)
    for name in ("b", "c"):
        read(tmp_path / name, kept)
    assert len(kept.entries()) == 2


def test_an_entry_that_would_be_too_large_is_not_kept(tmp_path, read):
    kept = Cache(tmp_path / "kept", limit=100)
    (tmp_path / "a.log").write_bytes(LOG)
    read(tmp_path / "a.log", kept)
    assert list(kept.folder.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_reading_that_is_interrupted_leaves_nothing(
    error, tmp_path, kept, read, monkeypatch
):  # fmt: skip
    (tmp_path / "a.log").write_bytes(LOG)

    def fail(self, table, frame):
        raise error

    monkeypatch.setattr(Rows, "add", fail)
    with pytest.raises(error):
        read(tmp_path / "a.log", kept)
    assert list(kept.folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, read):
    (tmp_path / "a.log").write_bytes(LOG)
    (tmp_path / "file").write_text("")
    assert read(tmp_path / "a.log", Cache(tmp_path / "file" / "kept")) == read(
        tmp_path / "a.log", None
    )


def test_many_at_once_read_the_same(tmp_path, kept, read):
    path = tmp_path / "a.log"
    path.write_bytes(LOG)
    fresh = read(path, None)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(read(path, kept) == fresh)) for _ in range(6)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [True] * 6 and len(kept.entries()) == 1
    assert [one.suffix for one in kept.folder.iterdir()] == [".zip"]


# The command -------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.log").write_bytes(LOG)
    return cache.folder()


def test_a_check_keeps_what_it_parsed_and_says_the_same_again(home, specdiag):
    first = specdiag("check", "a.log", "--output", "json=-")
    assert len(Cache(home).entries()) == 1
    assert specdiag("check", "a.log", "--output", "json=-") == first
    assert specdiag("check", "a.log", "--output", "json=-", "--no-cache") == first


def test_nothing_is_kept_where_nobody_wants_it(home, specdiag):
    specdiag("check", "a.log", "--no-cache")
    Path("specdiag.toml").write_text("cache = false\n", encoding="utf-8")
    specdiag("check", "a.log")
    assert not home.exists()


def test_the_cache_is_shown_and_cleared(home, specdiag):
    assert specdiag("cache").out == f"{home}: 0 files, 0.0 MB\n"
    specdiag("facts", "a.log")
    assert f"{home}: 1 file, " in specdiag("cache").out
    assert specdiag("cache", "--clear").out == f"1 file removed from {home}\n"
    assert specdiag("cache").out == f"{home}: 0 files, 0.0 MB\n"


def test_lines_of_a_file_that_was_not_parsed_again_are_sought(tmp_path, kept, read, monkeypatch):
    path = tmp_path / "a.log"
    path.write_bytes(LOG)
    read(path, kept)
    file = Source(path.name, path)
    parsers = diagnosis.definitions([], [])[0]
    for one in opening.in_turn([file], parsers, 2, kept):
        reading.read(Rows(), 0, one, lambda done: None)
    assert len(file.marks) > 1
    monkeypatch.setattr(content, "blocks", None)
    texts = LOG.decode().split("\n")
    assert quoting.quote(file, {3, 100}) == {3: texts[2], 100: texts[99]}
