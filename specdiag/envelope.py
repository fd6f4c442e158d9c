"""Lines of a log inside of JSON records, one a line, as containers and collectors write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import polars as pl

# Docker and Fluent Bit, Kubernetes' and most loggers' own, journald, Google Cloud, Loki, Elastic,
# Datadog.
PATHS = (
    "log", "message", "msg", "MESSAGE", "textPayload", "jsonPayload.message", "line", "@message",
    "body", "_source.message", "_source.log", "content.message", "attributes.message",
    "fields.message", "event.original", "content",
)  # fmt: skip
LOOKED_AT = 50  # lines


def of(lines: Sequence[str]) -> str:
    """The path where most of the first lines, as records, have a text; empty if they are none."""
    looked_at = list(islice((line for line in lines if line.strip()), LOOKED_AT))
    records = [record for line in looked_at if isinstance(record := _record(line), dict)]
    for path in PATHS:
        texts = [text for one in records if isinstance(text := _at(one, path), str)]
        if len(texts) > len(looked_at) / 2:
            return path
    return ""


def opened(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    """(line, text) of what the records hold; lines that are no records stay as they are.

    A record may hold several lines, which share its number.
    """
    text = pl.col("text")
    outside = pl.when(~text.str.starts_with("{")).then(text)
    inside = text.str.json_path_match(place(path)).str.strip_chars_end("\r\n")
    frame = frame.with_columns(pl.coalesce(inside, outside).fill_null("").alias("text"))
    if frame.get_column("text").str.contains("\n", literal=True).any():
        frame = frame.with_columns(text.str.split("\n")).explode("text")
    return frame


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
