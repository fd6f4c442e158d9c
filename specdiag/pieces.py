"""Lines of more than 16 KB, which container runtimes write in pieces, put together again.

A piece says that it is one: by the tag P of Kubernetes, by a key that a collector adds, or, in
Docker's files, by its length and the line end that it has not. The line is where its first piece
is; the others are left as empty lines, so that none seems to be missing.
"""

from __future__ import annotations

import polars as pl

_TAG = r"^\S+ (?:stdout|stderr) P "
_STREAM = r"^\S+ (stdout|stderr) [FP] "
_KEYS = r'"(?:logtag"\s*:\s*"P"|partial_message"\s*:\s*"?true\b)'
_KEY = r'"stream"\s*:\s*"(stdout|stderr)"'
_SHORTEST, _LONGEST = (16 << 10) - 4, (16 << 10) + 64  # bytes of Docker's; a torn letter takes more


def tagged(frame: pl.DataFrame, wrapper: str) -> pl.DataFrame:
    """(..., text) with the pieces joined that are tagged, still in their wrappers."""
    text = pl.col("text")
    found = frame.select(
        text.str.contains(_TAG).alias("goes_on"), text.str.extract(_STREAM).alias("stream")
    )
    if not found.get_column("goes_on").any():
        return frame
    return _joined(frame, found, text.str.replace(wrapper, ""))


def recorded(records: pl.Series, frame: pl.DataFrame) -> pl.DataFrame:
    """(..., text), what `records` hold, with the pieces joined."""
    text = pl.col("text")
    long = text.str.len_bytes().is_between(_SHORTEST, _LONGEST) & ~text.str.ends_with("\n")
    goes_on = records.str.contains(_KEYS) | frame.select(long).to_series()
    if not goes_on.any():
        return frame
    return _joined(
        frame, pl.DataFrame({"goes_on": goes_on, "stream": records.str.extract(_KEY)}), text
    )


def _joined(frame: pl.DataFrame, found: pl.DataFrame, bare: pl.Expr) -> pl.DataFrame:
    """The frame with what `goes_on` joined to the next line of its stream, which is then `bare`."""
    behind = pl.col("goes_on").shift(fill_value=False).over("stream")
    found = found.select("stream", "goes_on", behind=behind).with_columns(
        nth=(~pl.col("behind")).cum_sum().over("stream")
    )
    wide = pl.concat([frame.with_row_index("row"), found], how="horizontal")
    piece = pl.when("behind").then(bare).otherwise("text")
    whole = (
        wide.filter(pl.col("goes_on") | pl.col("behind"))
        .group_by("stream", "nth", maintain_order=True)
        .agg(pl.col("row").first(), whole=piece.str.join(""))
    )
    return (
        wide.join(whole.select("row", "whole"), on="row", how="left", maintain_order="left")
        .with_columns(
            text=pl.when("behind").then(pl.lit("")).otherwise(pl.coalesce("whole", "text"))
        )
        .select(frame.columns)
    )
