"""Healthy inputs of unusual shape: no rule says more of them than that."""

from __future__ import annotations

import correct
from corpus import ALARMING


def alarms(found):
    return [one.id for one in found.findings if one.severity in ALARMING]


def test_a_chain_that_was_asked_for_is_no_tree_because_of_an_unused_top_k(diagnose, tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(correct.lines(correct.trace(3, "linear", 20, top_k=4, requests=5, length=60)))
    assert alarms(diagnose(path)) == []
