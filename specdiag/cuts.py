"""`label: value, label: value` lines by the million: cut at their commas, which beats any pattern.

One line of a shape says where its time stands, which labels follow in which order, and what
units their values have. A line that is cut into the same pieces is read by what stands between; one
that differs in anything (torn, coloured, another release, a value that is none) is left for the
patterns of `labels.py`, which know every case. Both read the same from a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from specdiag import labels, prefix
from specdiag.parser import Event, Parsed, Parser
from specdiag.values import cast

CUT = ", "
SHAPES = 8  # of one kind that are tried in a block
NUMBERS = ("int", "float", "percent")
ODD = r"[\x1b\r]"  # what a terminal takes for a command
GOLDEN = 0.618  # of a whole: places that never meet
SOME = 32  # lines that tell whether all are cut as often
FEWEST = 50  # lines for which a shape is worth learning

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(|[^0-9eE_.,+-][^0-9,]*)")


@dataclass(frozen=True)
class Shape:
    """What all lines like one line have in common."""

    time: tuple[int, int]  # from which character to which; (0, 0) without one
    before: str  # that line up to the end of its time: a stand-in for what others have there
    opening: str  # pattern of the line up to its first comma, or including it where `covers`
    covers: bool
    first: tuple[str, str] | None  # (label, unit) of a value that stands before the first comma
    pieces: tuple[tuple[str, str], ...]  # (label, unit) of each value behind it
    closed: bool  # the line ends in a comma
    joint: str  # where the values begin: the end of what stands before them, and the first label

    @property
    def cuts(self) -> int:
        return len(self.pieces) + self.closed

    @property
    def labels(self) -> list[str]:
        return [label for label, _ in (*([self.first] if self.first else []), *self.pieces)]


def serves(event: Event) -> bool:
    """Whether the event's lines can be read here: labels, and nothing else to look for."""
    return (
        event.style == "labels" and event.common and not (event.match or event.any or event.starts)
    )


def read(parser: Parser, event: Event, frame: pl.DataFrame, parsed: Parsed) -> pl.DataFrame:
    """Read the event's lines that are cut alike into `parsed`; what comes back are all others."""
    text = frame.get_column("text")
    mask = text.str.contains(event.has[0], literal=True)
    for literal in event.has[1:]:
        mask |= text.str.contains(literal, literal=True)
    mine, others = frame.filter(mask), [frame.filter(~mask)]
    some = mine.get_column("text").gather_every(max(1, mine.height // SOME)).to_list()
    left = _counted(mine, some)
    for tried in range(SHAPES):
        if left.height < FEWEST:
            break
        # Anywhere: the first ones are those that no shape before fitted, torn ones mostly.
        place = int(left.height * (tried * GOLDEN % 1))
        shape = learn(parser, event, left.get_column("text")[place])
        if shape is None:
            others.append(left.slice(place, 1).drop("cuts"))
            left = pl.concat([left.head(place), left.slice(place + 1)])
            continue
        maybe = left.get_column("cuts") == shape.cuts
        if any(one.count(CUT) == shape.cuts and shape.joint not in one for one in some):
            maybe &= left.get_column("text").str.contains(shape.joint, literal=True)
        if maybe.all():
            rows, left = _cut(parser, event, shape, left)
        else:
            rows, more = _cut(parser, event, shape, left.filter(maybe))
            left = pl.concat([left.filter(~maybe), more])
        if rows.height:
            parsed.add(event.table, rows)
            parsed.lines += rows.height
            parsed.understood += rows.height
            for label in shape.labels:
                if label not in event.names and label not in parser.ignore:
                    parsed.unread[event.table, label] += rows.height
    return pl.concat([*others, left.drop("cuts")]).sort("line")


def _counted(frame: pl.DataFrame, some: list[str]) -> pl.DataFrame:
    """The lines with how many `cuts` they have, where `some` differ: else they cost too much."""
    counts = {text.count(CUT) for text in some}
    if len(counts) <= 1:
        return frame.with_columns(cuts=pl.lit(max(counts, default=0), pl.UInt32))
    return frame.with_columns(cuts=pl.col("text").str.count_matches(CUT, literal=True))


def learn(parser: Parser, event: Event, line: str) -> Shape | None:
    """The shape of a line, or None where it has more to it than pieces between commas."""
    learned = labels.learn(parser, event, line)
    found = re.match(f"{parser.prefix}{event.head}", line)
    opening, *pieces = line.split(CUT)
    if learned is None or found is None or re.search(ODD, line):
        return None
    covers = found.end() == len(opening) + len(CUT)
    closed = pieces[-1:] == [""]
    named = [_piece(event, piece) for piece in pieces[: len(pieces) - closed]]
    first, pattern = None, f"{parser.prefix}{event.head}"
    if not covers and found.end() < len(opening):
        first = _piece(event, opening[found.end() :])
        named.insert(0, first)
        if first and _type(event, first[0]) in NUMBERS:
            pattern += f"{labels.escape(first[0])}: (?P<first>[^,]*)"
        else:
            return None
    whole = [one for one in named if one]
    if len(whole) < len(named) or [label for label, _ in whole] != learned[1]:
        return None
    time = found.span("time") if "(?P<time>" in parser.prefix and found["time"] else (0, 0)
    joint = line[max(0, found.end() - len(CUT)) : found.end() + len(whole[0][0])]
    return Shape(time, line[: time[1]], f"{pattern}$", covers, first,
                 tuple(whole[first is not None :]), closed, joint)  # fmt: skip


def _piece(event: Event, piece: str) -> tuple[str, str] | None:
    """(label, unit) of `label: 12.5 unit`; the unit of what is no number is empty."""
    label, colon, value = piece.partition(": ")
    if not colon:
        return None
    if _type(event, label) not in NUMBERS:
        return label, ""
    number = _NUMBER.fullmatch(value)
    return (label, number[1]) if number else None


def _type(event: Event, label: str) -> str:
    return event.names[label].type if label in event.names else ""


def _cut(
    parser: Parser, event: Event, shape: Shape, frame: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of the lines of this shape, and the other lines."""
    count = 1 + shape.cuts
    cut = frame.get_column("text").str.split_exact(CUT, count).struct.unnest()
    opening = _opening(parser, shape, cut.get_column("field_0"))
    alike = [pl.col("opens"), pl.col(f"field_{count}").is_null()]
    if shape.closed:
        alike.append(pl.col(f"field_{count - 1}") == "")
    odd = f"{ODD}|{parser.record}" if parser.record else ODD  # or a second record
    values: dict[str, pl.Expr] = {}
    if shape.first:
        values[shape.first[0]] = pl.col("first").str.strip_suffix(shape.first[1])
    for n, (label, unit) in enumerate(shape.pieces, 1):
        piece = pl.col(f"field_{n}")
        alike.append(piece.str.starts_with(f"{label}: "))
        value = piece.str.strip_prefix(f"{label}: ")
        if _type(event, label) not in (*NUMBERS, "bool"):  # then anything may stand in it
            alike.append(~piece.str.contains(odd))
        values.setdefault(label, value.str.strip_suffix(unit) if unit else value)
    typed: dict[str, pl.Expr] = {}
    for one in event.fields:
        named = [values[name] for name in one.names if name in values]
        if named:
            typed[one.column] = _value(named[0], one.type)
    extra = [name for name in values if name not in event.names and name not in parser.ignore]
    if extra:
        pairs = pl.struct(values[name].alias(name) for name in extra)
        typed["extra"] = pairs.struct.json_encode()
    rows = pl.concat([frame.select("line"), opening, cut], how="horizontal").select(
        "line", *(c for c in opening.columns if c not in ("opens", "first")),
        *(value.alias(column) for column, value in typed.items()),
        *(pl.lit(value).alias(column) for column, value in event.constants.items()),
        alike=pl.all_horizontal(alike),
    )  # fmt: skip
    if event.needs:
        complete = set(event.needs) <= set(typed) | set(event.constants)
        rows = rows.with_columns(complete=pl.lit(complete))
    rows = prefix.timed(parser, rows)
    wanted = [*typed, *(["time"] if shape.time[1] else [])]
    given = [
        pl.col(column).is_finite() if rows.schema[column].is_float()
        else pl.col(column).is_not_null() for column in wanted
    ]  # fmt: skip
    fits = rows.select(pl.all_horizontal("alike", *given).fill_null(False)).to_series()
    rows = rows.drop("alike")
    if fits.all():  # a filter would copy all columns
        return rows, frame.clear()
    return rows.filter(fits), frame.filter(~fits)


def _value(value: pl.Expr, type: str) -> pl.Expr:
    """The text as a value of the type; null where the patterns might read it in another way."""
    match type:
        case "int":
            return value.cast(pl.Int64, strict=False)
        case "float" | "percent":
            number = value.cast(pl.Float64, strict=False)
            return number / 100 if type == "percent" else number
        case "bool":
            return value.replace_strict(
                {"True": True, "False": False}, default=None, return_dtype=pl.Boolean
            )
        case _:
            return cast(value, type)


def _opening(parser: Parser, shape: Shape, texts: pl.Series) -> pl.DataFrame:
    """What stands before the first comma: the prefix' groups, `first`, and whether it `opens`.

    Beside the time it says the same on most lines, so each text is looked at once.
    """
    start, end = shape.time
    tail = texts.str.slice(end).alias("tail")
    whole = pl.concat_str(pl.lit(shape.before), "tail", pl.lit(CUT if shape.covers else ""))
    known = (
        tail.unique().to_frame().with_columns(whole.str.extract_groups(shape.opening).alias("_"))
    )
    opens = whole.str.contains(shape.opening)
    if parser.record:  # one, at the start
        opens &= whole.str.contains(f"^{parser.record}")
        opens &= whole.str.count_matches(parser.record) == 1
    if end:  # a longer time than that of the shape would be cut off
        opens &= ~pl.col("tail").str.contains("^[0-9.]")
    known = prefix.ranked(known.unnest("_").with_columns(opens=opens))
    time = texts.str.slice(start, end - start).alias("time")
    if known.height == 1:
        one = known.drop("tail", *(["time"] if end else [])).row(0, named=True)
        typed = [pl.lit(value, known.schema[name]).alias(name) for name, value in one.items()]
        found = time.to_frame().with_columns(typed)
        return found if end else found.drop("time")
    found = tail.to_frame().join(known, on="tail", how="left", maintain_order="left").drop("tail")
    return found.with_columns(time) if end else found
