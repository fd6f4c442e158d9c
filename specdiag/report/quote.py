"""A line that proves a finding, short enough to read: of a long JSON record what it is about."""

from __future__ import annotations

import json
from typing import Any

from specdiag.finding import Evidence, Finding
from specdiag.report.text import visible

HEAD = ("request", "step", "time")  # what a reader finds a record by
MOST = 12  # entries of a list that are shown
GAP = "…"


def line(finding: Finding, one: Evidence, limit: int = 300) -> str:
    """The quoted line, at most `limit` characters."""
    text = one.text.strip()
    if len(text) > limit and text.startswith("{"):
        text = _record(text, _about(finding)) or text
    return visible(text, limit)


def _about(finding: Finding) -> set[str]:
    """The columns that a finding speaks of, or its rule reads."""
    values = finding.values
    fields = [values.get("field"), *(values.get("fields") or [])]
    read = [column for columns in finding.rule.needs.values() for column in columns]
    return {str(name) for name in (*fields, *values, *read) if name} - {*HEAD}


def _record(text: str, about: set[str]) -> str:
    """The entries of a JSON object that are about one of these, or nothing where it has none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(record, dict):
        return ""
    parts: list[str] = []
    for key, value in record.items():
        if key in HEAD or any(_same(key, name) for name in about):
            parts.append(f"{json.dumps(key, ensure_ascii=False)}: {_short(value)}")
        elif parts[-1:] != [GAP]:
            parts.append(GAP)
    shown = ", ".join(parts)
    return "{" + shown + "}" if shown != GAP else ""


def _same(key: str, name: str) -> bool:
    """Whether a key is a column under its own name or a longer one: accepted, accepted_path."""
    return key == name or key.startswith(f"{name}_") or key.endswith(f"_{name}")


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > MOST:
        shown = json.dumps(value[:MOST], ensure_ascii=False)
        return f"{shown[:-1]}, {GAP} {len(value)} in all]"
    return json.dumps(value, ensure_ascii=False)
