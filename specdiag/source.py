"""Find input files, look through their compression, and hand out their bytes in blocks."""

from __future__ import annotations

import codecs
import errno
import glob
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, BinaryIO

from specdiag import document, unpack
from specdiag.errors import NOTHING_READ, Notice, SpecdiagError, reason

BLOCK = 16 << 20  # bytes; smaller blocks cost time, larger ones memory
LONGEST_LINE = 8 << 20  # bytes; a longer line is named and skipped
LONGEST_RECORD = 64 << 20  # the same for JSON: a benchmark is one record with all its times
SOUGHT = LONGEST_LINE // 4  # bytes at a block's end where a boundary is looked for
MOST_LINES = 1 << 20  # a row costs memory however short it is
HEAD = 256 << 10  # bytes that a format is recognised by
# Real logs shrink tenfold, a bomb a thousandfold: past this ratio we stop reading.
BOMB_RATIO, BOMB_FLOOR = 200, 256 << 20

PARQUET = b"PAR1"
UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


class Hearing:
    """The hash of a file's bytes, made while they are read.

    The first `known` bytes that come were heard before.
    """

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.bytes = 0
        self.known = 0

    def hear(self, data: bytes) -> None:
        new = data[self.known :] if self.known else data
        self.known -= len(data) - len(new)
        self.digest.update(new)
        self.bytes += len(new)

    def hexdigest(self) -> str:
        return self.digest.hexdigest()


@dataclass
class Source:
    """One input file. `name` is what reports print; `path` is where the bytes are."""

    name: str
    path: Path
    given: bool = True  # named on the command line, not found in a folder
    baseline: bool = False  # what the others are compared with
    temporary: bool = False  # what a pipe said, kept on disk until `discard`
    records: bytes = b""  # what was made of it, where it is no text: JSON, one record a line
    document: bool = False  # one JSON value: its lines are those of `document.split`
    quoted: Callable[[set[int]], dict[int, str]] | None = None  # who quotes what is no text
    notices: list[Notice] = field(default_factory=list)
    start: tuple[int, int] = (0, 1)  # the byte where reading begins, and the number of its line
    hearing: Hearing | None = None  # hears the bytes on disk as they are read
    taken: int = 0  # bytes on disk that the last read has got to
    sha256: tuple[int, str] | None = None  # how many first bytes were hashed, and their hash

    def warn(self, what: str, help: str = "", line: int | None = None) -> None:
        where = self.name if line is None else f"{self.name}:{line}"
        notice = Notice(what, where, help)
        if notice not in self.notices:  # a file is looked at more than once
            self.notices.append(notice)

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def magic(self) -> bytes:
        """The first four bytes, or none of a file that cannot be read."""
        try:
            with _open(self.path) as stream:
                return stream.read(4)
        except OSError:
            return b""


def find(paths: list[str], baseline: str = "") -> list[Source]:
    """Input files of files, folders (recursively), globs and `-`, each once, in a stable order.

    Those of `baseline`, one more path, are marked as such. What is there but cannot be read is
    among them, and named when it is read. Raises SpecdiagError for a path that does not exist (exit
    code 2), and when there is no file (3).
    """
    found: dict[str, Source] = {}
    try:
        for text in dict.fromkeys(paths):
            for source in _expand(text):
                found.setdefault(os.path.realpath(source.path), source)
        for source in _expand(baseline) if baseline else ():
            found.setdefault(os.path.realpath(source.path), source).baseline = True
    except BaseException:
        discard(list(found.values()))
        raise
    if not found:
        raise SpecdiagError(
            "no file to read", ", ".join(paths), "name a log, a folder of logs, or - for stdin",
            NOTHING_READ,
        )  # fmt: skip
    return list(found.values())


def exists(text: str) -> bool:
    """Whether a text names files, and not something else, as a run."""
    return os.path.lexists(text) or (glob.has_magic(text) and bool(glob.glob(text)))


def _expand(text: str) -> Iterator[Source]:
    if text == "-":
        if sys.stdin is None:
            raise SpecdiagError("standard input is closed", "-", "pipe a log into specdiag")
        yield _kept(sys.stdin.buffer, "<stdin>")
        return
    try:
        mode = os.stat(text).st_mode
    except OSError as error:
        yield from _missing(text, error)
        return
    if stat.S_ISDIR(mode):
        yield from _walk(text)
    elif stat.S_ISFIFO(mode):  # as in: specdiag analyze <(ssh server cat log)
        with open(text, "rb") as stream:
            yield _kept(stream, _printable(text))
    else:
        yield Source(_printable(text), Path(text))


def _missing(text: str, error: OSError) -> Iterator[Source]:
    matches = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else []
    if os.path.islink(text):
        yield Source(_printable(text), Path(text))
    elif matches:
        for match in matches:
            yield from _expand(match)
    elif error.errno == errno.ENOENT:
        raise SpecdiagError(
            "no such file or folder", text, "check the path, or quote the glob for specdiag"
        ) from None
    else:
        raise SpecdiagError(reason(error), text) from None


def _walk(top: str) -> Iterator[Source]:
    closed: list[OSError] = []
    home = os.path.realpath(top)
    # os.walk does not follow links to folders, so a link that leads back up is harmless.
    for root, folders, names in os.walk(top, onerror=closed.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        away = [name for name in folders if _leads_away(os.path.join(root, name), home)]
        for name in sorted([*names, *away]):
            if not name.startswith("."):
                path = os.path.join(root, name)
                yield Source(_printable(path), Path(path), given=False)
    for error in closed:
        yield Source(_printable(error.filename), Path(error.filename), given=False)


def _leads_away(folder: str, home: str) -> bool:
    """Whether this is a link to a folder that is not read anyway."""
    if not os.path.islink(folder):
        return False
    target = os.path.realpath(folder)
    return os.path.commonpath([home, target]) not in (home, target)


def _printable(path: str) -> str:
    """A name as text: bytes that are not UTF-8 become `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _kept(stream: IO[bytes], name: str) -> Source:
    """What a pipe says, on disk and not in memory: it is read more than once."""
    with tempfile.NamedTemporaryFile(prefix="specdiag-", delete=False) as spool:
        source = Source(name, Path(spool.name), temporary=True)
        try:
            shutil.copyfileobj(stream, spool, 1 << 20)
        except BaseException as error:
            discard([source])
            if isinstance(error, OSError):
                raise SpecdiagError(reason(error), name) from None
            raise
    return source


def discard(sources: list[Source]) -> None:
    """Remove what pipes were kept in."""
    for source in sources:
        if source.temporary:
            source.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Block:
    """Whole lines of a file. `line` is the number of the first one, counted from 1."""

    data: bytes
    line: int
    after: int = 0  # the number of the line behind them
    open: bool = False  # at the end of the file: its last record may go on once it grows


def blocks(
    source: Source, boundary: bytes = b"", size: int = BLOCK, longest: int | None = None
) -> Iterator[Block]:
    """The file's lines, in blocks of about `size` bytes that end at a line end.

    A block ends, where it can, right before a line that starts with `boundary`, so that a record
    of several lines stays together. A line of more than `longest` bytes is left out. Whatever
    cannot be read becomes a notice of the source.
    """
    longest = longest or LONGEST_LINE
    line = source.start[1]
    rest = b""
    dropping = False  # inside a line that is too long
    for chunk in chunks(source, size):
        if dropping:
            end = chunk.find(b"\n")
            if end < 0:
                continue
            chunk, dropping, line = chunk[end + 1 :], False, line + 1
        cut = _cut(chunk, boundary) if _is_plain(rest, chunk, longest) else 0
        if cut:  # copied once
            data, rest = b"".join((rest, memoryview(chunk)[:cut])), chunk[cut:]
            line = yield from _parts(data, line)
            continue
        data = rest + chunk
        while giant := _giant(data, longest):
            start, end = giant
            if start:
                line = yield from _parts(data[:start], line)
            source.warn(
                f"a line of more than {longest / (1 << 20):g} MB is skipped",
                "the lines around it are read",
                line,
            )
            if end < 0:
                data, dropping = b"", True
            else:
                data, line = data[end + 1 :], line + 1
        cut = _cut(data, boundary)
        rest = data[cut:]
        if cut:
            line = yield from _parts(data[:cut], line)
    if rest:
        yield Block(rest, line, open=True)


def _parts(data: bytes, line: int) -> Generator[Block, None, int]:
    """Whole lines as a block, or as several where they are very many; the line after them."""
    count = data.count(b"\n")
    size = len(data) // (count // MOST_LINES + 1) + 1
    start, first = 0, line
    while start < len(data):
        end = data.find(b"\n", start + size - 1) + 1 or len(data)
        part = data[start:end]
        after = first + part.count(b"\n") if end < len(data) else line + count
        yield Block(part, first, after)
        start, first = end, after
    return line + count


def _giant(data: bytes, longest: int) -> tuple[int, int] | None:
    """Where a line that is too long starts and ends; the end is -1 where it goes on."""
    start = 0
    while len(data) - start > longest:
        end = data.rfind(b"\n", start, start + longest + 1)
        if end < 0:
            return start, data.find(b"\n", start + longest)
        start = end + 1
    return None


def _is_plain(rest: bytes, chunk: bytes, longest: int) -> bool:
    """Whether a chunk that goes on behind `rest` has no line that is too long."""
    return (
        len(chunk) > SOUGHT
        and len(rest) + chunk.find(b"\n") <= longest
        and not _giant(chunk, longest)
    )


def _cut(data: bytes, boundary: bytes) -> int:
    if boundary:
        at = data.rfind(b"\n" + boundary, max(0, len(data) - SOUGHT))
        if at >= 0:
            return at + 1
    return data.rfind(b"\n") + 1


def chunks(source: Source, size: int) -> Iterator[bytes]:
    """The unpacked bytes of a file, in UTF-8 where it is marked as UTF-16."""
    try:
        with _open(source.path) as raw:
            hear = source.hearing.hear if source.hearing else None
            stream = unpack.opened(raw, hear)
            packed = stream is not raw
            if source.start[0]:
                raw.seek(source.start[0])
            limit = max(BOMB_FLOOR, BOMB_RATIO * source.size())
            unpacked = 0
            decoder: codecs.IncrementalDecoder | None = None
            while True:
                chunk, problem = unpack.read(stream, size)
                if not unpacked and chunk[:2] in UTF16:
                    decoder = codecs.getincrementaldecoder(UTF16[chunk[:2]])("replace")
                unpacked += len(chunk)
                source.taken = raw.tell()
                if hear and not packed:
                    hear(chunk)
                done = len(chunk) < size  # at the end, or a log that grows would never end
                if decoder:
                    chunk = decoder.decode(chunk, done).encode()
                if chunk:
                    yield chunk
                if problem:
                    source.warn(f"reading stopped: {problem}", "what came before it was analysed")
                if done:
                    return
                if packed and unpacked > limit:
                    source.warn(
                        f"reading stopped: it unpacks to more than {BOMB_RATIO} times its size",
                        "unpack it yourself if it is what you think it is",
                    )
                    return
    except OSError as error:
        source.warn(f"not read: {reason(error)}", "it needs a file that you may read")


def _open(path: Path) -> BinaryIO:
    """A file for reading. Raises OSError for what is none: a pipe would make us wait for ever."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        os.scandir(path).close()  # a closed one says so
        raise OSError("a link to a folder is not followed")
    if not stat.S_ISREG(mode):
        raise OSError("this is a pipe, a socket or a device, not a file")
    return open(path, "rb")


def head(source: Source) -> bytes:
    """The first lines of a file, unpacked: what its format is recognised by."""
    if source.magic() == PARQUET:
        return PARQUET
    start = next(chunks(source, HEAD), b"")
    if start.lstrip()[:1] in (b"{", b"[") and b"\n" not in start:
        return start  # a long record says soon enough what it is
    for block in blocks(source, size=HEAD):
        cut = block.data.rfind(b"\n", 0, HEAD) + 1
        return block.data[: cut or HEAD]
    return b""


def quote(source: Source, lines: set[int]) -> dict[int, str]:
    """The text of some lines, read back from the file; a line that is gone is left out."""
    if source.quoted:
        return source.quoted(lines)
    found: dict[int, str] = {}
    wanted = sorted(lines)
    for block in _readable(source):
        count = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
        here = [n for n in wanted if block.line <= n < block.line + count]
        if here:
            texts = block.data.split(b"\n")
            for n in here:
                found[n] = _text(texts[n - block.line])
        if wanted and block.line > wanted[-1]:
            break
    return found


def _text(line: bytes) -> str:
    return line.replace(b"\0", b"").decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r")


def _readable(source: Source) -> Iterator[Block]:
    """The lines of a file; of a JSON document, its records as they were numbered."""
    quiet = _quiet(source)
    if source.document:
        whole = b"".join(block.data for block in blocks(quiet, longest=sys.maxsize))
        yield Block(document.split(whole), 1)
    else:
        yield from blocks(quiet, longest=LONGEST_RECORD)


def _quiet(source: Source) -> Source:
    # Notices, and the hash, belong to the real read.
    return replace(source, notices=[], start=(0, 1), hearing=None)
