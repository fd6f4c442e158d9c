"""A JSON document, an array or objects over several lines or side by side, as one record a line.

Nothing is parsed here, only brackets outside of strings are counted: a broken record spoils no
other, and a document that was cut off gives what came before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from specdiag import literals

PRINTED = re.compile(r"\s*\{'")
SPACE = b"\xef\xbb\xbf \t\r\n"
# A string that never ends goes to the end of the text, so that it is looked at once.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)


def is_document(head: bytes) -> bool:
    """Whether a file that starts like this is a document, not one record a line."""
    text = head.lstrip(SPACE)
    if text.startswith(b"["):  # but not "[2026-05-21 08:30:05] ..."
        return text[1:].lstrip(SPACE)[:1] in (b"{", b"")
    first, _, second = text.partition(b"\n")
    first = first.rstrip()
    indented = bool(second) and second[:1] in b" \t\r"
    return first.startswith(b"{") and (
        first == b"{" or (indented and not first.endswith(b"}")) or _goes_on(first)
    )  # fmt: skip


def level(head: bytes) -> int:
    """How many brackets are open in the first list of records of a document; 0 without one."""
    if head.lstrip(SPACE)[:1] not in (b"{", b"["):
        return 0
    depth = 0
    for token in _TOKEN.finditer(head):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if token[0] == b"[" and head[token.end() :].lstrip(SPACE)[:1] == b"{":
                    return depth
            case b"}" | b"]":
                depth -= 1
                if depth <= 0:
                    return 0
    return 0


def _goes_on(line: bytes) -> bool:
    """Whether another record stands behind the first one of a line."""
    text = line.decode("utf-8", "replace")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip(" \t,").startswith("{")


def split(data: bytes, level: int | None = None) -> bytes:
    """The records of a document, each on the line where it starts in the file.

    Where several start on one line, their lines are counted instead: 1, 2, 3. At `level`, which is
    one of the function of that name, they are the elements of a list that is inside of something.
    """
    starts: list[int] = []
    records: list[bytes] = []
    line = last = 1
    before = 0
    shared = False
    for start, end in _places(data, level):
        line += data.count(b"\n", before, start)
        shared |= bool(starts) and line == last
        starts.append(line)
        records.append(re.sub(rb"\s*[\r\n]\s*", b" ", data[start:end]))
        before, last = start, line
    if not records:
        return re.sub(rb"[\r\n]+", b" ", data)
    if shared:
        return b"\n".join(records)
    gaps = [n - m for m, n in zip([1, *starts], starts, strict=False)]
    return b"".join(b"\n" * gap + record for gap, record in zip(gaps, records, strict=True))


def apart(line: str) -> list[str]:
    """The records of a line that holds several, one and a comma, or one as Python prints it.

    Else it is the line itself.
    """
    if not line.lstrip().startswith("{"):  # behind a torn record stands what was inside of it
        return [line]
    printed = literals.as_json(line) if PRINTED.match(line) else None
    if printed:
        return [printed]
    return split(line.encode("utf-8", "surrogatepass")).decode("utf-8", "replace").split("\n")


def _places(data: bytes, level: int | None) -> Iterator[tuple[int, int]]:
    """Where the records are: the elements of the array, or else whatever stands side by side."""
    if level is None:
        level = 1 if data.lstrip(SPACE).startswith(b"[") else 0
    depth = 0
    start = -1
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"{" | b"[":
                if depth == level:
                    start = token.start()
                depth += 1
            case b"}" | b"]":
                depth = max(0, depth - 1)
                if depth == level and start >= 0:
                    yield start, token.end()
                    start = -1
    if start >= 0:
        yield start, len(data)  # the document ends inside it
