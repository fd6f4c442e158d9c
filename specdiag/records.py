"""JSON records to columns: one object a line, an array of objects, or one object in a file.

A field's names are paths (`tree.parents`), looked for under each of the parser's `roots`. Keys
that match an event's `rest` go to one JSON column together; what is left over is counted and kept
in `extra`. An event with `each` reads the elements of lists inside the record. DuckDB parses the
text once, straight into typed columns.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Set
from typing import Any

import duckdb
import polars as pl

from specdiag import raw, shapes
from specdiag.parser import Event, Field, Parsed, Parser
from specdiag.shapes import Handover

SQL_TYPES: dict[str, Any] = {
    "int": "DOUBLE",  # 7.0 is an integer, too; converted once it is known to be finite
    "float": "DOUBLE",
    "bool": "BOOLEAN",
    "text": "VARCHAR",
    "ints": ["BIGINT"],
    "floats": ["DOUBLE"],
    "bools": ["BOOLEAN"],
    "texts": ["VARCHAR"],
    "int_lists": [["BIGINT"]],
    "float_lists": [["DOUBLE"]],
    "json": "JSON",
}
LARGEST = 2.0**53  # larger counters are garbage, and would overflow when rules add them
SHOWN = 5
MOST_KEYS = 100  # of those that no field names: a record may have any number of them

_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    """A private in-memory database of this thread, for its JSON reader."""
    if not hasattr(_local, "connection"):
        _local.connection = duckdb.connect(
            config={"python_enable_replacements": False, "threads": 1}
        )
    found: duckdb.DuckDBPyConnection = _local.connection
    return found


def claims(parser: Parser, head: list[str]) -> tuple[int, int]:
    """How many of the first records have the keys of this format, and how many keys that takes."""
    texts = [line for line in head if line.lstrip().startswith("{")]
    if not texts or not _whole(texts[0]):
        joined = "\n".join(head)
        texts = [joined] if joined.lstrip().startswith(("{", "[")) else []
    count = most = 0
    for text in texts:
        matched = [len(keys) for keys in parser.recognise if all(_has_key(text, k) for k in keys)]
        count += bool(matched)
        most = max([most, *matched])
    return count, most


def _whole(line: str) -> bool:
    return line.rstrip().endswith("}")


def _has_key(text: str, path: str) -> bool:
    key, _, value = path.partition("=")
    key = key.rpartition(".")[2]
    if f'"{key}"' not in text:  # a search for literal text is the faster one
        return False
    found = rf'"{re.escape(key)}"\s*:'
    return re.search(found + (rf'\s*"?{re.escape(value)}\b' if value else ""), text) is not None


def read(parser: Parser, data: bytes, line: int) -> Parsed:
    """All rows of a block of records; see `parser.Parsed`."""
    parsed = Parsed()
    frame = raw.text_of(data, line, "").filter(pl.col("text").str.strip_chars() != "")
    parsed.lines = frame.height
    if not frame.height:
        return parsed
    db = connection()
    found = shapes.look(db, parser, frame)
    parsed.strangers = found.broken.head(SHOWN).rows()
    parsed.understood = found.frame.height
    parsed.refused = shapes.too_new(parser, found)
    if parsed.refused:
        return parsed
    for event in parser.events:
        kind = shapes.within(db, parser, event, found.kind(event))
        if not kind.height:
            continue
        if event.style == "arguments":
            _arguments(db, parser, event, kind, parsed)
        else:
            project(db, parser, event, kind, parsed)
    return parsed


def _arguments(
    db: duckdb.DuckDBPyConnection, parser: Parser, event: Event, kind: pl.DataFrame, parsed: Parsed
) -> None:
    """Every key of the record, or of the object inside it, as a row (key, value)."""
    path = f", '$.{event.inside}'" if event.inside else ""
    inner = f"json_extract(text, '$.{event.inside}')" if event.inside else "text"
    arms = ", ".join(f"json_extract_string(text, '$.{key}')" for key in parser.arm)
    db.register("records", Handover(kind))
    rows = db.sql(
        f"""SELECT line, key, json_extract_string({inner}, '$."' || key || '"') AS value,
            {f"concat_ws(' ', {arms})" if arms else "NULL::VARCHAR"} AS arm
            FROM (SELECT line, text, unnest(json_keys(text{path})) AS key FROM records)
            WHERE key NOT LIKE '%"%'"""
    )
    frame = pl.DataFrame(rows)
    if event.starts:
        parsed.starts += frame.get_column("line").unique().to_list()
    parsed.add(event.table, frame.drop_nulls("value"))


def project(
    db: duckdb.DuckDBPyConnection, parser: Parser, event: Event, kind: pl.DataFrame, parsed: Parsed
) -> None:
    """Read the event's fields from its records into `parsed`."""
    keys = shapes.keys(db, parser, event, kind)
    leaves: dict[str, str] = {}
    names = _Names()
    found: list[tuple[Field, list[str]]] = []
    for one in event.fields:
        paths = [_join(root, name) for root in parser.roots for name in one.names]
        paths = [path for path in paths if path in keys and names.take(path)]
        for path in paths:
            leaves.setdefault(path, one.type)
        if paths:
            found.append((one, paths))
    if not found:
        return
    known = set(leaves) | {path for leaf in leaves for path in _parents(leaf)}
    mixed = set(leaves) & {path for leaf in leaves for path in _parents(leaf)}
    columns = []
    for one, paths in found:
        value = ", ".join(_access(path, mixed) for path in paths)
        columns.append(f'{_finite(one, value)} AS "{one.column}"')
    kept_extra: list[str] = []
    for kept in event.rest:
        mine = [k for k in sorted(keys) if k not in known and re.search(kept.pattern, k)]
        mine = [k for k in mine if not re.search(r'["\\]', k) and names.take(k)][:MOST_KEYS]
        known.update(mine)
        if kept.column == "extra":  # they share the column with keys that nothing names
            kept_extra += mine
        elif mine:
            leaves.update(dict.fromkeys(mine, "float"))
            pairs = ", ".join(f"{_text(_last(k))}, {_access(k)}" for k in mine)
            columns.append(f'json_object({pairs}) AS "{kept.column}"')
    known |= {path for leaf in known for path in _parents(leaf)}
    other = [k for k in sorted(keys) if "." not in k and k not in known and k not in parser.ignore
             and k not in parser.arm and k not in event.where]  # fmt: skip
    if "*" in parser.ignore:
        other = []
    for key in sorted(other, key=lambda k: -keys[k])[:MOST_KEYS]:
        parsed.unread[event.table, key] += keys[key]
    other = [k for k in other if names.take(k)][:MOST_KEYS] + kept_extra
    if other:
        leaves.update(dict.fromkeys(other, "json"))
        unique = {_last(k).lower(): k for k in other}
        pairs = ", ".join(f"{_q(_last(k))} := {_access(k)}" for k in unique.values())
        columns.append(f"to_json(struct_pack({pairs})) AS extra")
    arm = [key for key in parser.arm if key in keys]
    if arm:
        parts = ", ".join(_arm(key, leaves, names) for key in arm)
        columns.append(f"concat_ws(' ', {parts}) AS arm")
    frame = _frame(db, event, columns, _structure(leaves, mixed), kind)
    if event.starts:
        parsed.starts += frame.get_column("line").to_list()
    parsed.add(event.table, frame)


def _frame(
    db: duckdb.DuckDBPyConnection,
    event: Event,
    columns: list[str],
    structure: str,
    kind: pl.DataFrame,
) -> pl.DataFrame:
    """The rows that have any of the columns that the event asks for."""
    db.register("records", Handover(kind))
    rows = db.sql(
        f"SELECT line, {', '.join(columns)} FROM "
        f"(SELECT line, text, from_json(text, '{structure}') AS r FROM records)"
    )
    constants = [pl.lit(value).alias(column) for column, value in event.constants.items()]
    frame = pl.DataFrame(rows).with_columns(constants)
    if not event.any:
        return frame
    given = [pl.col(column).is_not_null() for column in event.any if column in frame.columns]
    return frame.filter(pl.any_horizontal(given)) if given else frame.clear()


class _Names:
    """Key paths that DuckDB can hold side by side in one structure: it does not know case."""

    def __init__(self) -> None:
        self.spelled: dict[str, str] = {}

    def take(self, path: str) -> bool:
        places = [*_parents(path), path]
        if not all(path.split(".")) or any(
            self.spelled.get(place.lower(), place) != place for place in places
        ):
            return False
        self.spelled.update((place.lower(), place) for place in places)
        return True


def _arm(key: str, leaves: dict[str, str], names: _Names) -> str:
    """The text at a key, read with the other fields where these leave it a place."""
    is_object = any(key in _parents(leaf) for leaf in leaves)
    if is_object or leaves.get(key, "text") != "text" or not names.take(key):
        return f"json_extract_string(text, '$.{key}')"
    leaves[key] = "text"
    return _access(key)


def _finite(one: Field, values: str) -> str:
    value = f"coalesce({values})"
    match one.type:
        case "float":
            return f"CASE WHEN isfinite({value}) THEN {value} END"
        case "int":
            return f"CASE WHEN abs({value}) <= {LARGEST:.0f} THEN TRY_CAST({value} AS BIGINT) END"
        case _:
            return value


def _structure(leaves: dict[str, str], mixed: Set[str]) -> str:
    """The paths as the nested structure that DuckDB's from_json takes."""
    tree: dict[str, Any] = {}
    for path, type in leaves.items():
        if mixed & set(_parents(path)):
            continue
        type = "json" if path in mixed else type
        node = tree
        *parents, leaf = path.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = SQL_TYPES[type]
    return json.dumps(tree).replace("'", "''")


def _join(root: str, name: str) -> str:
    return f"{root}.{name}" if root else name


def _parents(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _access(path: str, mixed: Set[str] = frozenset()) -> str:
    """The value at a path. In some releases a key holds a text, in others an object."""
    for parent in _parents(path):
        if parent in mixed:
            return f"json_extract_string({_access(parent)}, '$.{path[len(parent) + 1 :]}')"
    if path in mixed:
        value = _access(path)
        return f"CASE WHEN json_type({value}) <> 'OBJECT' THEN {value} ->> '$' END"
    return "r." + ".".join(_q(part) for part in path.split("."))
