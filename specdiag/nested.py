"""Records inside of others that hold nothing to read themselves: what a script dumped at its end.

`{"config": ..., "results": [record, ...]}`, or the records under a name each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from specdiag.parser import Parser

DEEPEST = 3  # records around one that are looked through
LEAST = 2  # objects side by side, alike, that are records under names


def inside(parser: Parser, frame: pl.DataFrame) -> pl.DataFrame:
    """The records that stand in lists of these (line, text), on the line of the outer one.

    What names the run of the outer one names theirs.
    """
    found = [
        (line, json.dumps(one))
        for line, text in frame.select("line", "text").iter_rows()
        for one in _records(parser, text)
    ]
    return pl.DataFrame(found, schema={"line": pl.Int64, "text": pl.String}, orient="row")


def _records(parser: Parser, text: str) -> Iterator[dict[str, Any]]:
    try:
        outer = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(outer, dict):
        return
    arm = {key: outer[key] for key in parser.arm if isinstance(outer.get(key), str)}
    for one in (outer, *outer.values()):
        for inner in _side_by_side(one):
            yield {**arm, **inner}


def _side_by_side(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, or of an object that has nothing but objects that are alike."""
    if isinstance(value, list):
        return [one for one in value if isinstance(one, dict)]
    if not isinstance(value, dict) or len(value) < LEAST:
        return []
    inner = list(value.values())
    alike = all(isinstance(one, dict) and one.keys() == inner[0].keys() for one in inner)
    return inner if alike else []
