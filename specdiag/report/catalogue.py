"""What specdiag knows, as text: rules, parsers, and the answers to a query."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from typing import Any

import duckdb

from specdiag.errors import SpecdiagError
from specdiag.parser import Parser
from specdiag.report import markdown
from specdiag.report.columns import ruled, separated
from specdiag.report.text import told, visible
from specdiag.rule import SEVERITIES, Rule, plain
from specdiag.store import Store

WIDTH = 96


def rules(found: list[Rule]) -> str:
    """A line a rule, the worst first."""
    ordered = sorted(found, key=lambda rule: (SEVERITIES.index(rule.severity), rule.name))
    name = max(len(rule.name) for rule in ordered)
    family = max(len(rule.family) for rule in ordered)
    return "\n".join(
        f"{rule.severity:<9} {rule.name:<{name}}  {rule.family:<{family}}  {rule.title}"
        for rule in ordered
    )


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
    parts = [f"{rule.name} ({_kind(rule)})", rule.title]
    for heading, style, texts in sections(rule):
        parts += ["", heading]
        for number, text in enumerate(texts, start=1):
            first = {"prose": "  ", "steps": f"  {number}. ", "items": "  - "}.get(style)
            parts.append(f"  {text}" if first is None else _indent(text, first))
    return "\n".join(parts)


def _kind(rule: Rule) -> str:
    return f"{rule.severity}, {rule.family}" if rule.family else rule.severity


def sections(rule: Rule) -> list[tuple[str, str, list[str]]]:
    """What is told of a rule, here and in docs/rules: heading, style and texts."""
    needs = [
        f"{table}: {', '.join(columns)}" if columns else f"{table} (if there is any)"
        for table, columns in rule.needs.items()
    ]
    params = [f"{key} = {value}" for key, value in rule.params.items()]
    every = [
        ("Why", "prose", [rule.why]),
        ("What is compared", "prose", [rule.formula] if rule.formula else []),
        ("What looks like it and is not", "items", list(rule.unlike)),
        ("What may be behind it, the likeliest first", "steps", list(map(told, rule.causes))),
        ("What to do", "steps", list(rule.fix)),
        ("Needs", "lines", needs),
        ("Where it is undecided", "prose", [rule.enable] if rule.enable else []),
        (f"Thresholds (--param {rule.name}.NAME=VALUE)", "lines", params),
        ("Explains", "prose", [", ".join(rule.explains)] if rule.explains else []),
        ("Public reports", "lines", list(rule.reports)),
    ]
    return [(heading, style, texts) for heading, style, texts in every if texts]


def document(rule: Rule, known: set[str]) -> str:
    """A rule as a Markdown page: the same text as `explain`, with links to known rules."""
    parts = [f"# {markdown.prose(rule.title)}", "", f"`{rule.name}`, {_kind(rule)}"]
    for heading, style, texts in sections(rule):
        parts += ["", f"## {markdown.prose(heading)}", ""]
        if heading == "Public reports":
            parts += [f"- {_link(text)}" for text in texts]
        elif heading == "Explains":
            parts += [
                ", ".join(f"[{n}]({n}.md)" if n in known else n for n in sorted(rule.explains))
            ]
        elif style == "lines":
            parts += [f"- {markdown.code(text)}" for text in texts]
        elif style == "steps":
            parts += [f"{n}. {markdown.prose(text)}" for n, text in enumerate(texts, start=1)]
        else:
            parts += [f"{'- ' * (style == 'items')}{markdown.prose(text)}" for text in texts]
    return "\n".join(parts) + "\n"


def _link(report: str) -> str:
    """A report as a link, where it is one of GitHub."""
    found = re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", report)
    address = f"https://github.com/{found[1]}/issues/{found[2]}" if found else ""
    return f"[{markdown.prose(report)}]({address})" if found else markdown.prose(report)


def documents(found: list[Rule]) -> dict[str, str]:
    """By file name: a page a rule, and README.md that lists them, the worst first."""
    ordered = sorted(found, key=lambda rule: (SEVERITIES.index(rule.severity), rule.name))
    rows = [
        f"| {rule.severity} | {rule.family} | [{rule.name}]({rule.name}.md) "
        f"| {markdown.prose(rule.title)} |"
        for rule in ordered
    ]
    index = [
        "# Rules", "", "Written by `make docs` from the headers of `rules/*.sql`.", "",
        "| severity | family | rule | title |", "|---|---|---|---|", *rows,
    ]  # fmt: skip
    pages = {f"{rule.name}.md": document(rule, {one.name for one in found}) for rule in ordered}
    return {"README.md": "\n".join(index) + "\n", **pages}


def rules_as(found: list[Rule], format: str) -> str:
    """Every rule as text, Markdown or JSON.

    Raises SpecdiagError when the format does not exist.
    """
    if format == "text":
        return rules(found)
    if format == "markdown":
        return "\n".join(documents(found).values()).rstrip()
    if format == "json":
        return json.dumps([_record(rule) for rule in found], ensure_ascii=False, indent=1)
    raise SpecdiagError(f"{format!r} is no format", "--format", "one of text, markdown, json")


def _record(rule: Rule) -> dict[str, Any]:
    record = dataclasses.asdict(rule)
    return {key: plain(value) for key, value in record.items() if key not in ("path", "sql")}


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
        return separated([names, *rows])
    cells = [["" if v is None else visible(str(v), 80) for v in row] for row in rows]
    return ruled(names, cells)
