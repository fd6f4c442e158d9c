"""A log that was exported as one JSON value: an array of records, or an answer that has one in it.

As Elasticsearch, CloudWatch, Datadog and Grafana hand them out. What is read is a file of these
records, one a line, as their collectors write it.
"""

from __future__ import annotations

from specdiag import content, document
from specdiag.parser import Parser
from specdiag.recognition import Form, Head, choose
from specdiag.source import Source
from specdiag.stretches import LARGEST_DOCUMENT


def opened(file: Source, head: bytes, parsers: list[Parser]) -> Form | None:
    """How the lines in the records of a file are read, which it then has as `records`.

    None where it is no such export: then the file stays as it is.
    """
    level = document.level(head)
    if not level:
        return None
    records = document.split(head, level)
    found = Head.of(records).opened()
    chosen = choose([one for one in parsers if one.format == "lines"], found)[0] if found else None
    if found is None or chosen is None:
        return None
    data = bytearray()
    for block in content.blocks(file, longest=LARGEST_DOCUMENT):
        data += block.data
        if len(data) > LARGEST_DOCUMENT:
            file.warn(
                f"a JSON value of more than {LARGEST_DOCUMENT >> 20} MB is not read",
                "export one record a line",
            )
            return None
    file.records = document.split(bytes(data), level)
    file.quoted = lambda wanted: _quoted(file.records, wanted)
    return found.form(chosen)


def _quoted(records: bytes, wanted: set[int]) -> dict[int, str]:
    lines = records.split(b"\n")
    return {n: lines[n - 1].decode("utf-8", "replace") for n in wanted if n <= len(lines)}
