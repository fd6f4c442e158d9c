"""What contradicts what: the figures of a finding that its rule sets side by side."""

from __future__ import annotations

import math
from typing import Any

from specdiag.finding import Finding
from specdiag.report.text import duration_ms, figure, share, visible

WIDEST = 40  # characters of a value: traces hold lists and checksums
PERCENT = {"share", "usage", "rate"}  # words of a column's name; its values are 0-1
MEANS = ("_len", "_depth", "_drafts")  # of steps: 7.00 tokens, not 7


def sides(finding: Finding) -> list[tuple[str, str]]:
    """Label and value with its unit, in the rule's order: what was observed stands first.

    A value that the finding lacks is left out, so there may be fewer than the rule names, or none.
    """
    given = [
        (label, column, finding.values[column])
        for label, column in finding.rule.sides.items()
        if _is_there(finding.values.get(column))
    ]
    # Figures that are read against each other have the same decimals.
    fine = any(
        isinstance(value, float) and not value.is_integer() and _unit(column, value) is None
        for _, column, value in given
    )
    return [(label, _shown(column, value, fine)) for label, column, value in given]


def _is_there(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is not None and value not in ("", [], {})


def _shown(column: str, value: Any, fine: bool) -> str:
    with_unit = _unit(column, value)
    if with_unit is not None:
        return with_unit
    if isinstance(value, float):
        means = fine or column.endswith(MEANS)
        return f"{value:.2f}" if means and _two_decimals_do(value) else figure(value)
    return visible(figure(value), WIDEST)


def _two_decimals_do(value: float) -> bool:
    return value == 0 or 0.01 <= abs(value) < 100


def _unit(column: str, value: Any) -> str | None:
    """A number in the unit that its column's name ends with, None where there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if column.endswith("tokens_per_s"):
        return f"{figure(value)} tok/s"
    if column.endswith("_per_s"):
        return f"{figure(value)} a second"
    if column.endswith("_ms"):
        return duration_ms(value)
    if column.endswith("_s"):
        return duration_ms(1000 * value)
    if column.endswith("_gb"):
        return f"{figure(value)} GB"
    if column.endswith("_bytes"):
        return _bytes(value)
    percent = PERCENT & set(column.split("_")) or column.endswith("hit_ratio")
    return share(value) if percent and 0 <= value <= 1 else None


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{figure(value)} {unit}"
        value /= 1024
    return f"{figure(value)} GiB"
