"""Archives: the files in a zip or a tar, one after the other."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from specdiag import unpack

ENDINGS = (
    ".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst",
)  # fmt: skip
MOST = 10_000  # files of one archive


class Broken(Exception):
    """Why nothing more of an archive can be read."""


def is_archive(path: Path) -> bool:
    """Whether it is called one: checkpoints and documents are zip files, too, and hold no logs."""
    return path.name.lower().endswith(ENDINGS)


def files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each file, in their order; the content until the next one is asked for.

    Hidden files and links are left out. Raises Broken, also after some files.
    """
    members = _zipped(path) if path.name.lower().endswith(".zip") else _tarred(path)
    try:
        for count, (name, content) in enumerate(members):
            if count == MOST:
                raise Broken(f"it has more than {MOST:,} files")
            yield name, content
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, RuntimeError) as error:
        raise Broken(str(error)) from None  # the last of these: a password, another compression


def _zipped(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for one in archive.infolist():
            if not one.is_dir() and not _is_hidden(one.filename):
                with archive.open(one) as content:
                    yield one.filename, content


def _tarred(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with unpack.open_file(path) as raw:
        stream = cast(IO[bytes], _Whole(unpack.opened(raw)))
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for one in archive:
                content = archive.extractfile(one) if one.isfile() else None
                if content and not _is_hidden(one.name):
                    yield one.name, content


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return parts[:1] == ("__MACOSX",) or any(
        part.startswith(".") and part.strip(".") for part in parts
    )


class _Whole:
    """A stream whose `read` gives as much as is asked for, until its end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def read(self, size: int) -> bytes:
        data, problem = unpack.read(self.stream, size)
        if problem and not data:
            raise Broken(problem)
        return data
