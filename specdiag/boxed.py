"""Logs in the answers of query tools, in notebooks and in sheets, as JSON records, one a line.

What `export.py` opens are records side by side. Here the lines stand deeper, in pairs, or in cells;
what is read is a file of records that say the same.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from specdiag import content, export
from specdiag.source import Source

# The columns of a sheet that hold lines, and those that hold their times.
LINE = (
    "_raw", "@message", "message", "line", "log", "logentry", "logmessage", "log_s", "textpayload",
)  # fmt: skip
TIME = re.compile(r"_time|@?timestamp.*|time|date|datetime|timegenerated.*", re.IGNORECASE)
COUNTERS = re.compile(r"token|latency|prompt", re.IGNORECASE)  # of requests, whatever they hold
LONGEST_CELL, LONGEST_HEADING = 1 << 24, 2000
BETWEEN = " \t\r\n,\ufeff"  # values

LOG = "log"  # where a record has its line: before all that labels may be called

Record = dict[str, Any]


@dataclass(frozen=True)
class Box:
    """How lines are boxed: whether a file that begins so is of this kind, and its records."""

    fits: Callable[[bytes], object]
    records: Callable[[str], Iterator[Record]]


def head(file: Source) -> bytes:
    """The first lines of a file; of one that is boxed those of the records that it then has."""
    if file.records:
        return file.records[: content.HEAD]
    first = content.head(file)
    for box in BOXES:
        if box.fits(first):
            data = export.whole(file)
            found = b"" if data is None else _lines(box, data.decode("utf-8", "replace"))
            if found:
                export.keep(file, found)
                return found[: content.HEAD]
    return first


def _lines(box: Box, text: str) -> bytes:
    try:
        return b"\n".join(json.dumps(one).encode() for one in box.records(text))
    except (AttributeError, KeyError, TypeError, ValueError, csv.Error):  # it only began like one
        return b""


def _values(text: str) -> Iterator[Any]:
    """JSON values that stand behind each other, up to the first broken one."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        while at < len(text) and text[at] in BETWEEN:
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def _named(value: Any, key: str, deepest: int = 8) -> Iterator[Record]:
    """The objects inside of a value that have a list under this key."""
    if isinstance(value, dict) and isinstance(value.get(key), list):
        yield value
    elif isinstance(value, dict | list) and deepest:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _named(one, key, deepest - 1)


def _loki(text: str) -> Iterator[Record]:
    """Streams, each with its labels and pairs of time and line, in the order of time."""
    found = []
    for value in _values(text):
        for stream in _named(value, "values"):
            labels = stream.get("stream")
            pairs = [one for one in stream["values"] if isinstance(one, list) and len(one) > 1]
            if len(pairs) > 1 and int(pairs[0][0]) > int(pairs[-1][0]):
                pairs.reverse()  # lines of one moment stay in their order
            found += [
                {**(labels if isinstance(labels, dict) else {}), "time": one[0], LOG: one[1]}
                for one in pairs
            ]
    yield from sorted(found, key=lambda one: int(one["time"]))


def _insights(text: str) -> Iterator[Record]:
    """Results of a query, each a list of fields."""
    for value in _values(text):
        for answer in _named(value, "results"):
            for fields in answer["results"]:
                yield {one["field"]: one.get("value") for one in fields if one["field"] != "@ptr"}


def _telemetry(text: str) -> Iterator[Record]:
    """OpenTelemetry's records, with the attributes of what wrote them."""
    for value in _values(text):
        for resource in _named(value, "resourceLogs"):
            for written in resource["resourceLogs"]:
                attributes = (written.get("resource") or {}).get("attributes") or []
                labels = {one["key"]: (one.get("value") or {}).get("stringValue")
                          for one in attributes}  # fmt: skip
                for scope in _named(written, "logRecords"):
                    for one in scope["logRecords"]:
                        yield {**labels, "time": one.get("timeUnixNano"),
                               LOG: (one.get("body") or {}).get("stringValue")}  # fmt: skip


def _notebook(text: str) -> Iterator[Record]:
    """What the cells of a notebook printed."""
    for value in _values(text):
        for book in _named(value, "cells"):
            for cell in book["cells"]:
                for output in cell.get("outputs") or []:
                    printed = output.get("text") or []
                    whole = printed if isinstance(printed, str) else "".join(printed)
                    yield from ({LOG: line} for line in whole.split("\n"))


def _journal(text: str) -> Iterator[Record]:
    """Entries of journald with a field on each line, as `-o export` and `-o verbose` show them."""
    for entry in re.split("^(?=__CURSOR=|[A-Z][a-z]{2} 20)", text, flags=re.MULTILINE):
        fields = dict(re.findall(r"^ *([A-Z_]+)=(.*)$", entry, re.MULTILINE))
        binary = re.search(r"^MESSAGE\n(.{8})", entry, re.MULTILINE | re.DOTALL)
        if binary:
            fields["MESSAGE"] = _sized(binary[1], entry[binary.end() :])
        if "MESSAGE" in fields:
            yield fields | {"time": fields.get("_SOURCE_REALTIME_TIMESTAMP")}


def _sized(size: str, text: str) -> str:
    """A field that has its size in bytes before it, as journald exports what is no plain text.

    Where the size was no text either, it ends at the next field.
    """
    if size.isascii():
        length = int.from_bytes(size.encode(), "little")
        return text.encode()[:length].decode("utf-8", "replace")
    return re.split(r"\n(?=[A-Z_][A-Z0-9_]*(?:=|\n)|\Z)", text)[0]


def _azure(text: str) -> Iterator[Record]:
    """Rows of a query's tables, below the columns that they have, in the order of time."""
    for value in _values(text):
        for answer in _named(value, "tables"):
            for table in answer["tables"]:
                names, line, time = _columns([one["name"] for one in table["columns"]])
                if not line:
                    continue
                rows = [dict(zip(names, row, strict=False)) for row in table["rows"]]
                if len(rows) > 1 and str(rows[0].get(time)) > str(rows[-1].get(time)):
                    rows.reverse()  # lines of one moment stay in their order
                for row in rows:
                    yield row | {"time": row.get(time), LOG: row.get(line)}


def _container(text: str) -> Iterator[Record]:
    """Records over several lines, each of which has Kubernetes' prefix."""
    bare = re.sub(r"^\S+ (?:stdout|stderr) [FP] ", "", text, flags=re.MULTILINE)
    yield from (one for one in _values(bare) if isinstance(one, dict))


def _cloud(text: str) -> Iterator[Record]:
    """Entries of Google Cloud in YAML, as `gcloud logging read` prints them."""
    for entry in re.split("^---$", text, flags=re.MULTILINE):
        fields = dict(
            re.findall(r"^(textPayload|timestamp): (.*(?:\n(?:  .*|$))*)", entry, re.MULTILINE)
        )
        if "textPayload" in fields:
            yield {
                "time": _scalar(fields.get("timestamp", "")),
                LOG: _scalar(fields["textPayload"]),
            }


def _scalar(text: str) -> Any:
    """A string of YAML: a block, quoted, or plain; all but a block go on behind a folded line."""
    first, *rest = text.strip().split("\n")
    if first.startswith("|"):
        return "\n".join(line[2:] for line in rest)
    folded = re.sub(r"\n\s*", " ", text.strip())
    if folded.startswith('"'):
        return json.loads(folded.replace("\\ ", " "))
    return folded[1:-1].replace("''", "'") if folded.startswith("'") else folded


def _sheet(text: str) -> Iterator[Record]:
    """The rows of a sheet that has a column of lines and one of their times."""
    csv.field_size_limit(LONGEST_CELL)
    rows = csv.reader(io.StringIO(text, newline=""))
    names, line, time = _columns(next(rows, []))
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        yield cells | {"time": cells.get(time), LOG: cells.get(line)}


def _columns(heading: Sequence[str]) -> tuple[list[str], str, str]:
    """The names in a heading, and which of them has the lines and which the times, if any."""
    names = [name.strip(" \ufeff") for name in heading]
    line = next((name for wanted in LINE for name in names if name.lower() == wanted), "")
    time = next((name for name in names if TIME.fullmatch(name)), "")
    return names, line, time


def _is_sheet(head: bytes) -> bool:
    first = head.partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    if len(first) > LONGEST_HEADING or "," not in first or "\r" in first:
        return False
    names, line, time = _columns(next(csv.reader([first]), []))
    return bool(line and time) and not any(map(COUNTERS.search, names))


def _mark(pattern: bytes) -> Callable[[bytes], object]:
    return re.compile(rb"\s*(?:\xef\xbb\xbf)?" + pattern, re.DOTALL).match


BOXES = (
    Box(_mark(rb'\{.{0,2000}?"(?:result|streams)"\s*:\s*\[\s*\{\s*"(?:stream|values)"\s*:'), _loki),
    Box(_mark(rb'\{.{0,2000}?"results"\s*:\s*\[\s*\[\s*\{\s*"field"\s*:'), _insights),
    Box(_mark(rb'\{\s*"resourceLogs"\s*:\s*\['), _telemetry),
    Box(_mark(rb'\{.{0,20000}?"cells"\s*:\s*\[.{0,20000}?"cell_type"\s*:'), _notebook),
    Box(
        _mark(rb"(?:__CURSOR=|[A-Z][a-z]{2} 20\S+ \S+ \S+ \[s=).{0,20000}?\n *MESSAGE[=\n]"),
        _journal,
    ),
    Box(_mark(rb'\{\s*"tables"\s*:\s*\[\s*\{.{0,2000}?"columns"\s*:\s*\['), _azure),
    Box(_mark(rb"20\S+ (?:stdout|stderr) F \{\s*\n20\S+ (?:stdout|stderr) F \s+\""), _container),
    Box(_mark(rb"(?:---\n)?insertId: .{0,20000}?\ntextPayload: "), _cloud),
    Box(_is_sheet, _sheet),
)
