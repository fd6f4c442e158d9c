"""Texts as values of a type, whole columns at a time; null where a text is none."""

from __future__ import annotations

import polars as pl

NUMBER = r"(-?[0-9][0-9_]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?)"


def cast(value: pl.Expr, type: str) -> pl.Expr:
    """A text as a value of a type; null where it is none."""
    match type:
        case "int":
            return value.str.extract(NUMBER, 1).cast(pl.Float64, strict=False).cast(
                pl.Int64, strict=False
            )  # fmt: skip
        case "float":
            plain = value.cast(pl.Float64, strict=False)
            number = pl.coalesce(plain, value.str.extract(NUMBER, 1).cast(pl.Float64, strict=False))
            return pl.when(number.is_finite()).then(number)
        case "percent":
            return cast(value, "float") / 100
        case "bool":
            return value.str.strip_chars().replace_strict(
                {"True": True, "False": False, "true": True, "false": False},
                default=None, return_dtype=pl.Boolean,
            )  # fmt: skip
        case "list":
            return value.str.extract_all(NUMBER).cast(pl.List(pl.Float64), strict=False)
        case "texts":
            return value.str.extract_all(r"[^\[\],'\" ]+")
        case "mean":
            return value.str.extract_all(NUMBER).cast(pl.List(pl.Float64), strict=False).list.mean()
        case "count":
            numbers = value.str.extract_all(NUMBER).list.len().cast(pl.Int64)
            return pl.when(value.str.starts_with("[")).then(numbers)
        case _:
            return value


def objects(pairs: pl.DataFrame) -> pl.DataFrame:
    """(row, extra) of (row, key, value): the pairs of a row as one JSON object of texts."""
    item = pl.concat_str(_json_text("key"), pl.lit(": "), _json_text("value"))
    joined = pl.concat_str(pl.lit("{"), pl.col("item").str.join(", "), pl.lit("}"))
    return (
        pairs.select("row", item.alias("item"))
        .group_by("row", maintain_order=True)
        .agg(joined.alias("extra"))
    )


def _json_text(column: str) -> pl.Expr:
    """A text quoted and escaped as JSON has it."""
    encoded = pl.struct(pl.col(column).alias("_")).struct.json_encode()
    return encoded.str.strip_prefix('{"_":').str.strip_suffix("}")
