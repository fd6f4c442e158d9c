"""What is in a file: its bytes, unpacked, and its lines, in blocks."""

from __future__ import annotations

import codecs
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from specdiag import unpack
from specdiag.errors import reason
from specdiag.source import Source

BLOCK = 6 << 20  # bytes: cut into columns, lines take ten times as much; smaller ones cost time
LONGEST_LINE = 8 << 20  # bytes; a longer line is named and skipped
LONGEST_RECORD = 64 << 20  # the same for JSON: a benchmark is one record with all its times
WHOLE = 256 << 20  # bytes of a file that is read at once
SOUGHT = LONGEST_LINE // 4  # bytes at a block's end where a boundary is looked for
MOST_LINES = 1 << 20  # a row costs memory however short it is
MARK = 128 << 10  # bytes between places in a file that are kept: to quote a line reads so much
HEAD = 256 << 10  # bytes that a format is recognised by

PARQUET = b"PAR1"
UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


@dataclass(frozen=True)
class Block:
    """Whole lines of a file. `line` is the number of the first one, counted from 1."""

    data: bytes
    line: int
    after: int = 0  # the number of the line behind them
    open: bool = False  # at the end of the file: its last record may go on once it grows


def blocks(
    source: Source, boundary: bytes = b"", size: int = 0, longest: int | None = None
) -> Iterator[Block]:
    """The file's lines, in blocks of about `size` bytes (BLOCK) that end at a line end.

    A block ends, where it can, right before a line that starts with `boundary`, so that a record
    of several lines stays together. A line of more than `longest` bytes is left out. Whatever
    cannot be read becomes a notice of the source.
    """
    longest = longest or LONGEST_LINE
    at, line = source.start
    rest = b""
    dropping = False  # inside a line that is too long
    for chunk in chunks(source, size or BLOCK):
        if dropping:
            end = chunk.find(b"\n")
            if end < 0:
                at += len(chunk)
                continue
            at += end + 1
            chunk, dropping, line = chunk[end + 1 :], False, line + 1
        cut = _cut(chunk, boundary) if _is_plain(rest, chunk, longest) else 0
        if cut:  # copied once
            data, rest = b"".join((rest, memoryview(chunk)[:cut])), chunk[cut:]
            line = yield from _parts(source, data, line, at)
            at += len(data)
            continue
        data = rest + chunk
        while giant := _giant(data, longest):
            start, end = giant
            if start:
                line = yield from _parts(source, data[:start], line, at)
            source.warn(
                f"a line of more than {longest / (1 << 20):g} MB is skipped",
                "the lines around it are read",
                line,
            )
            gone = end + 1 or len(data)
            at, data, dropping = at + gone, data[gone:], end < 0
            line += not dropping
        cut = _cut(data, boundary)
        rest = data[cut:]
        if cut:
            line = yield from _parts(source, data[:cut], line, at)
            at += cut
    if rest:
        source.marks.append((line, at))
        yield Block(rest, line, open=True)


def _parts(source: Source, data: bytes, line: int, at: int) -> Generator[Block, None, int]:
    """Whole lines as a block, or as several where they are very many; the line after them.

    The source keeps where some of them begin, counted from byte `at`.
    """
    count = begin = 0
    while begin < len(data):
        source.marks.append((line + count, at + begin))
        end = data.find(b"\n", begin + MARK) + 1 or len(data)
        count += data.count(b"\n", begin, end)
        begin = end
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
        with unpack.open_file(source.path) as raw:
            hear = source.hearing.hear if source.hearing else None
            stream = unpack.opened(raw, hear)
            packed = stream is not raw
            source.marks = [one for one in source.marks if one[1] < source.start[0]]
            source.plain = not packed
            if source.start[0]:
                raw.seek(source.start[0])
            limit = unpack.most(source.size())
            unpacked = 0
            decoder: codecs.IncrementalDecoder | None = None
            while True:
                chunk, problem = unpack.read(stream, size)
                if not unpacked and chunk[:2] in UTF16:
                    decoder = codecs.getincrementaldecoder(UTF16[chunk[:2]])("replace")
                    source.plain = False
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
                        f"reading stopped: it unpacks to more than {unpack.RATIO} times its size",
                        "unpack it yourself if it is what you think it is",
                    )
                    return
    except OSError as error:
        source.warn(f"not read: {reason(error)}", "it needs a file that you may read")


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


def whole(file: Source) -> bytes | None:
    """All of a file at once, or None where that is too much."""
    data = bytearray()
    for block in blocks(file, longest=WHOLE):
        data += block.data
        if len(data) > WHOLE:
            return None
    return bytes(data)
