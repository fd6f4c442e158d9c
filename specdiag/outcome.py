"""How a check ends: the one place that decides its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdiag.errors import NOTHING_READ, WRONG_USE

if TYPE_CHECKING:
    from specdiag.diagnosis import Diagnosis

FINDINGS = 1


def exit_code(found: Diagnosis, fail_on: str, held: bool = True) -> int:
    """0, or the reason why not: wrong use before what is undecided before findings.

    `fail_on` is a severity or `never`. `held`: to assertions and presets, else they are only told.
    """
    asserted = found.assertions if held else []
    known = {one.name for one in found.rules}
    if found.broken or any(name not in known for name in found.require):
        return WRONG_USE
    if any(one.result == "unmatched" for one in asserted):
        # What checks nothing must not be green; but a run that died has no figures, and says why.
        return FINDINGS if found.at_least(fail_on) else WRONG_USE
    undecided = {one.rule for one in found.results if one.result == "undecided"}
    if undecided & set(found.require):
        return NOTHING_READ
    if any(one.required and one.result == "undecided" for one in asserted):
        return NOTHING_READ
    failed = any(one.result == "failed" for one in asserted)
    return FINDINGS if failed or found.at_least(fail_on) else 0
