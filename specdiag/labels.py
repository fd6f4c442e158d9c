"""`label: value, label: value` lines: a template learned from one line reads all lines like it.

Every release of a server moves, adds or drops a label. A template is the anchored pattern of one
line with a group for every value, so that a whole block of such lines is read in one pass, and a
label that nobody knows is seen at once.
"""

from __future__ import annotations

import re

import polars as pl

from specdiag import prefix
from specdiag.parser import Event, Parsed, Parser
from specdiag.values import cast, objects

QUICK = {"int": pl.Int64, "float": pl.Float64}
TEMPLATES = 12  # shapes of one kind that are learned in a block; more are read label by label


def read(parser: Parser, event: Event, frame: pl.DataFrame, parsed: Parsed) -> pl.DataFrame:
    """The event's rows; labels that no field knows are counted in `parsed`."""
    names = event.names
    whole = f"{parser.prefix}{event.head}"
    done: list[pl.DataFrame] = []
    left = frame.drop("record", "inside")
    odd = left.clear()
    for _ in range(TEMPLATES):
        if not left.height:
            break
        learned = learn(parser, event, left.get_column("text")[0])
        if learned is None:
            odd, left = pl.concat([odd, left.head(1)]), left.slice(1)
            continue
        template, labels = learned
        groups = pl.col("text").str.extract_groups(template).alias("_")
        matched = left.with_columns(groups).unnest("_")
        hit = matched.get_column("v0").is_not_null()
        if not template.startswith(whole):  # a torn line; others like it say their time
            hit &= ~left.get_column("text").str.contains(whole)
        rows, left = matched.filter(hit), left.filter(~hit)
        for label in labels:
            if label not in names and label not in parser.ignore:
                parsed.unread[event.table, label] += rows.height
        done.append(_labelled(parser, event, rows, labels))
    left = pl.concat([odd, left])
    if left.height:
        done.append(_label_by_label(parser, event, left, parsed))
    rows = pl.concat(done, how="diagonal")
    if event.needs:
        missing = not set(event.needs) <= set(rows.columns)
        given = [pl.col(column).is_not_null() for column in event.needs if column in rows.columns]
        complete = pl.lit(False) if missing else pl.all_horizontal(given)
        rows = rows.with_columns(complete=complete)
    return rows


def learn(parser: Parser, event: Event, line: str) -> tuple[str, list[str]] | None:
    """The anchored pattern of a line, with groups v0, v1, ... for the values of its labels."""
    found = re.match(f"{parser.prefix}{event.head}", line)
    before = parser.prefix
    if not found:
        found = re.match(f"(?:.*?[^A-Za-z])?{event.head}", line)
        before = "^.*?"
    if not found:
        return None
    labels: list[str] = []
    pieces: list[str] = []
    for item in re.split(r", ?", line[found.end() :].rstrip(" ,")):
        label, colon, _ = item.partition(": ")
        if label in labels:  # two records in one line
            return None
        if colon:
            labels.append(label)
            pieces.append(f"{escape(label)}: (?P<v{len(labels) - 1}>[^,]*)")
        elif labels:  # a value that holds a comma goes on
            pieces[-1] = pieces[-1].removesuffix(")") + ", ?[^,:]*)"
        else:
            return None
    if not labels:
        return None
    return f"{before}{event.head}{', '.join(pieces)}[, ]*$", labels


def escape(text: str) -> str:
    return re.sub(r"([.^$*+?()\[\]{}|\\/#&~-])", r"\\\1", text)


def _labelled(parser: Parser, event: Event, rows: pl.DataFrame, labels: list[str]) -> pl.DataFrame:
    columns: list[pl.Expr] = []
    values: dict[str, pl.Expr] = {}
    for one in event.fields:
        mine = [pl.col(f"v{labels.index(name)}") for name in one.names if name in labels]
        if mine:
            values[one.column] = pl.coalesce(mine)
    extra = [(n, label) for n, label in enumerate(labels) if label not in event.names]
    extra = [(n, label) for n, label in extra if label not in parser.ignore]
    if extra:
        pairs = pl.struct(pl.col(f"v{n}").alias(label) for n, label in extra)
        columns.append(pairs.struct.json_encode().alias("extra"))
    outside = [c for c in rows.columns if c != "text" and not re.fullmatch(r"v[0-9]+", c)]
    # A plain cast reads nearly everything; where it leaves a gap, the tolerant one is worth it.
    quick = {one.column: QUICK[one.type] for one in event.fields if one.type in QUICK}
    plain = [
        value.cast(quick[column], strict=False).alias(column)
        for column, value in values.items() if column in quick
    ]  # fmt: skip
    found = rows.select(*outside, *columns, *plain)
    gaps = [
        one for one in event.fields
        if one.column in values
        and (one.column not in quick or found.get_column(one.column).null_count() > 0)
    ]  # fmt: skip
    slow = rows.select(cast(values[one.column], one.type).alias(one.column) for one in gaps)
    return found.with_columns(slow)


def _label_by_label(
    parser: Parser, event: Event, frame: pl.DataFrame, parsed: Parsed
) -> pl.DataFrame:
    """The slow way, for lines of which too few look alike: torn ones, mostly."""
    columns = []
    for one in event.fields:
        found = [
            pl.col("body").str.extract(rf"(?:^|[ ,\"]){escape(name)}: ([^,\"]*)", 1)
            for name in one.names
        ]
        columns.append(cast(pl.coalesce(found), one.type).alias(one.column))
    rows = prefix.message(parser, frame).with_row_index("row")
    if "(?P<" in event.head:
        groups = pl.col("body").str.extract_groups(f"^{event.head}").alias("_")
        rows = rows.with_columns(groups).unnest("_")
    behind = pl.col("body").str.replace(f"^{event.head}", "")
    pairs = (
        rows.select("row", behind.str.extract_all(r"[^,:]+: [^,]*").alias("pair"))
        .explode("pair")
        .drop_nulls("pair")
        .with_columns(
            pl.col("pair").str.extract(r"^ *([^:]+): ", 1).alias("key"),
            pl.col("pair").str.extract(r": (.*)$", 1).alias("value"),
        )
        .filter(~pl.col("key").is_in([*event.names, *parser.ignore]))
    )
    for label, lines in pairs.group_by("key").len().iter_rows():
        parsed.unread[event.table, label] += lines
    rows = rows.with_columns(columns).drop("text", "body")
    return rows.join(objects(pairs), on="row", how="left").drop("row")
