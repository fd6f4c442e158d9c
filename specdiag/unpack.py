"""Compressed files: their bytes until they end or break, and why they broke."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, BinaryIO, cast

from specdiag.errors import reason

# Real logs shrink tenfold, a bomb a thousandfold: past this ratio we stop reading.
RATIO, FLOOR = 200, 256 << 20
FEED = 1 << 10  # bytes; of a zstd bomb they make 32 MB, so this bounds what comes at once

GZIP, ZSTD, BZIP2, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\0"


def most(size: int) -> int:
    """Bytes that a packed file of this size may unpack to."""
    return max(FLOOR, RATIO * size)


def opened(raw: BinaryIO, hear: Callable[[bytes], None] | None = None) -> IO[bytes]:
    """A file as it is, or unpacked; then `hear` hears the packed bytes as they are read."""
    magic = raw.read(6)
    raw.seek(0)
    packed = cast(BinaryIO, _Heard(raw, hear)) if hear else raw
    if magic.startswith(GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=packed))
    if magic.startswith(ZSTD):
        return cast(IO[bytes], _Zstd(packed))
    if magic.startswith(BZIP2):
        return cast(IO[bytes], bz2.BZ2File(packed))
    if magic == XZ:
        return cast(IO[bytes], lzma.LZMAFile(packed))
    return raw


class _Heard:
    """A file that tells what is read of it."""

    def __init__(self, raw: BinaryIO, hear: Callable[[bytes], None]) -> None:
        self.raw = raw
        self.hear = hear

    def read(self, size: int = -1) -> bytes:
        data = self.raw.read(size)
        self.hear(data)
        return data


class _Zstd:
    """A zstd file that knows when it was cut off, which the library's reader does not tell."""

    def __init__(self, raw: BinaryIO) -> None:
        import zstandard

        self.raw = raw
        self.new_frame = zstandard.ZstdDecompressor().decompressobj
        self.frame = self.new_frame()
        self.left = b""  # packed bytes of the next frame
        self.inside = False

    def read1(self, size: int) -> bytes:
        out = b""
        while not out:
            piece = self.left or self.raw.read(FEED)
            if not piece:
                if self.inside:
                    raise EOFError("compressed file ended before the end of its data")
                break
            out, self.inside = self.frame.decompress(piece), not self.frame.eof
            self.left = b"" if self.inside else self.frame.unused_data
            if not self.inside:
                self.frame = self.new_frame()
        return out


def read(stream: IO[bytes], size: int) -> tuple[bytes, str]:
    """Up to `size` bytes, and why there will be no more of them (if something broke)."""
    # read1 hands out what it has before a broken archive raises on the next call
    take = stream.read1 if hasattr(stream, "read1") else stream.read
    most = size if isinstance(stream, io.BufferedReader) else 1 << 20  # a plain file gives all
    pieces: list[bytes] = []
    left = size
    problem = ""
    try:
        while left > 0 and (piece := take(min(most, left))):
            pieces.append(piece)
            left -= len(piece)
    except (OSError, EOFError) as error:
        problem = reason(error)
    except Exception as error:  # zlib.error and ZstdError share no base class
        problem = str(error)
    return b"".join(pieces), problem


def open_file(path: Path) -> BinaryIO:
    """A file for reading. Raises OSError for what is none: a pipe would make us wait for ever."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        os.scandir(path).close()  # a closed one says so
        raise OSError("a link to a folder is not followed")
    if not stat.S_ISREG(mode):
        raise OSError("this is a pipe, a socket or a device, not a file")
    return open(path, "rb")
