"""What was parsed of large files, kept in the user's cache folder, so that it is not parsed again.

An entry is a zip file: the rows of each block as Arrow, and `meta.json`. Its name says how the file
was read (format, code, libraries) and how it begins; whether it is this file's is decided by a hash
of every byte that was read. A file that has grown since is read from where its last whole block
ended. Entries appear whole or not at all; one that is damaged is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import sys
import time
import zipfile
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from specdiag import __version__, bundled
from specdiag.errors import Notice
from specdiag.parser import Parsed
from specdiag.recognition import Form
from specdiag.source import Hearing, Source

LEAST = 16 << 20  # bytes of a file; a smaller one is parsed faster than one looks
LIMIT = 2_000_000_000  # bytes of all entries; the latest used stay
HEAD = 1 << 20  # bytes that a name depends on
PIECE = 4 << 20  # bytes hashed at once
FORGOTTEN = 86_400  # seconds after which a half-written entry is nobody's


def folder() -> Path:
    """The user's cache folder for specdiag, which need not exist."""
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / "Library" / "Caches"
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "specdiag"


@dataclass(frozen=True)
class Meta:
    """How far a file was read, and what was said on the way."""

    bytes: int  # of the file, from its beginning: those that the hash is of
    sha256: str
    offset: int  # where the rest begins once the file has grown; 0 where all is read again
    line: int  # the number of the line there
    blocks: int
    document: bool
    marks: list[tuple[int, int]]  # places in the file, for those who quote lines of it
    notices: list[dict[str, str]]


class Kept:
    """An entry that is this file's."""

    def __init__(self, archive: zipfile.ZipFile, meta: Meta, grown: bool, hearing: Hearing) -> None:
        self.archive = archive
        self.meta = meta
        self.grown = grown
        self.hearing = hearing

    def blocks(self) -> Iterator[tuple[dict[str, Any], Parsed]]:
        """What every block gave; of a grown file without the last, which may go on."""
        names = self.archive.namelist()
        for n in range(self.meta.blocks):
            facts = json.loads(self.archive.read(f"{n}.json"))
            if self.grown and facts["open"]:
                continue
            parsed = Parsed(
                lines=facts["lines"], understood=facts["understood"], starts=facts["starts"],
                strangers=[(line, text) for line, text in facts["strangers"]],
                unread=Counter({(table, name): count for table, name, count in facts["unread"]}),
            )  # fmt: skip
            for name in names:
                block, table, *_ = name.split(".")
                if block == str(n) and name.endswith(".arrow"):
                    parsed.add(table, pl.read_ipc(io.BytesIO(self.archive.read(name))))
            yield facts, parsed

    def notices(self) -> list[Notice]:
        return [Notice(**one) for one in self.meta.notices]


class Writer:
    """An entry being written, in a thread of its own. It is there once `finish` has returned."""

    def __init__(self, cache: Cache, key: str) -> None:
        self.cache = cache
        self.path = cache.folder / f"{key}.zip"
        self.temporary = cache.folder / f".{secrets.token_hex(8)}.tmp"
        self.failed = False
        self.count = 0
        self.waiting: deque[Future[None]] = deque()
        self.pool = ThreadPoolExecutor(1)
        try:
            cache.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.archive = zipfile.ZipFile(self.temporary, "x")
        except OSError:
            self.failed = True

    def add(self, parsed: Parsed, size: int, open: bool) -> None:
        """What a block of `size` bytes gave; `open` where it may go on once the file grows."""
        if self.failed:
            return
        self.waiting.append(self.pool.submit(self._add, self.count, parsed, size, open))
        self.count += 1
        if len(self.waiting) > 2:
            self._wait()

    def finish(self, **meta: Any) -> None:
        while self.waiting and not self.failed:
            self._wait()
        if not self.failed:
            with contextlib.suppress(OSError):
                facts = asdict(Meta(blocks=self.count, **meta))
                self.archive.writestr("meta.json", json.dumps(facts))
                self.archive.close()
                if self.temporary.stat().st_size <= self.cache.limit:
                    os.replace(self.temporary, self.path)
                self.cache.bound()
        self.close()

    def close(self) -> None:
        """Leave nothing of an entry that is not whole."""
        self.pool.shutdown(cancel_futures=True)
        with contextlib.suppress(OSError, AttributeError, ValueError):
            self.archive.close()
        with contextlib.suppress(OSError):
            self.temporary.unlink()

    def _wait(self) -> None:
        try:
            self.waiting.popleft().result()
        except (OSError, ValueError, TypeError, pl.exceptions.PolarsError):
            self.failed = True  # a full disk, or what Arrow cannot hold, is no fault of the log

    def _add(self, number: int, parsed: Parsed, size: int, open: bool) -> None:
        facts = {
            "size": size, "open": open, "lines": parsed.lines, "understood": parsed.understood,
            "starts": parsed.starts, "strangers": parsed.strangers,
            "unread": [[*key, count] for key, count in parsed.unread.items()],
        }  # fmt: skip
        self.archive.writestr(f"{number}.json", json.dumps(facts))
        for table, frames in parsed.frames.items():
            for n, frame in enumerate(frames):
                data = io.BytesIO()
                frame.write_ipc(data, compression="lz4")
                self.archive.writestr(f"{number}.{table}.{n}.arrow", data.getbuffer())


class Cache:
    """The entries of a folder, at most `limit` bytes of them."""

    def __init__(self, at: Path | None = None, limit: int = LIMIT) -> None:
        self.folder = at or folder()
        self.limit = limit

    def key(self, file: Source, form: Form) -> str:
        """The name of what is kept of files that begin like this one and are read alike.

        Empty where nothing is kept: of small files, pipes, and what is no text.
        """
        if file.temporary or file.records or file.size() < LEAST:
            return ""
        if form.parser.format not in ("lines", "json"):
            return ""
        digest = hashlib.sha256(_version().encode())
        digest.update(repr(form).encode("utf-8", "surrogateescape"))
        try:
            with open(file.path, "rb") as stream:
                digest.update(stream.read(HEAD))
        except OSError:
            return ""
        return digest.hexdigest()[:32]

    def find(self, file: Source, key: str) -> Kept | None:
        """The entry of exactly this file, or of what it was before it grew."""
        path = self.folder / f"{key}.zip"
        archive: zipfile.ZipFile | None = None
        try:
            archive = zipfile.ZipFile(path)
            meta = Meta(**json.loads(archive.read("meta.json")))
            size = file.size()
            if size == meta.bytes or (size > meta.bytes and meta.offset):
                with ThreadPoolExecutor(1) as pool:
                    heard = pool.submit(_hear, file, meta.bytes)
                    if archive.testzip() is not None:
                        raise ValueError("damaged")
                if heard.result().hexdigest() == meta.sha256:
                    os.utime(path)
                    return Kept(archive, meta, size > meta.bytes, heard.result())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile):
            with contextlib.suppress(OSError):
                path.unlink()
        if archive is not None:
            archive.close()
        return None

    def entries(self) -> list[tuple[float, Path, int]]:
        """When each entry was last used, where it is, and its bytes; the oldest first."""
        found = []
        for path in self.folder.glob("*.zip"):
            with contextlib.suppress(OSError):  # another process removed it
                facts = path.stat()
                found.append((facts.st_mtime, path, facts.st_size))
        return sorted(found)

    def bound(self) -> None:
        """Remove what was not used for longest, until the rest is small enough."""
        found = self.entries()
        size = sum(one[2] for one in found)
        for _, path, bytes in found:
            if size <= self.limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            size -= bytes
        for path in self.folder.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - FORGOTTEN:
                    path.unlink()

    def clear(self) -> int:
        """Remove every entry; how many there were."""
        found = self.entries()
        for _, path, _ in found:
            with contextlib.suppress(OSError):
                path.unlink()
        return len(found)


def _hear(file: Source, count: int) -> Hearing:
    """The hash of the first bytes of a file."""
    hearing = Hearing()
    with open(file.path, "rb", buffering=0) as stream:
        while hearing.bytes < count and (data := stream.read(min(PIECE, count - hearing.bytes))):
            hearing.hear(data)
    return hearing


def _version() -> str:
    """What else decides how a file is read: this code, and the libraries that do the work."""
    digest = hashlib.sha256()
    for path in sorted(bundled.PACKAGE.glob("*.py")):
        digest.update(path.read_bytes())
    return f"{__version__} {pl.__version__} {duckdb.__version__} {digest.hexdigest()}"
