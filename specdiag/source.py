"""Find input files, look through their compression, and hand out their bytes in blocks."""

from __future__ import annotations

import glob
import gzip
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, cast

from specdiag.errors import NOTHING_READ, Notice, SpecdiagError

BLOCK = 16 << 20  # bytes; smaller blocks cost time, larger ones memory
LONGEST_LINE = 8 << 20  # bytes; a longer line is named and skipped
HEAD = 256 << 10  # bytes that a format is recognised by
# Real logs shrink tenfold, a bomb a thousandfold: past this ratio we stop reading.
BOMB_RATIO, BOMB_FLOOR = 200, 256 << 20

GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass
class Source:
    """One input file. `name` is what reports print; `path` is where the bytes are."""

    name: str
    path: Path
    given: bool = True  # named on the command line, not found in a folder
    notices: list[Notice] = field(default_factory=list)

    def warn(self, what: str, help: str = "", line: int | None = None) -> None:
        where = self.name if line is None else f"{self.name}:{line}"
        self.notices.append(Notice(what, where, help))

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def magic(self) -> bytes:
        with open(self.path, "rb") as stream:
            return stream.read(4)


def find(paths: list[str]) -> list[Source]:
    """Input files of files, folders (recursively), globs and `-`, each once, in a stable order."""
    found: dict[Path, Source] = {}
    for text in paths:
        for source in _expand(text):
            found.setdefault(source.path.resolve(), source)
    if not found:
        raise SpecdiagError(
            "no file to read", ", ".join(paths), "name a log, a folder of logs, or - for stdin",
            NOTHING_READ,
        )  # fmt: skip
    return list(found.values())


def _expand(text: str) -> Iterator[Source]:
    if text == "-":
        yield _standard_input()
        return
    path = Path(text)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:
        raise SpecdiagError(_reason(error), text) from None
    if is_folder:
        yield from _walk(path)
    elif exists:
        if not path.is_file() and not path.is_fifo():
            raise SpecdiagError("this is neither a file nor a folder", text)
        yield Source(text, path)
    else:
        matches = sorted(glob.glob(text, recursive=True))
        if not matches:
            raise SpecdiagError(
                "no such file or folder", text, "check the path, or quote the glob for specdiag"
            )
        for match in matches:
            yield from _expand(match)


def _walk(folder: Path) -> Iterator[Source]:
    # os.walk does not follow links to folders, so a link that leads back up is harmless.
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if not name.startswith(".") and path.is_file():
                yield Source(str(path), path, given=False)


def _standard_input() -> Source:
    # Kept on disk, not in memory: evidence is read back from it once the rules have run.
    spool = tempfile.NamedTemporaryFile(prefix="specdiag-stdin-", delete=False)  # noqa: SIM115
    with spool:
        while chunk := sys.stdin.buffer.read(1 << 20):
            spool.write(chunk)
    return Source("<stdin>", Path(spool.name))


def discard(sources: list[Source]) -> None:
    """Remove what standard input was kept in."""
    for source in sources:
        if source.name == "<stdin>":
            source.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Block:
    """Whole lines of a file. `line` is the number of the first one, counted from 1."""

    data: bytes
    line: int


def blocks(source: Source, boundary: bytes = b"", size: int = BLOCK) -> Iterator[Block]:
    """The file's lines, in blocks of about `size` bytes that end at a line end.

    A block ends, where it can, right before a line that starts with `boundary`, so that a record
    of several lines stays together. Whatever cannot be read becomes a notice of the source.
    """
    line = 1
    rest = b""
    dropping = False  # inside a line that is too long
    for chunk in _chunks(source, size):
        data = rest + chunk
        if dropping:
            end = data.find(b"\n")
            if end < 0:
                rest = b""
                continue
            data, dropping, line = data[end + 1 :], False, line + 1
        cut = _cut(data, boundary)
        if cut == 0 and len(data) > LONGEST_LINE:
            source.warn(f"a line of more than {LONGEST_LINE >> 20} MB is skipped", line=line)
            rest, dropping = b"", True
            continue
        rest = data[cut:]
        if cut:
            whole = data[:cut]
            yield Block(whole, line)
            line += whole.count(b"\n")
    if rest:
        yield Block(rest, line)


def _cut(data: bytes, boundary: bytes) -> int:
    if boundary:
        at = data.rfind(b"\n" + boundary, max(0, len(data) - LONGEST_LINE // 4))
        if at >= 0:
            return at + 1
    return data.rfind(b"\n") + 1


def _chunks(source: Source, size: int) -> Iterator[bytes]:
    try:
        with open(source.path, "rb") as raw:
            stream = _decompress(raw)
            limit = max(BOMB_FLOOR, BOMB_RATIO * source.size())
            unpacked = 0
            encoding = ""
            while True:
                chunk, problem = _read(stream, size)
                if not unpacked and chunk[:2] in UTF16:
                    encoding = "utf-16-le" if chunk[:2] == UTF16[0] else "utf-16-be"
                unpacked += len(chunk)
                if chunk:
                    yield chunk.decode(encoding, "replace").encode() if encoding else chunk
                if problem:
                    source.warn(f"reading stopped: {problem}", "what came before it was analysed")
                    return
                if not chunk:
                    return
                if stream is not raw and unpacked > limit:
                    source.warn(
                        f"reading stopped: it unpacks to more than {BOMB_RATIO} times its size",
                        "unpack it yourself if it is what you think it is",
                    )
                    return
    except OSError as error:
        source.warn(_reason(error))


def _decompress(raw: BinaryIO) -> IO[bytes]:
    magic = raw.read(4)
    raw.seek(0)
    if magic.startswith(GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if magic == ZSTD:
        import zstandard

        return cast(
            IO[bytes], zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        )
    return raw


def _read(stream: IO[bytes], size: int) -> tuple[bytes, str]:
    """Up to `size` bytes, and why there will be no more of them (if something broke)."""
    out = io.BytesIO()
    try:
        while out.tell() < size:
            # read1 hands out what it has before a broken archive raises on the next call
            piece = getattr(stream, "read1", stream.read)(min(1 << 20, size - out.tell()))
            if not piece:
                break
            out.write(piece)
    except (OSError, EOFError) as error:
        return out.getvalue(), _reason(error)
    except Exception as error:  # zlib.error and ZstdError share no base class
        return out.getvalue(), str(error)
    return out.getvalue(), ""


def head(source: Source) -> bytes:
    """The first lines of a file, unpacked: what its format is recognised by."""
    quiet = Source(source.name, source.path)  # notices belong to the real read
    for chunk in _chunks(quiet, HEAD):
        cut = chunk.rfind(b"\n") + 1
        return chunk[:cut] or chunk
    return b""


def quote(source: Source, lines: set[int]) -> dict[int, str]:
    """The text of some lines, read back from the file; a line that is gone is left out."""
    found: dict[int, str] = {}
    wanted = sorted(lines)
    quiet = Source(source.name, source.path)
    for block in blocks(quiet):
        count = block.data.count(b"\n") + 1
        here = [n for n in wanted if block.line <= n < block.line + count]
        if here:
            texts = block.data.split(b"\n")
            for n in here:
                found[n] = texts[n - block.line].decode("utf-8", "replace")
        if wanted and block.line > wanted[-1]:
            break
    return found


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[0].lower() + text[1:]
