"""What stands before the message of a line: time, ranks, and whatever else a prefix has."""

from __future__ import annotations

import polars as pl

from specdiag.parser import Parser


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
    time = pl.col("time").str.replace("T", " ", literal=True)
    if "%Y" not in parser.time_format:  # no year in the log: a leap year takes every date
        time = pl.lit("2000-") + time
    form = ("" if "%Y" in parser.time_format else "%Y-") + parser.time_format
    return rows.with_columns(time.str.to_datetime(form, strict=False, time_unit="us").alias("time"))
