"""A log that was exported as one JSON value: an array of records, or an answer that has one in it.

As Elasticsearch, CloudWatch, Datadog and Grafana hand them out. What is read is a file of these
records, one a line, as their collectors write it.
"""

from __future__ import annotations

from specdiag import clock, content, document
from specdiag.parser import Parser
from specdiag.recognition import Form, Head, choose
from specdiag.source import Source


def opened(file: Source, head: bytes, parsers: list[Parser]) -> Form | None:
    """How the lines in the records of a file are read, which it then has as `records`.

    None where it is no such export: then the file stays as it is.
    """
    level = document.level(head)
    if not level and not document.is_document(head):
        return None
    records = document.split(head, level or None)
    found = Head.of(records).opened()
    chosen = choose([one for one in parsers if one.format == "lines"], found)[0] if found else None
    if found is None or chosen is None:
        return None
    return found.form(chosen) if have_records(file, level) else None


def have_records(file: Source, level: int) -> bool:
    """Put the elements of a list in a document into a source's `records`, if they are not many.

    At level 0 they are the objects of a file that stand side by side.
    """
    data = whole(file)
    if data is None:
        return False
    keep(file, document.split(data, level or None))
    return True


def whole(file: Source) -> bytes | None:
    """All of a file, or None where that is too much, which is said."""
    data = content.whole(file)
    if data is None:
        file.warn(
            f"an export of more than {content.WHOLE >> 20} MB is not read",
            "export one record a line",
        )
    return data


def keep(file: Source, records: bytes) -> None:
    """Have a source read, and quoted, as these lines."""
    file.records = records
    file.quoted = lambda wanted: _quoted(records, wanted)


def turn(file: Source, form: Form, head: bytes) -> None:
    """Have the records of a file that begins with the newest line in the order of time."""
    first = (file.records[: content.HEAD] or head).decode("utf-8", "replace").splitlines()
    if not form.when or not clock.newest_first(first, form.when, form.wrapper):
        return
    data = file.records or content.whole(file)
    if data is None:
        file.warn("its newest line comes first", "sort it by time")
        return
    lines = [line for line in data.split(b"\n") if line.strip()]
    keep(file, b"\n".join(reversed(lines)))
    file.warn(
        "its newest line comes first: it is read from its end, and lines are counted from there",
        "export it with the oldest line first to have them counted as they stand",
    )


def _quoted(records: bytes, wanted: set[int]) -> dict[int, str]:
    lines = records.split(b"\n")
    return {n: lines[n - 1].decode("utf-8", "replace") for n in wanted if n <= len(lines)}
