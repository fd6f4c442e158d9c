"""What a server was started with, as Python prints it: pairs of a call or of a dictionary."""

from __future__ import annotations

import polars as pl

from specdiag.parser import Event

QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
ARGUMENT = (
    r"['\"]?[A-Za-z_][A-Za-z0-9_]*['\"]?(?:=|: )"
    rf"(?:{QUOTED}|\[(?:[^\[\]]|\[[^\]]*\])*\]|\{{[^}}]*\}}|[A-Za-z_]+\([^()]*\)|<[^>]*>|[^,(){{}}'\"]+)"
)


def read(event: Event, frame: pl.DataFrame) -> pl.DataFrame:
    """A row (key, value) for each pair; a pair inside a value is `outer.key`."""
    message = pl.col("body").str.replace(event.head or r"^[^({]*[({]", "")
    pairs = _pairs(frame.with_columns(pair=message.str.extract_all(ARGUMENT)))
    compound = pl.col("value").str.contains(r"^[A-Za-z_]*[({].*[)}]$")
    inner = pl.col("value").str.replace(r"^[^({]*[({]", "").str.extract_all(ARGUMENT)
    nested = _pairs(
        pairs.filter(compound).with_columns(outer=pl.col("key"), pair=inner)
    ).with_columns(key=pl.concat_str("outer", pl.lit("."), "key"))
    rows = pl.concat([pairs, nested.drop("outer")])
    renamed = {name: one.column for name, one in event.names.items()}
    if event.only:
        rows = rows.filter(pl.col("key").is_in(list(renamed)))
    return (
        rows.with_columns(pl.col("key").replace(renamed))
        .unique(["line", "key"], keep="first", maintain_order=True)
        .drop("text", "body", "pair", "record", "inside")
    )


def _pairs(frame: pl.DataFrame) -> pl.DataFrame:
    """One row (key, value) for each text of the lists in `pair`."""
    value = pl.col("pair").str.replace(r"^['\"]?[A-Za-z0-9_]+['\"]?(?:=|: )", "")
    return (
        frame.explode("pair")
        .drop_nulls("pair")
        .with_columns(
            key=pl.col("pair").str.extract(r"^['\"]?([A-Za-z0-9_]+)", 1),
            value=value.str.strip_chars(" ").str.strip_chars("'\""),
        )
    )
