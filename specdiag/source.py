"""Find input files, in folders and archives, and keep on disk what comes from elsewhere."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from specdiag import archive, unpack
from specdiag.errors import NOTHING_READ, Notice, SpecdiagError, reason


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


@dataclass(frozen=True)
class Own:
    """Which lines of a file are a writer's own; see mixed.py."""

    pattern: str  # that they have; it is taken out of them where it `strips`
    strips: bool
    name: str  # of the writer; empty for what all others write
    others: bool = False  # the lines that do not have it
    head: bytes = field(default=b"", repr=False)  # what a file of these lines begins with


@dataclass
class Source:
    """One input file. `name` is what reports print; `path` is where the bytes are."""

    name: str
    path: Path
    given: bool = True  # named on the command line, not found in a folder
    baseline: bool = False  # what the others are compared with
    temporary: bool = False  # what a pipe said, kept on disk until `discard`
    own: Own | None = None  # the lines of one of several writers, and no others
    again: bool = False  # the same file was read for another writer before
    records: bytes = b""  # what was made of it, where it is no text: JSON, one record a line
    document: bool = False  # one JSON value: its lines are those of `document.split`
    quoted: Callable[[set[int]], dict[int, str]] | None = None  # who quotes what is no text
    notices: list[Notice] = field(default_factory=list)
    start: tuple[int, int] = (0, 1)  # the byte where reading begins, and the number of its line
    hearing: Hearing | None = None  # hears the bytes on disk as they are read
    taken: int = 0  # bytes on disk that the last read has got to
    marks: list[tuple[int, int]] = field(default_factory=list)  # (line, byte where it begins)
    plain: bool = False  # neither packed nor in UTF-16: its bytes are those of the text
    hashed: bool = False  # somebody will ask for the hash: it is made while the file is read
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
            with unpack.open_file(self.path) as stream:
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
        yield from _opened(Source(_printable(text), Path(text)))


def _opened(source: Source) -> Iterator[Source]:
    """The files in an archive, or the file itself if it is none."""
    if not archive.is_archive(source.path):
        yield source
        return
    room = unpack.most(source.size())
    one: Source | None = None
    problem = ""
    try:
        for name, content in archive.files(source.path):
            inside = Source(f"{source.name}/{_printable(name)}", source.path, given=False)
            one, problem = _spooled(inside, content, room)
            room -= one.size()
            yield one
            if problem:
                break
    except archive.Broken as error:
        problem = str(error)
    if one is None:  # nothing is in it, or it is called like an archive and is none
        yield source
    elif problem:
        one.notices.append(
            Notice(f"unpacking stopped: {problem}", source.name, "what came before it was analysed")
        )


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
                yield from _opened(Source(_printable(path), Path(path), given=False))
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
    with _spool(Source(name, Path())) as (kept, spool):
        shutil.copyfileobj(stream, spool, 1 << 20)
    return kept


def _spooled(source: Source, content: IO[bytes], most: int) -> tuple[Source, str]:
    """A file of an archive, on disk, up to so many bytes; and why there is no more of it."""
    with _spool(source) as (kept, spool):
        while True:
            data, problem = unpack.read(content, 1 << 20)
            if len(data) > most:
                return kept, "it unpacks to so much that it may be a bomb"
            spool.write(data)
            most -= len(data)
            if problem or len(data) < 1 << 20:
                return kept, problem


@contextlib.contextmanager
def _spool(source: Source) -> Iterator[tuple[Source, IO[bytes]]]:
    """The source with a file of its own on disk, to be filled; gone where that fails."""
    with tempfile.NamedTemporaryFile(prefix="specdiag-", delete=False) as spool:
        kept = replace(source, path=Path(spool.name), temporary=True)
        try:
            yield kept, spool
        except BaseException as error:
            discard([kept])
            if isinstance(error, OSError):
                raise SpecdiagError(reason(error), source.name) from None
            raise


def discard(sources: list[Source]) -> None:
    """Remove what pipes were kept in."""
    for source in sources:
        if source.temporary:
            source.path.unlink(missing_ok=True)
