"""Lines of a file, quoted as they stand there."""

from __future__ import annotations

import contextlib
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from specdiag import content, document, unpack
from specdiag.content import Block
from specdiag.source import Source


def quote(source: Source, lines: set[int]) -> dict[int, str]:
    """The text of some lines, read back from the file; a line that is gone is left out."""
    if source.quoted:
        return source.quoted(lines)
    wanted = sorted(lines)
    if source.plain and source.marks and not source.document:
        return _from_marks(source, wanted)
    found: dict[int, str] = {}
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


def _from_marks(source: Source, wanted: list[int]) -> dict[int, str]:
    """The lines, each sought from the last place before it that is known."""
    found: dict[int, str] = {}
    ends = [at for _, at in source.marks[1:]] + [source.size()]
    with contextlib.suppress(OSError), unpack.open_file(source.path) as raw:
        for mark, numbers in groupby(wanted, lambda n: bisect_right(source.marks, (n, 1 << 62))):
            if not mark:
                continue
            first, at = source.marks[mark - 1]
            raw.seek(at)
            texts = raw.read(max(0, ends[mark - 1] - at)).split(b"\n")
            if not texts[-1]:
                texts.pop()
            for n in numbers:
                if n - first < len(texts):
                    found[n] = _text(texts[n - first])
    return found


def _text(line: bytes) -> str:
    return line.replace(b"\0", b"").decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r")


def _readable(source: Source) -> Iterator[Block]:
    """The lines of a file; of a JSON document, its records as they were numbered."""
    quiet = _quiet(source)
    if source.document:
        whole = b"".join(block.data for block in content.blocks(quiet, longest=sys.maxsize))
        yield Block(document.split(whole), 1)
    else:
        yield from content.blocks(quiet, longest=content.LONGEST_RECORD)


def _quiet(source: Source) -> Source:
    # Notices, and the hash, belong to the real read.
    return replace(source, notices=[], start=(0, 1), hearing=None)
