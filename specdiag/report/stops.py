"""What `specdiag stops` prints."""

from __future__ import annotations

from collections.abc import Iterator

from specdiag.report.text import MISSING, count, share, visible
from specdiag.stops import REASONS, Depth, Stops

FEW = 5  # nodes of which no rate is told


def render(answers: list[Stops]) -> str:
    """Reasons and calibration of every run as text."""
    return "\n\n".join("\n".join(_run(one)) for one in answers)


def _run(one: Stops) -> Iterator[str]:
    yield f"{visible(one.run, 80)}: why {count(one.steps, 'step')} stopped"
    for why, steps in one.reasons.items():
        name = why.replace("_", "-")
        yield f"  {share(steps / one.steps):>6}  {name:<10}  {REASONS[why]}"
    if not one.depths:
        return
    yield ""
    yield "  below accepted rows   first choice         siblings"
    yield "                depth   drafted  accepted    drafted  accepted"
    by_depth: dict[int, dict[bool, Depth]] = {}
    for each in one.depths:
        by_depth.setdefault(each.depth, {})[each.sibling] = each
    for depth, found in by_depth.items():
        cells = [*_cells(found.get(False)), *_cells(found.get(True))]
        yield "                {:>5}   {:>7}  {:>8}    {:>7}  {:>8}".format(depth, *cells)


def _cells(one: Depth | None) -> tuple[str, str]:
    """Mean probability, and share that was accepted."""
    if one is None or one.nodes < FEW:
        return MISSING, MISSING
    return f"{one.expected / one.nodes:.2f}", f"{one.accepted / one.nodes:.2f}"
