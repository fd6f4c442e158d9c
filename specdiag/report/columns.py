"""Tables and paragraphs of plain text."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Collection, Sequence
from typing import Any

WIDTH = 96


def columns(head: list[str], rows: list[list[str]], left: Collection[int]) -> str:
    """Columns side by side, indented, some of them from the left."""
    return "\n".join(f"  {line}".rstrip() for line in _lines([head, *rows], left))


def ruled(head: list[str], rows: list[list[str]], right: Collection[int] = ()) -> str:
    """Columns side by side below a ruled heading, some of them from the right."""
    cells = [head, *rows]
    rule = ["-" * max(len(row[at]) for row in cells) for at in range(len(head))]
    left = [at for at in range(len(head)) if at not in right]
    return "\n".join(line.rstrip() for line in _lines([head, rule, *rows], left))


def _lines(cells: Sequence[list[str]], left: Collection[int]) -> list[str]:
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    return [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def separated(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().rstrip("\n")


def fill(text: str, indent: str = "") -> str:
    """A paragraph."""
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
