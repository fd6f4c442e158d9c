"""Healthy inputs of unusual shape: no rule says more of them than that."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import correct
import mutations
import pytest
from corpus import ALARMING

from benchmarks import make_log


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


def wandering(seed, records=4000):
    """A busy server whose context and acceptance wander, each for itself, a little every second."""
    draw = random.Random(seed)
    context, accept = 6000.0, 3.5
    start = datetime(2026, 5, 20, 11)
    yield f"[{start}] {make_log.ARGUMENTS}"
    for second in range(records):
        context = min(max(context + draw.gauss(0, 120), 512), 20_000)
        accept = min(max(accept + draw.gauss(0, 0.04), 2), 5)
        head = f"[{start + timedelta(seconds=second)} TP0] "
        step = 8 + context / 800
        if second % 8 == 0:
            yield (
                f"{head}Prefill batch, #new-seq: 1, #new-token: {context:.0f}, #cached-token: 0, "
                "token usage: 0.40, #running-req: 24, #queue-req: 0,"
            )
        if second % 100 == 50:
            yield (
                f"{head}DDTREE metrics: avg_accepted_depth={accept - 1:.2f} "
                f"avg_accepted_drafts={accept - 1:.2f} avg_commit_len={accept:.2f} "
                f"avg_tree_size=33.00 budget=33 ctx_len={context:.0f} step_ms={step:.2f}"
            )
        yield (
            f"{head}Decode batch, #running-req: 24, #token: {24 * context:.0f}, token usage: 0.40, "
            f"accept len: {accept:.2f}, cuda graph: True, "
            f"gen throughput (token/s): {24_000 * accept / step:.2f}, #queue-req: 0,"
        )


@pytest.mark.parametrize("seed", [72, 78])
def test_two_walks_that_agree_by_chance_are_no_decay(diagnose, tmp_path, seed):
    (tmp_path / "server.log").write_text("\n".join(wandering(seed)) + "\n")
    assert alarms(diagnose(tmp_path)) == []
