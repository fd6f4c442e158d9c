"""What stands before the message of a line: time, ranks, and whatever else a prefix has."""

from __future__ import annotations

import polars as pl

from specdiag.parser import Parser

FRACTION = "%.f"  # at the end of a format: without it polars reads a time six times faster


def message(parser: Parser, frame: pl.DataFrame) -> pl.DataFrame:
    """The lines with the prefix taken off and its groups as columns."""
    if not parser.prefix:
        return frame.with_columns(body=pl.col("text"))
    groups = pl.col("text").str.extract_groups(f"{parser.prefix}(?P<body>.*)$")
    return (
        frame.with_columns(groups.alias("_"))
        .unnest("_")
        .with_columns(pl.col("body").fill_null(pl.col("text")))
    )


def ranked(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the prefix's rank as a value."""
    if "rank" not in rows.columns:
        return rows
    rank = pl.col("rank").str.strip_chars()
    return rows.with_columns(pl.when(rank.str.len_bytes() > 0).then(rank).alias("rank"))


def timed(parser: Parser, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the prefix's time as a value."""
    if "time" not in rows.columns or rows.schema["time"] != pl.String:
        return rows
    text = rows.get_column("time")
    form = parser.time_format
    if "%Y" not in form:  # no year in the log: a leap year takes every date
        text, form = "2000-" + text, f"%Y-{form}"
    times = text.str.to_datetime(form.removesuffix(FRACTION), strict=False, time_unit="us")
    if times.null_count() > text.null_count():
        other = times.is_null()
        spaced = text.filter(other).str.replace("T", " ", literal=True)
        times = times.scatter(
            other.arg_true(), spaced.str.to_datetime(form, strict=False, time_unit="us")
        )
    return rows.with_columns(times.alias("time"))
