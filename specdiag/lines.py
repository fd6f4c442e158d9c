"""Lines of text to columns, without a Python loop over lines.

How an event finds its lines: `has` (literals, one of which is in the line), then `match`.
How it reads them, by `style`:

fields     every field is a pattern of its own with one group, applied to the message
labels     `label: value, label: value`: a template is learned from a line and applied to all
           lines like it, so that a moved, missing or new label costs nothing and is seen
pairs      `key=value` or `key: value` anywhere in the message, in any order
arguments  `key=value, 'key': value` of a Python repr, after `head` or the first bracket; every
           pair becomes a row (key, value), a pair inside a value as `outer.key`; fields rename, and
           with `only` they choose
columns    a block of `label:   value` or `n_label = value` lines, from the line that has `has` (and
           fits `match`) to the one with `last`; a field of type list takes the values of all its
           labels; in `ignore`, * is any text
table      rows under a heading that matches `head`; a row takes the nearest heading above it. Cells
           stand apart by `last`. Every number becomes a row (name, value, unit); the columns that
           fields name are read for all cells of their row. Headings may repeat, or not

Only `time`, `rank` and other groups of the parser's `prefix` come from outside the message, and
a field of type clock: minutes and seconds since the start, as `12.34.567`, in seconds.
Patterns are Rust regexes: no look-around, and the same in Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from specdiag import arguments, blocks, clock, cuts, labels, prefix, raw
from specdiag.parser import Event, Parsed, Parser
from specdiag.source import Own
from specdiag.values import cast, objects

PAIR = (  # after a colon only figures and lists, or a heading would pass for a key
    r"[A-Za-z_][A-Za-z0-9_.]*['\"]?(?:\s*=\s*(?:\[[^\]]*\]|[^\s,;|()\[\]{}]+)"
    r"|\s*:\s*(?:\[[^\]]*\]|-?[0-9][^\s,;|()\[\]{}]*))"
)
FEW = 0.25  # of the lines of a block
SHOWN = 5  # lines not understood that are kept for the report


@dataclass(frozen=True)
class Begun:
    """What a block gave so far, the lines that are left, and the number of its first one."""

    parsed: Parsed
    left: pl.DataFrame
    line: int
    times: pl.DataFrame | None = None  # (line, at): when a collector took them


def read(
    parser: Parser, data: bytes, line: int, wrapper: str = "", inside: str = "",
    own: Own | None = None, when: str = "",
) -> Parsed:  # fmt: skip
    """All rows of a block of lines; see `parser.Parsed`."""
    return finish(parser, [begin(parser, data, line, wrapper, inside, own, when)])


def begin(
    parser: Parser, data: bytes, line: int, wrapper: str = "", inside: str = "",
    own: Own | None = None, when: str = "",
) -> Begun:  # fmt: skip
    """Read what is frequent."""
    parsed = Parsed()
    left = raw.split(data, line, wrapper, inside, own, when)
    outer = left.select("line", "outer") if "outer" in left.columns else None
    left = left.drop("outer", strict=False)
    count = left.height
    for event in parser.events:
        if cuts.serves(event):
            left = cuts.read(parser, event, left, parsed)
    times = clock.times(parser, parsed, left, outer, when, wrapper) if outer is not None else None
    if left.height < FEW * count:  # copied, or these few lines would keep the whole block alive
        texts = pl.Series("text", left.get_column("text").to_list(), dtype=pl.String)
        left = left.with_columns(texts)
    return Begun(parsed, left, line, times)


def finish(parser: Parser, begun: list[Begun]) -> Parsed:
    """Read the lines that are left of blocks that follow each other: together, these are few."""
    parsed = Parsed()
    left = _records(parser, raw.clean(raw.parts(pl.concat([one.left for one in begun]))))
    parsed.lines += left.get_column("line").n_unique()
    first = [event for event in parser.events if event.common or event.style in blocks.STYLES]
    rare = [event for event in parser.events if event not in first]
    for event in first:
        left = _take(parser, event, left, parsed)
    literals = sorted({text for event in rare for text in event.has})
    if literals and all(event.has for event in rare):
        maybe = _contains(left, literals)
        candidates, left = left.filter(maybe), left.filter(~maybe)
    else:
        candidates, left = left, left.clear()
    present = _present(candidates, literals) if literals else set()
    for event in rare:
        if not event.has or any(literal.lower() in present for literal in event.has):
            candidates = _take(parser, event, candidates, parsed)
    left = pl.concat([left, candidates])
    strangers = _strangers(parser, left).sort("line")
    parsed.understood = parsed.lines - strangers.get_column("line").n_unique()
    parsed.strangers = list(strangers.head(SHOWN).select("line", "text").iter_rows())
    found = _together(begun, parsed)
    times = [one.times for one in begun if one.times is not None]
    if times:
        clock.told(parser, found, pl.concat(times))
    return found


def _together(begun: list[Begun], rest: Parsed) -> Parsed:
    """What the blocks gave and the rest of their lines: of a table each row beside its block's."""
    parsed = Parsed()
    late = {
        table: pl.concat(rest.frames.pop(table), how="diagonal_relaxed")
        for one in begun for table in one.parsed.frames if table in rest.frames
    }  # fmt: skip
    for one, after in zip(begun, [*begun[1:], None], strict=True):
        parsed.merge(one.parsed)
        for table, frame in late.items():
            line = pl.col("line")
            parsed.add(table, frame.filter(line >= one.line, line < after.line if after else True))
    parsed.merge(rest)
    return parsed


def _records(parser: Parser, frame: pl.DataFrame) -> pl.DataFrame:
    """(line, text, record, inside): records that share a line are parted.

    `record` tells whether the text starts a record, and `inside` whether the last start before it
    is one of a kind that goes on over several lines. A line that is missing was a record.
    """
    text = pl.col("text")
    if not parser.record:
        return frame.drop("part").with_columns(record=pl.lit(False), inside=pl.lit(False))
    # A record start somewhere else than at the start of the line: a wrapper, a progress bar
    # without an end of line, or two processes that wrote at once.
    literal = parser.boundary
    odd = (
        text.str.count_matches(literal, literal=True)
        > text.str.starts_with(literal).cast(pl.UInt32)
        if literal
        else pl.lit(True)
    )
    marked = frame.with_columns(odd.alias("_"))
    few = marked.filter(pl.col("_")).drop("_")
    if few.height:
        parts = (
            few.with_columns(text.str.replace_all(f"({parser.record})", "\0${1}").str.split("\0"))
            .explode("text")
            .filter(text.str.strip_chars().str.len_bytes() > 0)
        )
        frame = pl.concat([marked.filter(~pl.col("_")).drop("_"), parts])
        frame = frame.sort("line", maintain_order=True)
    start = text.str.contains("^(?:" + "|".join([parser.record, *parser.block]) + ")")
    opens = text.str.contains("|".join(parser.block)) if parser.block else pl.lit(False)
    another = (pl.col("part") != pl.col("part").shift()).fill_null(False)
    return (
        frame.with_columns(record=text.str.contains(f"^{parser.record}"), _=start)
        .with_columns(
            inside=pl.when("_").then(opens).when(another).then(False)
            .forward_fill().fill_null(False),
        )
        .drop("_", "part")
    )  # fmt: skip


def _contains(frame: pl.DataFrame, literals: list[str]) -> pl.Series:
    return frame.get_column("text").str.contains_any(literals, ascii_case_insensitive=True)


def _present(frame: pl.DataFrame, literals: list[str]) -> set[str]:
    """Which of the literals, in lower case, are in any of the lines."""
    found = frame.get_column("text").str.extract_many(
        literals, ascii_case_insensitive=True, overlapping=True
    )
    return {one.lower() for one in found.explode().unique() if one is not None}


def _take(parser: Parser, event: Event, frame: pl.DataFrame, parsed: Parsed) -> pl.DataFrame:
    """Read the event's lines into `parsed`; what comes back are the other lines."""
    if not frame.height:
        return frame
    if event.style in blocks.STYLES:
        return blocks.read(parser, event, frame, parsed)
    text = frame.get_column("text")
    if len(event.has) == 1:
        mask = text.str.contains(event.has[0], literal=True)
    elif event.has:
        mask = _contains(frame, list(event.has))
    else:
        mask = pl.repeat(True, frame.height, eager=True)
    if event.match and mask.any():
        mask = mask & text.str.contains(event.match)
    if not mask.any():
        return frame
    mine, rest = frame.filter(mask), frame.filter(~mask)
    if event.style == "labels":
        rows = labels.read(parser, event, mine, parsed)
    else:
        reader = {"fields": _fields, "pairs": _pairs, "arguments": arguments.read}[event.style]
        rows = reader(event, prefix.message(parser, mine))
    if event.any:
        given = pl.any_horizontal(
            pl.col(column).is_not_null() for column in event.any if column in rows.columns
        )
        rows = rows.filter(given)
        refused = mine.join(rows.select("line"), on="line", how="anti")
        rest = pl.concat([rest, refused])
    if event.starts:
        parsed.starts += rows.get_column("line").unique().to_list()
    constants = [pl.lit(value).alias(column) for column, value in event.constants.items()]
    parsed.add(event.table, prefix.timed(parser, prefix.ranked(rows.with_columns(constants))))
    return frame if event.again else rest


def _fields(event: Event, frame: pl.DataFrame) -> pl.DataFrame:
    message = pl.col("body")
    columns = []
    for one in event.fields:
        said = pl.col("text") if one.type == "clock" else message
        found = pl.coalesce(said.str.extract(pattern, 1) for pattern in one.names)
        columns.append(cast(found, one.type).alias(one.column))
    return frame.with_columns(columns).drop("text", "body", "record", "inside")


def _pairs(event: Event, frame: pl.DataFrame) -> pl.DataFrame:
    rows = frame.with_row_index("row")
    pairs = (
        rows.select("row", pl.col("body").str.extract_all(PAIR).alias("pair"))
        .explode("pair")
        .drop_nulls("pair")
        .with_columns(
            pl.col("pair").str.extract(r"^([A-Za-z0-9_.]+)", 1).alias("key"),
            pl.col("pair").str.extract(r"[=:]\s*(.*)$", 1).alias("value"),
        )
    )
    wanted = [(name, one.column) for one in event.fields for name in one.names]  # of one, several
    columns = pl.DataFrame(wanted, schema=["key", "column"], orient="row")
    values = pairs.join(columns, on="key", maintain_order="left").pivot(
        "column", index="row", values="value", aggregate_function="first"
    )
    others = pairs.join(columns, on="key", how="anti", maintain_order="left")
    typed = [
        cast(pl.col(one.column) if one.column in values.columns else pl.lit(None, pl.String),
             one.type).alias(one.column)
        for one in event.fields
    ]  # fmt: skip
    return (
        rows.drop("text", "body", "record", "inside")
        .join(values.select("row", *typed), on="row", how="left")
        .join(objects(others), on="row", how="left")
        .drop("row")
    )


def _strangers(parser: Parser, frame: pl.DataFrame) -> pl.DataFrame:
    """Lines that are neither records, nor part of one, nor known to hold nothing."""
    frame = frame.filter(~(pl.col("record") | pl.col("inside")))
    if not parser.known:
        return frame
    return frame.filter(~pl.col("text").str.contains("|".join(f"(?:{k})" for k in parser.known)))
