"""Healthy inputs of unusual shape: no rule says more of them than that."""

from __future__ import annotations

import correct
import mutations
from corpus import ALARMING


def alarms(found):
    return [one.id for one in found.findings if one.severity in ALARMING]


def test_a_chain_that_was_asked_for_is_no_tree_because_of_an_unused_top_k(diagnose, tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(correct.lines(correct.trace(3, "linear", 20, top_k=4, requests=5, length=60)))
    assert alarms(diagnose(path)) == []


def test_other_questions_that_are_as_long_on_average_are_not_the_same_questions(diagnose, tmp_path):
    """Of two logs with 160 prompts each, whose mean lengths are within two percent of each other."""
    easy = mutations.server("sglang 0.5.12", "arm").but(traffic=((6, 160),), accept=0.9)
    logs = mutations.log(easy=easy, hard=easy.but(seed=5, accept=0.55))
    for name, text in logs.items():
        (tmp_path / name).write_text(text)
    assert alarms(diagnose(tmp_path)) == []


def test_a_drafter_from_a_hub_is_a_drafter(diagnose, tmp_path):
    files = mutations.log(mutations.server("llamacpp 9950", "chat"))
    old = "-md chat-drafter.gguf --spec-draft-n-max 3 --spec-type draft-simple"
    assert old in files["server.log"]
    text = files["server.log"].replace(old, "-hfd example/chat-drafter-GGUF:Q8_0")
    (tmp_path / "server.log").write_text(text)
    assert [run.facts["algorithm"] for run in diagnose(tmp_path).runs] == ["DRAFT_MODEL"]
