"""Values that stand under each other: a block of labels, or a table under headings.

These styles of `lines.py` need the lines around a line.
"""

from __future__ import annotations

import re

import polars as pl

from specdiag.parser import Event, Field, Parsed, Parser
from specdiag.values import NUMBER, cast

STYLES = ("columns", "table")
# `label:   value`, or `n_label = value`
LABELLED = r"^\s*(?:([a-z_]+) *= |([^:]+):)\s*(.*?)\s*$"


def read(parser: Parser, event: Event, frame: pl.DataFrame, parsed: Parsed) -> pl.DataFrame:
    """Read the event's blocks into `parsed`; what comes back are the other lines."""
    return (_columns if event.style == "columns" else _table)(parser, event, frame, parsed)


def _columns(parser: Parser, event: Event, frame: pl.DataFrame, parsed: Parsed) -> pl.DataFrame:
    """A block of `label:   value` lines becomes one row, at the line where the block starts."""
    text = pl.col("text")
    opens = text.str.contains(event.has[0], literal=True)
    if event.match:
        opens &= text.str.contains(event.match)
    marked = frame.sort("line").with_columns(
        block=pl.when(opens).then(pl.col("line")).forward_fill(),
        closes=text.str.contains(event.last) & ~opens,
    )
    ended = pl.col("closes").cum_sum().over("block") - pl.col("closes").cast(pl.UInt32)
    inside = marked.with_columns(_=pl.col("block").is_not_null() & (ended == 0))
    mine, rest = inside.filter(pl.col("_")), inside.filter(~pl.col("_"))
    if mine.height:
        labelled = mine.with_columns(
            label=pl.coalesce(
                text.str.extract(LABELLED, 1), text.str.extract(LABELLED, 2)
            ).str.strip_chars(),
            value=text.str.extract(LABELLED, 3),
        )
        columns = [_labelled(one).alias(one.column) for one in event.fields]
        rows = labelled.group_by("block", maintain_order=True).agg(columns)
        rows = rows.rename({"block": "line"})
        names = [*event.names, *parser.ignore]
        known = "|".join(re.escape(one).replace(r"\*", ".*") for one in names)
        unknown = labelled.filter(~pl.col("label").str.contains(f"^(?:{known})$"))
        for (label,) in unknown.select("label").iter_rows():
            parsed.unread[event.table, label] += 1
        parsed.rows(event, rows)
    return rest.select(frame.columns)


def _labelled(one: Field) -> pl.Expr:
    """The value of a field in a block: a list has one entry for each of its labels."""
    values = pl.col("value").filter(pl.col("label").is_in(list(one.names)))
    if one.type == "list":
        return cast(values.str.join(", "), one.type)
    value = values.first()
    if one.type in ("int", "float"):  # 3,999.51
        value = value.str.replace_all(r"([0-9]),([0-9]{3})", "${1}${2}")
    return cast(value, one.type)


def _table(parser: Parser, event: Event, frame: pl.DataFrame, parsed: Parsed) -> pl.DataFrame:
    """Cells under headings become rows of their own: one number, one row."""
    text = pl.col("text")
    heads = text.str.contains(event.head)
    marked = frame.sort("line").with_columns(
        heading=pl.when(heads).then(text).forward_fill(), head=heads,
        body=text.str.strip_chars().str.replace_all(event.last, "\0"),
    )  # fmt: skip
    mine = marked.filter(pl.col("heading").is_not_null())
    rest = marked.filter(pl.col("heading").is_null())
    for (heading,), rows in mine.group_by("heading", maintain_order=True):
        titles = [title.strip() for title in re.split(event.last, str(heading).strip(" #"))]
        cells = rows.with_columns(cell=pl.col("body").str.split("\0"))
        whole = cells.get_column("cell").list.len() == len(titles)
        rest = pl.concat([rest, rows.filter(~whole & ~rows.get_column("head"))])
        _cells(event, titles, cells.filter(whole & ~rows.get_column("head")), parsed)
    return rest.select(frame.columns)


def _cells(event: Event, titles: list[str], rows: pl.DataFrame, parsed: Parsed) -> None:
    """The cells of the rows under one heading."""
    cell = {title: pl.col("cell").list.get(n).str.strip_chars() for n, title in enumerate(titles)}
    shared = []
    for one in event.fields:
        found = [cell[name] for name in one.names if name in cell]
        if found:
            shared.append(cast(pl.concat_str(found, separator=" "), one.type).alias(one.column))
    for title in titles:
        if title in event.names:
            continue
        name, _, unit = title.removesuffix("]").partition(" [")
        values = rows.select(
            "line", *shared, pl.lit(name).alias("name"),
            pl.lit(unit or None, pl.String).alias("unit"),
            # Beside a number only its unit may stand: a serial number or a bus address is none.
            cast(cell[title].str.extract(rf"^{NUMBER}(?: ?[A-Za-z%/]+)?$", 1), "float")
            .alias("value"),
        )  # fmt: skip
        parsed.rows(event, values.drop_nulls("value"))


def heading(parser: Parser, head: list[str]) -> str:
    """The heading in a file's first lines, which its later blocks may lack."""
    for event in parser.events:
        if event.style == "table":
            return next((line for line in head if re.search(event.head, line)), "")
    return ""
