"""What looks like a fault and is none: `near_misses/RULE--what it is.log` must not fire RULE.

It is analysed alone, or with the files beside it where it is a folder. Nothing else may alarm
either, and the rule must have been able to look: a near miss on which it is not applicable proves
nothing.

What looks like a fault in a step trace is a matter of single fields, and `test_replay.py` draws it:
every order of records, every column left out, near ties, foreign numberings, cut last steps, in
traces that are correct on paper. Here such a rule must have looked at a healthy trace of a real
runtime, with cut steps, two requests in a batch and a hybrid target in it, and have passed it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus import ALARMING
from test_rules import RULES

ROOT = Path(__file__).parents[1]
NEAR = sorted(Path(__file__).with_name("near_misses").glob("*--*"))
NAMED = {path.name.partition("--")[0] for path in NEAR}
TRACES = sorted((ROOT / "sample_logs").glob("healthy*trace.jsonl"))


@pytest.mark.parametrize("path", NEAR, ids=lambda path: path.name)
def test_a_near_miss_is_looked_at_and_not_reported(path, diagnose):
    rule = path.name.partition("--")[0]
    found = diagnose(path)
    assert [one.id for one in found.findings if one.severity in ALARMING] == []
    assert rule not in [one.rule.name for one in found.findings]
    decided = {one.result for one in found.results if one.rule == rule}
    assert "pass" in decided, decided


@pytest.mark.parametrize("name", [path.stem for path in RULES if path.stem not in NAMED])
def test_a_rule_without_a_near_miss_is_on_traces_and_passed_a_healthy_one(
    name, sample, definitions
):
    rule = next(one for one in definitions[1] if one.name == name)
    assert "step" in rule.needs, (
        f"a rule on logs wants a near miss: tests/near_misses/{name}--*.log"
    )
    passed = {
        one.result for path in TRACES for one in sample(path.name).results if one.rule == name
    }
    assert "pass" in passed, passed


def test_no_near_miss_without_a_rule():
    assert {path.stem for path in RULES} >= NAMED
