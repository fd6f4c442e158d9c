"""What specdiag itself wrote: results and no evidence, though they quote what they tell of."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

# How each kind of report begins; the last is what a terminal was told, maybe with its warnings.
_BEGINS = re.compile(
    rb"""\s*(?:
      \{\s*"schema":\s*\d+,\s*"specdiag":
    | \{\s*"\$schema":\s*"[^"]*sarif[^"]*",\s*"version":\s*"[^"]*",\s*"runs":\s*\[\s*
        \{\s*"tool":\s*\{\s*"driver":\s*\{\s*"name":\s*"specdiag"
    | \[\s*(?:\{\s*"description":\s*"(?:[^"\\]|\\.)*",\s*"check_name":.*|\])\s*\Z
    | <!DOCTYPE\ html>\s*<html[^>]*>\s*<head>\s*<meta[^>]*>\s*
        <meta\ name="generator"\ content="specdiag\b
    | <\?xml[^>]*\?>\s*<testsuites\ name="specdiag"
    | ::(?:notice|warning|error)\ (?:file|title)=[^\n]*::
    | \#\ specdiag$
    | \#\ TYPE\ specdiag_build\ info$
    | (?:(?:warning:|[ ]-->|help:)[^\n]*\n)*(?:[^\n]+\n){1,4}decidable:\ [0-9,]+\ of\ [0-9,]+\ rule
    )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def wrote(head: bytes) -> bool:
    """Whether a file that begins like this is a report of specdiag."""
    return _BEGINS.match(head) is not None


def saved(path: Path) -> bool:
    """Whether a DuckDB file is a result that specdiag saved."""
    try:
        with duckdb.connect(str(path), read_only=True) as db:
            known = db.execute(
                "SELECT 1 FROM duckdb_tables() WHERE schema_name = 'main' AND table_name = 'saved'"
            )
            return bool(known.fetchall())
    except (duckdb.Error, UnicodeError):  # in use, or of a newer version
        return False
