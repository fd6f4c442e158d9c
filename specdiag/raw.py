"""Bytes to lines of text, without what terminals and collectors add."""

from __future__ import annotations

import io

import polars as pl

from specdiag import envelope

ANSI = r"\x1b\[[0-9;?]*[ -/]*[@-~]"


def text_of(data: bytes, line: int) -> pl.DataFrame:
    """(line, text), clean."""
    return clean(split(data, line))


def split(data: bytes, line: int, wrapper: str = "", inside: str = "") -> pl.DataFrame:
    """(line, text) of all lines, the first of which has number `line`, out of their wrappers.

    `inside` is the path of the lines in records.
    """
    if b"\0" in data:
        data = data.replace(b"\0", b"")
    try:
        frame = pl.read_lines(io.BytesIO(data), name="text")
    except pl.exceptions.PolarsError:
        data = data.decode("utf-8", "replace").encode()
        frame = pl.read_lines(io.BytesIO(data), name="text")
    frame = frame.select(pl.int_range(line, line + frame.height).alias("line"), "text")
    text = pl.col("text")
    if line == 1:
        frame = frame.with_columns(text.str.strip_prefix("\ufeff"))
    if inside:
        frame = envelope.opened(frame, inside)
    if wrapper:
        frame = frame.with_columns(text.str.replace(wrapper, ""))
    return frame


def clean(frame: pl.DataFrame) -> pl.DataFrame:
    """The lines as a terminal shows them; empty ones are left out."""
    text = pl.col("text")
    frame = _where(frame, text.str.contains("\x1b", literal=True), text.str.replace_all(ANSI, ""))
    # A progress bar redraws itself: only its last state is left on the screen.
    last_state = text.str.strip_suffix("\r").str.replace(r"^.*\r", "")
    frame = _where(frame, text.str.contains("\r", literal=True), last_state)
    return frame.filter(text.str.len_bytes() > 0)


def _where(frame: pl.DataFrame, mask: pl.Expr, then: pl.Expr) -> pl.DataFrame:
    """Apply an expensive expression to the few lines that need it."""
    marked = frame.with_columns(mask.alias("_"))
    few, rest = marked.filter(pl.col("_")), marked.filter(~pl.col("_"))
    if not few.height:
        return frame
    return pl.concat([rest, few.with_columns(then)]).drop("_").sort("line", maintain_order=True)
