"""Where the fields of an event stand in records with certain keys, as one query for all of them.

A field's names are paths (`tree.parents`), looked for under each of the parser's `roots`. Keys
that match an event's `rest` go to one JSON column together; what is left over is counted and kept
in `extra`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from specdiag.parser import Event, Field, Parser

SQL_TYPES: dict[str, Any] = {
    "int": "DOUBLE",  # 7.0 is an integer, too; converted once it is known to be finite
    "float": "DOUBLE",
    "ms": "DOUBLE",  # milliseconds, kept as seconds
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
MOST_KEYS = 100  # of those that no field names: a record may have any number of them


@dataclass(frozen=True)
class Layout:
    """How records are read whose keys are known; the SQL finds their text parsed in `r`."""

    event: Event
    columns: tuple[str, ...]  # SQL of each column
    leaves: dict[str, str]  # path -> type of field
    packed: tuple[str, ...]  # paths that share a JSON column, which shows them all
    unread: tuple[str, ...]  # keys that no field names
    mixed: frozenset[str]  # paths that hold a value in one record and an object in another


def query(columns: Sequence[str], structure: str) -> str:
    """The columns of table records (line, text), in SQL."""
    return (
        f"SELECT line, {', '.join(columns)} FROM "
        f"(SELECT line, text, from_json(text, '{structure}') AS r FROM records)"
    )


def of(parser: Parser, event: Event, keys: Counter[str]) -> Layout | None:
    """The layout of records with these keys, or None where no field is among them."""
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
        return None
    known = set(leaves) | {path for leaf in leaves for path in parents(leaf)}
    mixed = set(leaves) & {path for leaf in leaves for path in parents(leaf)}
    columns = []
    for one, paths in found:
        value = ", ".join(access(path, mixed) for path in paths)
        columns.append(f'{_finite(one, value)} AS "{one.column}"')
    packed: list[str] = []
    kept_extra: list[str] = []
    for kept in event.rest:
        mine = [k for k in sorted(keys) if k not in known and re.search(kept.pattern, k)]
        mine = [k for k in mine if not re.search(r'["\\]', k) and names.take(k)][:MOST_KEYS]
        known.update(mine)
        packed += mine
        if kept.column == "extra":  # they share the column with keys that nothing names
            kept_extra += mine
        elif mine:
            leaves.update(dict.fromkeys(mine, "float"))
            pairs = ", ".join(f"{_text(last(k))}, {access(k)}" for k in mine)
            columns.append(f'json_object({pairs}) AS "{kept.column}"')
    known |= {path for leaf in known for path in parents(leaf)}
    other = [k for k in sorted(keys) if "." not in k and k not in known and k not in parser.ignore
             and k not in parser.arm and k not in event.where]  # fmt: skip
    if "*" in parser.ignore:
        other = []
    unread = sorted(other, key=lambda k: -keys[k])[:MOST_KEYS]
    other = [k for k in other if names.take(k)][:MOST_KEYS] + kept_extra
    packed += other
    if other:
        leaves.update(dict.fromkeys(other, "json"))
        unique = {last(k).lower(): k for k in other}
        pairs = ", ".join(f"{_q(last(k))} := {access(k)}" for k in unique.values())
        columns.append(f"to_json(struct_pack({pairs})) AS extra")
    arm = [key for key in parser.arm if key in keys]
    if arm:
        parts = ", ".join(_arm(key, leaves, names) for key in arm)
        columns.append(f"concat_ws(' ', {parts}) AS arm")
    return Layout(
        event, tuple(columns), leaves, tuple(packed), tuple(unread), frozenset(mixed)
    )  # fmt: skip


class _Names:
    """Key paths that DuckDB can hold side by side in one structure: it does not know case."""

    def __init__(self) -> None:
        self.spelled: dict[str, str] = {}

    def take(self, path: str) -> bool:
        places = [*parents(path), path]
        if not all(path.split(".")) or any(
            self.spelled.get(place.lower(), place) != place for place in places
        ):
            return False
        self.spelled.update((place.lower(), place) for place in places)
        return True


def _arm(key: str, leaves: dict[str, str], names: _Names) -> str:
    """The text at a key, read with the other fields where these leave it a place."""
    is_object = any(key in parents(leaf) for leaf in leaves)
    if is_object or leaves.get(key, "text") != "text" or not names.take(key):
        return f"json_extract_string(text, '$.{key}')"
    leaves[key] = "text"
    return access(key)


def _finite(one: Field, values: str) -> str:
    value = f"coalesce({values})"
    match one.type:
        case "float":
            return f"CASE WHEN isfinite({value}) THEN {value} END"
        case "ms":
            return f"CASE WHEN isfinite({value}) THEN {value} / 1000 END"
        case "int":
            return f"CASE WHEN abs({value}) <= {LARGEST:.0f} THEN TRY_CAST({value} AS BIGINT) END"
        case _:
            return value


def structure(leaves: dict[str, str], mixed: Set[str] = frozenset(), *, short: bool = False) -> str:
    """The paths as a structure for DuckDB's from_json; `short` integers in lists."""
    tree: dict[str, Any] = {}
    for path, type in leaves.items():
        if mixed & set(parents(path)):
            continue
        type = "json" if path in mixed else type
        node = tree
        *above, leaf = path.split(".")
        for parent in above:
            node = node.setdefault(parent, {})
        node[leaf] = SQL_TYPES[type]
    text = json.dumps(tree).replace("'", "''")
    return text.replace('["BIGINT"]', '["INTEGER"]') if short else text


def _join(root: str, name: str) -> str:
    return f"{root}.{name}" if root else name


def parents(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def last(path: str) -> str:
    return path.rpartition(".")[2]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def access(path: str, mixed: Set[str] = frozenset()) -> str:
    """The value at a path. In some releases a key holds a text, in others an object."""
    for parent in parents(path):
        if parent in mixed:
            return f"json_extract_string({access(parent)}, '$.{path[len(parent) + 1 :]}')"
    if path in mixed:
        value = access(path)
        return f"CASE WHEN json_type({value}) <> 'OBJECT' THEN {value} ->> '$' END"
    return "r." + ".".join(_q(part) for part in path.split("."))
