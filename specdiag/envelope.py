"""Lines of a log inside of JSON records, one a line, as containers and collectors write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import polars as pl

from specdiag import pieces

# Docker and Fluent Bit, Kubernetes' and most loggers' own, journald, Google Cloud, Loki, Elastic,
# Datadog, Azure.
PATHS = (
    "log", "message", "msg", "MESSAGE", "textPayload", "jsonPayload.message", "line", "@message",
    "body", "_source.message", "_source.log", "content.message", "attributes.message",
    "fields.message", "event.original", "content", "LogEntry", "LogMessage", "Log_s",
)  # fmt: skip
LOOKED_AT = 50  # lines
# journald hands out a message with control characters, as colours have, as a list of its bytes.
IN_BYTES, BYTES = "MESSAGE", r"^\[[0-9]+(?:, ?[0-9]+)*\]$"


def of(lines: Sequence[str]) -> str:
    """The path where most of the first lines, as records, have a text; empty if they are none."""
    looked_at = list(islice((line for line in lines if line.strip()), LOOKED_AT))
    records = [record for line in looked_at if isinstance(record := _record(line), dict)]
    for path in PATHS:
        kinds = (str, list) if path == IN_BYTES else (str,)
        texts = [one for one in records if isinstance(_at(one, path), kinds)]
        if len(texts) > len(looked_at) / 2:
            return path
    return ""


def opened(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    """(line, text) of what the records hold; lines that are no records stay as they are.

    A record may hold several lines, which share its number.
    """
    text = pl.col("text")
    outside = pl.when(~text.str.starts_with("{")).then(text)
    inside = text.str.json_path_match(place(path))
    records = frame.get_column("text")
    frame = frame.with_columns(pl.coalesce(inside, outside).fill_null("").alias("text"))
    if path == IN_BYTES:
        frame = frame.with_columns(_decoded(frame.get_column("text")))
    frame = pieces.recorded(records, frame)
    frame = frame.with_columns(text.str.strip_chars_end("\r\n"))
    if frame.get_column("text").str.contains("\n", literal=True).any():
        frame = frame.with_columns(text.str.split("\n")).explode("text")
    return frame


def _decoded(text: pl.Series) -> pl.Series:
    """Texts, those that are lists of bytes as what they say."""
    listed = text.str.contains(BYTES)
    found = [json.loads(one) for one in text.filter(listed)]
    said = [bytes(min(byte, 255) for byte in one).decode("utf-8", "replace") for one in found]
    return text.scatter(listed.arg_true(), said) if said else text


def place(path: str) -> str:
    """The JSON path of a path."""
    return "$" + "".join(f"['{part}']" for part in path.split("."))


def _record(line: str) -> Any:
    if not line.startswith("{"):
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _at(record: Any, path: str) -> Any:
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record
