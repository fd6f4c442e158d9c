"""What `specdiag ledger` prints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from specdiag.report.text import count, figure, visible

SHOWN = 5  # records of an account that are off and are shown one by one

LEGEND = {"!": "! does not balance", "?": "? shown, not judged"}
LEGEND = {"!": "! does not balance", "?": "? shown, not judged"}

Entry = dict[str, Any]  # a row of view ledger


def render(entries: list[Entry], files: list[str]) -> str:
    """Every run's accounts as text; `files` are the names of the sources."""
    runs = groupby(entries, key=lambda one: one["run"])
    return "\n\n".join("\n".join(_run(run, list(found), files)) for run, found in runs)


def _run(run: str, entries: list[Entry], files: list[str]) -> Iterator[str]:
    off = sum(one["balanced"] is False for one in entries)
    judged = sum(one["balanced"] is not None for one in entries)
    yield f"{visible(run, 80)}: {judged - off:,} of {count(judged, 'entry', 'entries')} balance"
    yield ""
    rows = [["", "account", "left", "right", "residual", "allowed", "where"]]
    by_account = groupby(entries, key=lambda one: (one["request"] is None, one["account"]))
    for (_, account), found in by_account:
        rows += _account(str(account), list(found), files)
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if at in (4, 5) else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  " + "  ".join(cells).rstrip()
    marks = {row[0] for row in rows}
    told = [words for mark, words in LEGEND.items() if mark in marks]
    yield from (["", "  " + ", ".join(told)] if told else [])


def _account(account: str, entries: list[Entry], files: list[str]) -> Iterator[list[str]]:
    """The entries that are off; of those that balance the one with the largest residual."""
    off = [one for one in entries if one["balanced"] is False]
    rest = [one for one in entries if one["balanced"] is not False]
    for one in off[:SHOWN]:
        yield _row("!", account, one, files)
    if len(off) > SHOWN:
        yield ["!", account, f"and {len(off) - SHOWN:,} more records", "", "", "", ""]
    if rest:
        largest = max(rest, key=lambda one: abs(one["residual"]))
        more = f" (largest of {len(rest):,})" if len(rest) > 1 else ""
        yield _row("" if largest["balanced"] else "?", account + more, largest, files)


def _row(mark: str, account: str, one: Entry, files: list[str]) -> list[str]:
    low, high = (figure(one[side]) for side in ("least", "most"))
    judged = one["balanced"] is not None
    return [
        mark, account,
        f"{one['left_side']} {figure(one['left_value'])}",
        f"{one['right_side']} {figure(one['right_value'])}",
        figure(round(one["residual"], 3)), f"{low} to {high}" if judged else "not judged",
        f"{visible(files[one['source']], 60)}:{one['line']}",
    ]  # fmt: skip
