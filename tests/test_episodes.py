"""When an acceptance that falls at once is a collapse, and when it is not."""

from __future__ import annotations

import pytest

START = """\
[2026-03-14 10:19:40] server_args=ServerArgs(model_path='a/target', speculative_algorithm='EAGLE3', speculative_draft_model_path='a/draft', speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4)
[2026-03-14 10:20:00] The server is fired up and ready to roll!
"""
UPDATE = """\
[2026-03-14 10:21:58] Update engine weights online from disk begin. load_format=auto
[2026-03-14 10:21:59] Update weights end.
"""


def lines(minute, lengths, running=6):
    return "".join(
        f"[2026-03-14 10:{minute:02d}:{n * 2:02d}] Decode batch, #running-req: {running}, #token: {320 * running}, token usage: 0.05, accept len: {length:.2f}, accept rate: {(length - 1) / 3:.2f}, cuda graph: True, gen throughput (token/s): {300 * length:.2f}, #queue-req: 0\n"
        for n, length in enumerate(lengths)
    )


HIGH = [2.7, 3.0, 2.8, 2.9, 3.1] * 5
LOW = [1.6, 1.7, 1.5, 1.6, 1.8] * 5
CHANCE = [1.02, 1.04, 1.03, 1.01, 1.03] * 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lines(21, HIGH) + lines(22, CHANCE), "25 decode lines in a row accept hardly a draft"),
        (lines(21, HIGH) + UPDATE + lines(22, LOW), "0.63 drafts a step are accepted after an update of the weights, 1.91 before it"),
        (lines(21, HIGH) + UPDATE + lines(22, CHANCE), "hardly a draft"),
        (lines(21, HIGH) + lines(22, LOW), None),  # other texts, perhaps
        (lines(21, HIGH) + UPDATE + lines(22, HIGH), None),
        (lines(21, HIGH) + UPDATE + lines(22, LOW[:5] + HIGH), None),
        (lines(21, HIGH) + UPDATE + lines(22, LOW[:8]), None),  # too few
        (lines(21, HIGH) + lines(22, CHANCE[:4], running=1), None),
        (lines(21, HIGH) + lines(22, CHANCE[:4]) + lines(23, HIGH), None),  # too short
        (lines(21, HIGH) + lines(22, CHANCE[:8]) + lines(23, HIGH), "8 decode lines in a row accept hardly a draft"),
    ],
)  # fmt: skip
def test_a_fall_is_told_from_a_pause_and_from_other_texts(text, said, tmp_path, diagnose):
    path = tmp_path / "server.log"
    path.write_text(START + text, encoding="utf-8")
    found = [
        one
        for one in diagnose(path).findings
        if one.rule.name == "acceptance_collapses_in_episodes"
    ]
    assert len(found) == (said is not None)
    assert all(str(said) in one.message for one in found), found
