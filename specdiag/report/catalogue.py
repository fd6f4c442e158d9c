"""What specdiag knows, as text: rules, parsers, and the answers to a query."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from typing import Any

import duckdb

from specdiag.errors import SpecdiagError
from specdiag.parser import Parser
from specdiag.report.text import visible
from specdiag.rule import SEVERITIES, Rule, plain
from specdiag.store import Store

WIDTH = 96


def rules(found: list[Rule]) -> str:
    """A line a rule, the worst first."""
    ordered = sorted(found, key=lambda rule: (SEVERITIES.index(rule.severity), rule.name))
    name = max(len(rule.name) for rule in ordered)
    return "\n".join(f"{rule.severity:<9} {rule.name:<{name}}  {rule.title}" for rule in ordered)


def explain(found: list[Rule], name: str) -> str:
    """All that a rule's header says.

    Raises SpecdiagError when there is no such rule.
    """
    rule = next((rule for rule in found if rule.name == name), None)
    if rule is None:
        import difflib

        near = difflib.get_close_matches(name, [rule.name for rule in found], n=1)
        help = f"did you mean {near[0]}?" if near else "see `specdiag rules`"
        raise SpecdiagError(f"no rule is called {name}", "", help)
    parts = [
        f"{rule.name} ({rule.severity})",
        rule.title,
        "",
        "Why",
        _indent(rule.why),
        "",
        "What to do",
    ]
    parts += [_indent(text, f"  {n}. ") for n, text in enumerate(rule.fix, start=1)]
    parts += ["", "Needs"]
    for table, columns in rule.needs.items():
        parts.append(
            f"  {table}: {', '.join(columns)}" if columns else f"  {table} (if there is any)"
        )
    if rule.enable:
        parts += ["", "Where it is undecided", _indent(rule.enable)]
    if rule.params:
        parts += ["", "Thresholds (--param " + rule.name + ".NAME=VALUE)"]
        parts += [f"  {key} = {value}" for key, value in rule.params.items()]
    if rule.explains:
        parts += ["", "Explains", _indent(", ".join(rule.explains))]
    return "\n".join(parts)


def _indent(text: str, first: str = "  ") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))


def parsers(found: list[Parser]) -> str:
    """A line a format."""
    name = max(len(parser.name) for parser in found)
    return "\n".join(f"{parser.name:<{name}}  {parser.title}" for parser in found)


def parser(found: list[Parser], name: str) -> str:
    """The kinds of line or record of a format, with the names it knows and a sample.

    Raises SpecdiagError when there is no such parser.
    """
    one = next((parser for parser in found if parser.name == name), None)
    if one is None:
        known = ", ".join(parser.name for parser in found)
        raise SpecdiagError(f"no parser is called {name}", "", f"known: {known}")
    parts = [f"{one.name}: {one.title}"]
    if one.help:
        parts += [_indent(one.help)]
    if one.arm:
        parts += ["", _indent("Runs inside a file are told apart by: " + ", ".join(one.arm))]
    for event in one.events:
        parts += ["", f"{event.title} -> table {event.table}"]
        for field in event.fields:
            names = field.names if event.style in ("labels", "pairs", "columns", "record") else ()
            shown = ", ".join(names) if names else field.type
            parts.append(_indent(f"{field.column}: {shown}"))
        if event.samples:
            sample = event.samples[0].text.strip().splitlines()[0]
            parts.append(f"  e.g. {visible(sample, 160)}")
    return "\n".join(parts)


def table(filled: Store, sql: str, format: str) -> str:
    """The rows of a query as a table, CSV or JSON.

    Raises SpecdiagError when the SQL does not run or the format does not exist.
    """
    if format not in ("table", "csv", "json"):
        raise SpecdiagError(f"{format!r} is no format", "--format", "one of table, csv, json")
    try:
        if not duckdb.extract_statements(sql):
            raise duckdb.InvalidInputException("it asks nothing")
        cursor = filled.db.execute(sql)
        names = [column[0] for column in cursor.description or []]
        rows = [[plain(value) for value in row] for row in cursor.fetchall()]
    except duckdb.Error as error:
        first = str(error).strip().splitlines()[0]
        raise SpecdiagError(
            f"the query does not run: {first}", visible(sql, 80),
            'specdiag query "SHOW TABLES" and "DESCRIBE decode" list what there is',
        ) from None  # fmt: skip
    if format == "json":
        return json.dumps(
            [dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False, indent=1
        )
    if format == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([names, *rows])
        return out.getvalue().rstrip("\n")
    return _aligned(names, rows)


def _aligned(names: list[str], rows: list[list[Any]]) -> str:
    cells = [names] + [["" if v is None else visible(str(v), 80) for v in row] for row in rows]
    widths = [max(len(row[n]) for row in cells) for n in range(len(names))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
