"""Texts as values of a type, whole columns at a time; null where a text is none."""

from __future__ import annotations

import polars as pl

EPOCH = 1e11  # a larger number of seconds is one of milliseconds
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
        case "time":
            return moment(value)
        case "clock":
            minutes = value.str.extract(r"^([0-9]+)\.", 1).cast(pl.Float64, strict=False)
            return 60 * minutes + cast(value.str.extract(r"^[0-9]+\.([0-9.]+)$", 1), "float")
        case _:
            return value


def moment(value: pl.Expr) -> pl.Expr:
    """A date and time as people and programs write it, or seconds or milliseconds since 1970.

    What an offset or a zone says is left out: times are the log's own clock.
    """
    since = value.str.extract(r"^([0-9]{9,10}(?:\.[0-9]+)?|[0-9]{12,13})$", 1)
    since = since.cast(pl.Float64, strict=False)
    seconds = pl.when(since > EPOCH).then(since / 1000).otherwise(since)
    plain = value.str.replace_all(r"[T_/]", " ").str.replace(r"^([0-9]{4})-([0-9]{2})-", "$1 $2 ")
    plain = plain.str.replace(r"^([0-9]{4})([0-9]{2})([0-9]{2}) ", "$1 $2 $3 ")
    named = value.str.replace(r"^[A-Z][a-z]{2},? ", "").str.replace(
        r" [A-Z]{3,4}( [0-9]{4})$", "$1"
    )
    return pl.coalesce(
        (seconds * 1e6).cast(pl.Int64).cast(pl.Datetime("us")),
        plain.str.extract(r"^([0-9]{4} [0-9]{2} [0-9]{2} [0-9:]{8}(?:[.,][0-9]+)?)", 1)
        .str.replace(",", ".")
        .str.to_datetime("%Y %m %d %H:%M:%S%.f", strict=False, time_unit="us"),
        named.str.to_datetime("%b %e %H:%M:%S %Y", strict=False, time_unit="us"),
        named.str.to_datetime("%d %b %Y %I:%M:%S %p", strict=False, time_unit="us"),
    )


def objects(pairs: pl.DataFrame) -> pl.DataFrame:
    """(row, extra) of (row, key, value): the pairs of a row as one JSON object of texts."""
    item = pl.concat_str(json_text("key"), pl.lit(": "), json_text("value"))
    joined = pl.concat_str(pl.lit("{"), pl.col("item").str.join(", "), pl.lit("}"))
    return (
        pairs.select("row", item.alias("item"))
        .group_by("row", maintain_order=True)
        .agg(joined.alias("extra"))
    )


def json_text(column: str) -> pl.Expr:
    """A text quoted and escaped as JSON has it."""
    encoded = pl.struct(pl.col(column).alias("_")).struct.json_encode()
    return encoded.str.strip_prefix('{"_":').str.strip_suffix("}")
