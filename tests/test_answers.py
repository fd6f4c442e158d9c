"""What the texts of answers say, beside what was accepted while they were written."""

from __future__ import annotations

import json
import random

import pytest

SIGNS = "!" * 300
CHANCE = random.Random(4)
WORDS = [
    "the",
    "river",
    "clock",
    "stone",
    "green",
    "under",
    "over",
    "between",
    "slow",
    "light",
    "paper",
    "north",
    "cabin",
    "apple",
]


def answer(text, accept_len, tokens=300, finish="stop", **given):
    """A response with its counters; three drafts a step."""
    steps = round(tokens / accept_len)
    return {
        "text": text,
        **given,
        "meta_info": {
            "finish_reason": {"type": finish}, "prompt_tokens": 40, "completion_tokens": tokens,
            "spec_verify_ct": steps, "spec_num_correct_drafts": tokens - steps,
            "spec_num_proposed_drafts": 3 * steps, "spec_accept_length": tokens / steps,
        },
    }  # fmt: skip


def sound(accept_len=2.4, **given):
    return answer(" ".join(CHANCE.choices(WORDS, k=90)), accept_len, **given)


@pytest.fixture
def said(tmp_path, diagnose):
    """The severity of each finding on records, by rule."""

    def said(records):
        path = tmp_path / "requests.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
        found = diagnose(path).findings
        return {
            one.rule.name: one.severity
            for one in found
            if one.explained_by is None and one.severity in ("critical", "high", "medium")
        }

    return said


def test_one_sign_without_end_at_the_ceiling_is_no_loop_of_the_target(said):
    signs = [answer(SIGNS, 4.0, finish="length") for _ in range(5)]
    assert said([*signs, *(sound() for _ in range(7))]) == {"acceptance_too_perfect": "critical"}


def test_a_few_loops_at_the_ceiling_may_be_the_target_s_own(said):
    loops = [answer("and the river is " * 60, 4.0, finish="length") for _ in range(5)]
    assert said([*loops, *(sound() for _ in range(7))]) == {}


def test_an_answer_of_signs_that_drafts_did_not_foresee_is_not_blamed_on_them(said):
    signs = [answer(SIGNS, 2.4) for _ in range(2)]
    assert said([*signs, *(sound() for _ in range(10))]) == {}


def bound(failed, of, finish="length"):
    """Requests with a schema and without one, of which some with one reach their limit."""
    schema = {"json_schema": '{"type": "object"}', "temperature": 0}
    with_one = [
        sound(finish=finish if nth < failed else "stop", sampling_params=schema)
        for nth in range(of)
    ]
    return [*with_one, *(sound() for _ in range(of))]


@pytest.mark.parametrize(
    ("failed", "finish", "severity"),
    [(8, "length", "high"), (5, "length", "medium"), (5, "abort", "high"), (2, "length", None)],
)
def test_requests_with_a_schema_alone_do_not_end(failed, finish, severity, said):
    assert said(bound(failed, 8, finish)).get("grammar_conflict") == severity


# Evaluations --------------------------------------------------------------------------------------

HYBRID = "[2026-09-02 08:00:02] Mamba Cache is allocated. max_mamba_cache_size: 200, conv_state size: 0.44GB, ssm_state size: 14.06GB \n"
EVALUATION = """\
$ python3 -m sglang.test.few_shot_gsm8k
Accuracy: {:.3f}
Invalid: 0.000
Latency: 20.112 s
Output throughput: 820.123 token/s
"""


def evaluated(accuracy, algorithm=None, hybrid=True):
    """A server's log, and what an evaluation said of it below."""
    start = f"[2026-09-02 08:00:00] server_args=ServerArgs(model_path='org/target', tp_size=1, speculative_algorithm={algorithm!r})\n"
    spec = "accept len: 2.80, accept rate: 0.60, " if algorithm else ""
    lines = "".join(
        f"[2026-09-02 08:01:{nth:02d} TP0] Decode batch, #running-req: 8, #token: {3000 + 40 * nth}, token usage: 0.02, {spec}cuda graph: True, gen throughput (token/s): {700 if algorithm else 250}.00, #queue-req: 0\n"
        for nth in range(12)
    )
    return start + HYBRID * hybrid + lines + EVALUATION.format(accuracy)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("accuracy", "hybrid", "found"),
    [
        (0.745, True, ["recurrent_state_corrupted"]),
        (0.930, True, []),  # of 200 questions
        (0.745, False, []),
    ],
)
def test_an_evaluation_that_is_worse_with_speculation(
    accuracy, hybrid, found, together, tmp_path, diagnose
):
    logs = [evaluated(accuracy, "NEXTN", hybrid), evaluated(0.955, None, hybrid)]
    for name, text in [("both", "".join(logs))] if together else zip("ab", logs, strict=True):
        (tmp_path / f"{name}.log").write_text(text, encoding="utf-8")
    said = diagnose(tmp_path)
    assert len(said.runs) == 2
    assert [one.rule.name for one in said.findings if one.severity == "critical"] == found
