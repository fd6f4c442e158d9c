"""Records saved as a sheet: CSV or TSV, a heading and a row of cells each, as JSON records.

A dot in a name leads into an object. A cell may hold a list or an object, as JSON or as Python
prints it. An empty cell is no value. Whole columns are converted at a time.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from specdiag import literals
from specdiag.content import Block
from specdiag.parser import Parser
from specdiag.values import json_text

LOOKED_AT = 20  # rows
LARGEST = 64 << 20  # bytes of one row: a quote that nothing closes takes the rest of the file
SEPARATORS = ("\t", ";", ",", "|")
MISSING = ("", "None", "null", "NULL", "NaN", "nan", "NA", "N/A", "<NA>")
_INDEX = re.compile("Unnamed: [0-9]+")  # what pandas calls a column that has no name
_NAME = re.compile(r"[^\W\d][^\n\"{}=]{0,100}")
_DIGITS = "-?(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][-+]?[0-9]+)?"
_NUMBERS = rf"\[\s*(?:{_DIGITS}(?:\s*,\s*{_DIGITS})*)?\s*\]"
NUMBER = f"^{_DIGITS}$"
COMMA = "^(-?[0-9]+),([0-9]+)$"  # where cells are parted by semicolons, a comma is a decimal point
LIST = rf"^(?:{_NUMBERS}|\[\s*{_NUMBERS}(?:\s*,\s*{_NUMBERS})*\s*\])$"


@dataclass(frozen=True)
class Sheet:
    """How cells are told apart, and what they are called."""

    separator: str
    heading: str

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns, some of them empty."""
        found = next(csv.reader([self.heading], delimiter=self.separator), [])
        return [name.strip() for name in found]


def of(lines: list[str]) -> Sheet | None:
    """The sheet that begins with these lines, if they are one."""
    lines = [line for line in lines if line.strip()][: LOOKED_AT + 1]
    if len(lines) < 2:
        return None
    for least, separators in ((2, SEPARATORS), (1, ",")):
        for separator in separators:
            sheet = Sheet(separator, lines[0].lstrip("\ufeff"))
            try:
                names = sheet.names
                rows = [len(row) for row in csv.reader(lines[1:], delimiter=separator)]
            except csv.Error:
                continue
            index = len(names) > 1 and not names[0]
            named = all(_NAME.fullmatch(name) for name in names[index:])
            if named and least <= len(names) == rows[0]:
                return sheet
    return None


def whole(blocks: Iterator[Block]) -> Iterator[Block]:
    """Blocks that end with a row: a line end may stand inside of a quoted cell."""
    waiting: Block | None = None
    for block in blocks:
        if waiting:
            data = waiting.data + block.data
            block = replace(block, data=data, line=waiting.line)
        waiting = None
        if block.data.count(b'"') % 2 and not block.open and len(block.data) < LARGEST:
            waiting = block
        else:
            yield block
    if waiting:
        yield waiting


def records(sheet: Sheet, data: bytes, line: int, parser: Parser | None = None) -> bytes:
    """The rows of a block as JSON, each on the line of its row; the heading, on line 1, is none.

    What the parser reads as a text stays one, whatever it looks like.
    """
    try:
        frame = _cells(sheet, data)
    except pl.exceptions.PolarsError:
        return data  # its lines are counted as no records
    given = pl.any_horizontal(pl.all().is_not_null())
    frame = frame.with_columns(_inside(frame).alias("inside"), given.alias("given"))
    if line == 1:  # the heading is no row
        frame = frame.with_columns(pl.col("given") & (pl.col("given").cum_sum() > 1))
    mine = frame.filter("given").drop("inside", "given")
    rows = iter(mine.select(_record(mine, sheet, parser)).to_series().to_list())
    lines = (
        (next(rows) if given else "") + "\n" * more
        for given, more in frame.select("given", "inside").iter_rows()
    )
    return "\n".join(lines).encode()


def _record(frame: pl.DataFrame, sheet: Sheet, parser: Parser | None) -> pl.Expr:
    texts = _texts(parser) if parser else set()
    tree: dict[str, Any] = {}
    for column, name in zip(frame.columns, sheet.names, strict=True):
        if not name or _INDEX.fullmatch(name):
            continue
        node: Any = tree
        *above, last = name.split(".")
        for part in above:
            node = node.setdefault(part, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            cell = _json(frame.get_column(column), sheet, _is_text(name, texts))
            node.setdefault(last, cell)
    return _object(tree)


def _cells(sheet: Sheet, data: bytes) -> pl.DataFrame:
    """The cells as texts; an empty line is a row without any."""
    schema = {str(n): pl.String for n in range(len(sheet.names))}
    warnings.filterwarnings("ignore", message="CSV malformed")  # rows that do not fit are counted
    return pl.read_csv(
        io.BytesIO(data.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf")), has_header=False,
        separator=sheet.separator, schema=schema, truncate_ragged_lines=True,
        encoding="utf8-lossy", ignore_errors=True, null_values=list(MISSING),
    )  # fmt: skip


def _inside(frame: pl.DataFrame) -> pl.Expr:
    """How many line ends are in the cells of a row."""
    return pl.sum_horizontal(
        pl.col(name).str.count_matches("\n", literal=True).fill_null(0) for name in frame.columns
    )


def _texts(parser: Parser) -> set[str]:
    """The names of fields that are texts, and not objects as well."""
    fields = [one for event in parser.events for one in event.fields]
    parents = {name.rpartition(".")[0] for one in fields for name in one.names}
    return {name for one in fields if one.type == "text" for name in one.names} - parents


def _is_text(name: str, texts: set[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[n:]) in texts for n in range(len(parts)))


def _object(tree: dict[str, Any]) -> pl.Expr:
    """An object with the values that a row has."""
    items = []
    for name, value in tree.items():
        inner = _object(value) if isinstance(value, dict) else value
        items.append(pl.concat_str(pl.lit(f"{json.dumps(name)}: "), inner))
    members = pl.concat_str(items, separator=", ", ignore_nulls=True)
    return pl.concat_str(pl.lit("{"), members, pl.lit("}"))


def _json(cells: pl.Series, sheet: Sheet, is_text: bool) -> pl.Expr:
    """A column's cells as JSON: numbers, truths or lists where all are, else texts."""
    given, column = cells.drop_nulls(), pl.col(cells.name)
    if not is_text:
        if sheet.separator == ";" and given.str.contains(f"{COMMA}|{NUMBER}").all():
            return column.str.replace(COMMA, "$1.$2")
        if given.str.contains(f"{NUMBER}|{LIST}").all():
            return column
        if given.is_in(["True", "False", "true", "false"]).all():
            return column.str.to_lowercase()
    quoted = pl.when(column.is_not_null()).then(json_text(cells.name))
    compound = column.str.contains(r"^\s*\[\{" if is_text else r"^\s*[\[{(]")
    if not cells.to_frame().select(compound.any()).item():
        return quoted
    parsed = pl.when(compound).then(column.map_elements(_compound, return_dtype=pl.String))
    return pl.coalesce(parsed, quoted)


def _compound(cell: str) -> str | None:
    """A list or an object, as JSON."""
    try:
        json.loads(cell)
        return re.sub(r"[\r\n]+", " ", cell)
    except (ValueError, RecursionError):
        pass
    return literals.as_json(cell)
