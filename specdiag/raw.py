"""Bytes to lines of text, without what terminals and collectors add."""

from __future__ import annotations

import io
import re

import polars as pl

from specdiag import clock, envelope, pieces
from specdiag.source import Own

# What is pasted from a terminal has lost the escape character of its colours.
ANSI = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\[(?:[01];)?(?:0|3[0-9]|9[0-7])m"
_COLOURED = ["\x1b", "[0m", "[0;0m"]  # one of which every line with colours has


def text_of(data: bytes, line: int) -> pl.DataFrame:
    """(line, text), clean."""
    return clean(split(data, line))


def split(
    data: bytes, line: int, wrapper: str = "", inside: str = "", own: Own | None = None,
    when: str = "",
) -> pl.DataFrame:  # fmt: skip
    """(line, text) of all lines, the first of which has number `line`, out of their wrappers.

    `inside` is the path of the lines in records. Where only the `own` lines of a writer are wanted,
    `nth` tells which of them are neighbours. `outer` is what they were taken out of, if `when`
    says where the time stands in it.
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
    if own:
        frame = _plain(frame)
        mine = text.str.contains(own.pattern)
        frame = frame.filter(~mine if own.others else mine).with_row_index("nth")
        if own.strips:
            frame = frame.with_columns(text.str.replace(own.pattern, ""))
    if when and inside:
        frame = frame.with_columns(outer=text)
    if inside:
        frame = envelope.opened(frame, inside)
    if wrapper:
        frame = _plain(frame)
        if b" P " in data:
            frame = pieces.tagged(frame, wrapper)
        if when == clock.WRAPPER:
            frame = frame.with_columns(outer=text)
        frame = frame.with_columns(text.str.replace(wrapper, ""))
    if when == clock.DAYLESS:
        frame = _plain(frame).with_columns(text.str.replace(clock.CLOCK, clock.SOME_DAY))
    return frame


def parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Lines between which no line is missing share their `part`; one of another's is no gap."""
    place = "nth" if "nth" in frame.columns else "line"
    gap = (pl.col(place).cast(pl.Int64).diff() > 1).fill_null(False)
    return frame.with_columns(part=gap.cum_sum()).select("line", "text", "part")


def plain(text: str) -> str:
    """A line without colours."""
    return re.sub(ANSI, "", text) if any(one in text for one in _COLOURED) else text


def clean(frame: pl.DataFrame) -> pl.DataFrame:
    """The lines as a terminal shows them; empty ones are left out."""
    text = pl.col("text")
    frame = _plain(frame)
    # A progress bar redraws itself: only its last state is left on the screen.
    last_state = text.str.strip_suffix("\r").str.replace(r"^.*\r", "")
    frame = _where(frame, text.str.contains("\r", literal=True), last_state)
    return frame.filter(text.str.len_bytes() > 0)


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("text")
    return _where(frame, text.str.contains_any(_COLOURED), text.str.replace_all(ANSI, ""))


def _where(frame: pl.DataFrame, mask: pl.Expr, then: pl.Expr) -> pl.DataFrame:
    """Apply an expensive expression to the few lines that need it."""
    marked = frame.with_columns(mask.alias("_"))
    few, rest = marked.filter(pl.col("_")), marked.filter(~pl.col("_"))
    if not few.height:
        return frame
    return pl.concat([rest, few.with_columns(then)]).drop("_").sort("line", maintain_order=True)
