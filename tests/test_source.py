"""How files are found and read: each once, every line with its own number, whatever they hold."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdiag import content, quoting, source, unpack
from specdiag.errors import NOTHING_READ, WRONG_USE, Notice, SpecdiagError
from specdiag.source import Source

QUICK = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
zstd = zstandard.ZstdCompressor(write_checksum=True).compress  # as the zstd command does
PACKERS = [gzip.compress, zstd, bz2.compress, lzma.compress]
LINES = st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b"")), max_size=12)


def names(*paths: object) -> list[str]:
    return [Path(one.name).name for one in source.find([str(path) for path in paths])]


def numbered(file: Source, **options: object) -> dict[int, bytes]:
    """Every line that the blocks hold, by its number."""
    found: dict[int, bytes] = {}
    for block in content.blocks(file, **options):  # type: ignore[arg-type]
        lines = block.data.split(b"\n")
        found.update({block.line + n: line for n, line in enumerate(lines) if line})
    return found


@pytest.fixture
def fail_to_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(unpack, "open", refuse, raising=False)
    yield


# Finding


def test_the_same_file_given_twice_or_through_a_link_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("x\n")
    (tmp_path / "latest.log").symlink_to(log)
    assert names(log, log, tmp_path / "." / "a.log", tmp_path) == ["a.log"]


def test_a_folder_is_read_in_a_stable_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.log", "a.log", ".hidden", "deep/c.log", ".git/d.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert names(tmp_path) == ["a.log", "b.log", "c.log"]


def test_a_quoted_glob_finds_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "b.txt").write_text("x\n")
    assert names(tmp_path / "*.log") == ["a.log"]


def test_a_file_whose_name_looks_like_a_glob_is_found(tmp_path: Path) -> None:
    (tmp_path / "run[1].log").write_text("x\n")
    assert names(tmp_path / "run[1].log") == ["run[1].log"]


@pytest.mark.parametrize("name", ["gone.log", "*.none", "a.log/below", "n" * 300])
def test_a_path_that_does_not_exist_is_the_users_mistake(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.log").write_text("x\n")
    with pytest.raises(SpecdiagError) as error:
        source.find([str(tmp_path / name)])
    assert error.value.exit_code == WRONG_USE
    assert error.value.where.endswith(name)


def test_an_empty_folder_says_that_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(SpecdiagError, match="no file to read") as error:
        source.find([str(tmp_path)])
    assert error.value.exit_code == NOTHING_READ


def test_what_cannot_be_read_in_a_folder_is_named_and_does_not_hang(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.log").write_text("x\n")
    (folder / "gone").symlink_to("nowhere")
    (folder / "self").symlink_to("self")
    (folder / "up").symlink_to("..")  # read already, or above us: nothing to say
    (folder / "zero").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe")
    (tmp_path / "elsewhere").mkdir()
    (folder / "away").symlink_to(tmp_path / "elsewhere")
    said = {}
    for file in source.find([str(folder)]):
        assert content.head(file) == (b"x\n" if file.path.name == "a.log" else b"")
        list(content.blocks(file))
        said[file.path.name] = [notice.what for notice in file.notices]
    assert said.pop("a.log") == []
    assert said == {
        "away": ["not read: a link to a folder is not followed"],
        "gone": ["not read: no such file or directory"],
        "pipe": ["not read: this is a pipe, a socket or a device, not a file"],
        "self": ["not read: too many levels of symbolic links"],
        "zero": ["not read: this is a pipe, a socket or a device, not a file"],
    }


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_a_dangling_or_circular_link_on_the_command_line_is_named(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "link").symlink_to(target)
    (file,) = source.find([str(tmp_path / "link")])
    assert list(content.blocks(file)) == []
    assert file.notices[0].where == str(tmp_path / "link")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything; see the test below")
def test_a_closed_folder_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    try:
        (file,) = source.find([str(tmp_path)])
        assert list(content.blocks(file)) == []
        assert file.notices[0].what == "not read: permission denied"
    finally:
        closed.chmod(0o700)


def test_a_closed_folder_is_named_for_root_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (tmp_path / "a.log").write_text("x\n")
    scandir = os.scandir

    def refuse(path: object) -> object:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(closed))
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refuse)
    files = {file.path.name: file for file in source.find([str(tmp_path)])}
    assert list(content.blocks(files["closed"])) == []
    assert files["closed"].notices[0].what == "not read: permission denied"


def test_standard_input_is_read_once_and_removed_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\ntwo\n")))
    (file,) = found = source.find(["-", "-"])
    assert file.name == "<stdin>"
    assert numbered(file) == {1: b"one", 2: b"two"}
    assert quoting.quote(file, {2}) == {2: "two"}
    source.discard(found)
    assert not file.path.exists()


def test_closed_standard_input_is_three_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SpecdiagError, match="standard input is closed"):
        source.find(["-"])


def test_what_standard_input_said_is_removed_when_another_path_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\n")))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SpecdiagError):
        source.find(["-", str(tmp_path / "gone.log")])
    assert list(tmp_path.iterdir()) == []


def test_a_named_pipe_on_the_command_line_is_read_like_a_file(tmp_path: Path) -> None:
    """`specdiag analyze <(ssh server cat log)`: it can be read once only, and is quoted later."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=[b"one\ntwo\n"])
    writer.start()
    (file,) = found = source.find([str(pipe)])
    writer.join()
    assert file.name == str(pipe)
    assert content.head(file) == b"one\ntwo\n"
    assert numbered(file) == {1: b"one", 2: b"two"}
    source.discard(found)
    assert pipe.exists() and not file.path.exists()


def test_a_name_that_is_not_utf8_is_printed_as_bytes(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.log")
    Path(path).write_text("x\n")
    (file,) = source.find([path])
    assert file.name.endswith("/caf\\xe9.log")
    assert numbered(file) == {1: b"x"}


# Lines and their numbers


@QUICK
@given(lines=LINES, size=st.integers(1, 40), boundary=st.sampled_from([b"", b"[20", b"\0"]))
def test_any_bytes_in_blocks_of_any_size_are_the_same_lines(
    tmp_path: Path, lines: list[bytes], size: int, boundary: bytes
) -> None:
    data = b"\n".join(lines)
    path = tmp_path / "x"
    path.write_bytes(data)
    if data[:2] in content.UTF16 or data[:2] == unpack.GZIP or data[:4] == unpack.ZSTD:
        return  # not those bytes, but what they stand for
    file = Source("x", path)
    assert b"".join(block.data for block in content.blocks(file, boundary, size)) == data
    assert numbered(file, boundary=boundary, size=size) == {
        n: line for n, line in enumerate(lines, start=1) if line
    }
    assert file.notices == []


@QUICK
@given(lines=LINES, size=st.integers(1, 40), longest=st.integers(1, 8))
def test_lines_that_are_too_long_are_named_and_all_others_keep_their_numbers(
    tmp_path: Path, lines: list[bytes], size: int, longest: int
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b" " + b"\n".join(lines))
    lines = [b" " + lines[0], *lines[1:]] if lines else [b" "]
    file = Source("x", path)
    assert numbered(file, size=size, longest=longest) == {
        n: line for n, line in enumerate(lines, start=1) if line and len(line) <= longest
    }
    assert [notice.where for notice in file.notices] == [
        f"x:{n}" for n, line in enumerate(lines, start=1) if len(line) > longest
    ]


def test_a_block_ends_before_a_record_so_that_its_lines_stay_together(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"[2026] a\n more\n[2026] b\n more\n[2026] c\n")
    blocks = list(content.blocks(Source("x", path), b"[20", 26))
    assert blocks[0].data == b"[2026] a\n more\n"
    assert [block.line for block in blocks][:2] == [1, 3]


def test_very_many_lines_come_in_smaller_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row costs memory however short it is: gigabytes of empty lines must not."""
    monkeypatch.setattr(content, "MOST_LINES", 10)
    path = tmp_path / "x"
    path.write_bytes(b"\n" * 100 + b"end\n")
    blocks = list(content.blocks(Source("x", path)))
    assert max(block.data.count(b"\n") for block in blocks) <= 11
    assert numbered(Source("x", path)) == {101: b"end"}


@pytest.mark.parametrize("pack", PACKERS)
def test_lines_are_quoted_from_packed_files_also_after_a_giant_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object
) -> None:
    monkeypatch.setattr(content, "LONGEST_RECORD", 1000)
    path = tmp_path / "x"
    path.write_bytes(pack(b"one\n" + b"y" * 5000 + b"\nthree\r\nfo\0ur"))  # type: ignore[operator]
    assert quoting.quote(Source("x", path), {1, 2, 3, 4, 99}) == {1: "one", 3: "three", 4: "four"}


def test_a_giant_line_is_skipped_in_bounded_memory_and_the_format_is_seen_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    with path.open("wb") as stream:
        stream.truncate(200 << 20)  # zero bytes that take no room on disk
        stream.seek(0, os.SEEK_END)
        stream.write(b"\nafter\n")
    file = Source("x", path)
    sizes = [len(block.data) for block in content.blocks(file)]
    assert sum(sizes) == len(b"after\n")
    assert file.notices == [
        Notice("a line of more than 8 MB is skipped", "x:1", "the lines around it are read")
    ]
    assert content.head(file) == b"after\n"


# Packed files


def noise(lines: int = 4000) -> bytes:
    """Text that does not shrink to nothing."""
    return b"".join(b"%d %x\n" % (n, hash((n, "x")) & 0xFFFFFFFF) for n in range(lines))


@pytest.mark.parametrize("pack", PACKERS)
def test_a_packed_file_that_was_cut_gives_what_it_had(tmp_path: Path, pack: object) -> None:
    data = noise()
    packed = pack(data)  # type: ignore[operator]
    path = tmp_path / "x"
    path.write_bytes(packed[: len(packed) * 9 // 10])
    file = Source("x", path)
    text = b"".join(block.data for block in content.blocks(file))
    assert data.startswith(text)
    assert file.notices[0].what.startswith("reading stopped: compressed file ended before")
    assert file.notices[0].where == "x"
    assert file.notices[0].help


def test_a_zstd_file_cut_in_a_later_block_gives_the_blocks_before(tmp_path: Path) -> None:
    data = noise(60_000)
    packed = zstd(data)
    path = tmp_path / "x"
    path.write_bytes(packed[: len(packed) // 2])
    file = Source("x", path)
    assert len(b"".join(block.data for block in content.blocks(file))) > 100_000
    assert len(file.notices) == 1


@pytest.mark.parametrize("pack", PACKERS)
def test_a_corrupt_packed_file_is_named(tmp_path: Path, pack: object) -> None:
    packed = bytearray(pack(noise()))  # type: ignore[operator]
    middle = len(packed) // 2
    packed[middle : middle + 40] = b"\xff" * 40
    path = tmp_path / "x"
    path.write_bytes(packed)
    file = Source("x", path)
    list(content.blocks(file))
    assert len(file.notices) == 1
    assert file.notices[0].what.startswith("reading stopped: ")


@pytest.mark.parametrize("pack", PACKERS)
def test_packed_files_that_were_joined_are_one_text(tmp_path: Path, pack: object) -> None:
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0pad" if pack is zstd else b""
    path = tmp_path / "x"
    path.write_bytes(pack(b"one\n") + skipped + pack(b"two\n"))  # type: ignore[operator]
    file = Source("x", path)
    assert numbered(file) == {1: b"one", 2: b"two"}
    assert file.notices == []


@pytest.mark.parametrize("pack", PACKERS)
def test_a_bomb_is_stopped_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object
) -> None:
    monkeypatch.setattr(unpack, "FLOOR", 1 << 20)
    path = tmp_path / "x"
    path.write_bytes(pack(b"a log line\n" * (2 << 20)))  # type: ignore[operator]
    file = Source("x", path)
    read = sum(len(block.data) for block in content.blocks(file, size=1 << 18))
    assert read < 12 << 20  # of 22 MB; one that makes gigabytes ends here just as soon
    assert file.notices[-1].what == "reading stopped: it unpacks to more than 200 times its size"


# Encodings


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@QUICK
@given(text=st.text(st.characters(exclude_characters="\n\r\0\ufeff", codec="utf-16-le")))
def test_utf16_with_a_mark_is_read_like_utf8(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(("\ufeff" + f"first\n{text}\nlast\n").encode(encoding))
    for size in (3, content.BLOCK):  # a character may stand across two reads
        lines = numbered(Source("x", path), size=size)
        assert lines[1] == "\ufefffirst".encode()
        assert lines.get(2, b"").decode() == text
        assert lines[3] == b"last"


# Files that change


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, fail_to_open: None) -> None:
    path = tmp_path / "x"
    path.write_text("x\n")
    file = Source("x", path)
    assert content.head(file) == b""
    assert file.magic() == b""
    assert list(content.blocks(file)) == []
    assert [notice.what for notice in file.notices] == ["not read: permission denied"]


def test_a_file_that_vanishes_between_two_looks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("x\n")
    file = Source("x", path)
    assert content.head(file) == b"x\n"
    path.unlink()
    assert (file.magic(), file.size()) == (b"", 0)
    assert list(content.blocks(file)) == []
    assert quoting.quote(file, {1}) == {}
    assert [notice.what for notice in file.notices] == ["not read: no such file or directory"]


def test_a_file_that_grows_or_shrinks_while_it_is_read_keeps_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("one\ntwo\nthree\n")
    file = Source("x", path)
    found = []
    for block in content.blocks(file, size=4):
        found.append((block.line, block.data))
        if block.line == 1:
            with path.open("a") as stream:
                stream.write("four\n")
    assert found[-1] == (4, b"four\n")
    reading = content.blocks(file, size=4)
    next(reading)
    path.write_text("")
    list(reading)
    assert file.notices == []
    assert quoting.quote(file, {1}) == {}


def test_a_disk_that_fails_half_way_gives_what_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("one\ntwo\n")

    class Failing(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            if self.tell() >= 4:
                raise OSError(5, "Input/output error")
            return super().read1(4)

    monkeypatch.setattr(unpack, "open", lambda *_: Failing(b"one\ntwo\n"), raising=False)
    file = Source("x", path)
    assert numbered(file) == {1: b"one"}
    assert file.notices[0].what == "reading stopped: input/output error"


# Notices


def test_a_notice_is_three_lines_that_a_terminal_can_show() -> None:
    text = str(Notice("bad\x1b[31m", "a\nb\u202e.log:3", "look\r"))
    assert text == "warning: bad\\x1b[31m\n --> a\\nb\\u202e.log:3\nhelp: look"


def test_a_quoted_line_is_sought_and_not_read_through(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "MARK", 100)
    path = tmp_path / "server.log"
    texts = [f"line {n} " + "x" * (n % 37) for n in range(1, 2001)]
    texts[500] = "y" * 3000  # longer than what lies between two known places
    path.write_text("\n".join(texts))
    file = source.find([str(path)])[0]
    for _ in content.blocks(file, size=5000):
        pass
    assert len(file.marks) > 100
    monkeypatch.setattr(content, "blocks", None)
    wanted = {1, 2, 499, 500, 501, 502, 1000, 1999, 2000}
    assert quoting.quote(file, wanted) == {n: texts[n - 1] for n in wanted}
    assert quoting.quote(file, {2001}) == {}


def test_lines_are_quoted_around_one_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "MARK", 100)
    path = tmp_path / "server.log"
    texts = [f"line {n}" for n in range(1, 200)]
    texts[99] = "z" * 5000
    path.write_text("\n".join(texts) + "\n")
    for size in (64, 300, 4000, 10_000):
        file = source.find([str(path)])[0]
        numbers = [
            block.line + n
            for block in content.blocks(file, size=size, longest=1000)
            for n in range(block.data.count(b"\n"))
        ]
        assert numbers == [n for n in range(1, 200) if n != 100]
        wanted = {1, 99, 101, 102, 150, 199}
        assert quoting.quote(file, wanted) == {n: texts[n - 1] for n in wanted}
