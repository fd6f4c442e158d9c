"""What looks like a fault and is none: `near_misses/RULE--what it is.log` must not fire RULE.

It is analysed alone, or with the files beside it where it is a folder. Nothing else may alarm
either, and the rule must have been able to look: a near miss on which it is not applicable proves
nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_rules import ALARMING

NEAR = sorted(Path(__file__).with_name("near_misses").glob("*--*"))


@pytest.mark.parametrize("path", NEAR, ids=lambda path: path.name)
def test_a_near_miss_is_looked_at_and_not_reported(path, diagnose):
    rule = path.name.partition("--")[0]
    found = diagnose(path)
    assert [one.id for one in found.findings if one.severity in ALARMING] == []
    assert rule not in [one.rule.name for one in found.findings]
    decided = {one.result for one in found.results if one.rule == rule}
    assert "pass" in decided, decided
