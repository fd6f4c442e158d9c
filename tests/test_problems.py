"""Which of a log's exceptions the others follow from."""

from __future__ import annotations

import pytest

STARTED = "[2026-03-14 10:19:40] server_args=ServerArgs(model_path='a/target', speculative_algorithm='EAGLE3')\n"
CRASHED = "[2026-03-14 10:20:02] Scheduler hit an exception: Traceback (most recent call last):\n"
FRAME = '  File "/app/sglang/srt/managers/scheduler.py", line 12, in run_scheduler_process\n'


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        ("KeyError: 'eagle_config'\n\nKilled\n", "KeyError"),  # the shell says how it ended
        ("KeyError: 'eagle_config'\n\nValueError: no such drafter\n", "ValueError"),
        ("ValueError: no such drafter\n\nKilled\n", "ValueError"),
        ("Killed\n", "Killed"),
    ],
)
def test_the_cause_is_the_exception_that_tells_most(tmp_path, load, after, cause):
    path = tmp_path / "server.log"
    path.write_text(STARTED + CRASHED + FRAME + after, encoding="utf-8")
    assert load(path).rows("SELECT type FROM problem WHERE cause") == [{"type": cause}]


# A drafter that was loaded in part ---------------------------------------------------------------

LOADED = """\
[2026-03-14 10:19:40] server_args=ServerArgs(model_path='a/target', speculative_algorithm='{algorithm}', speculative_draft_model_path='a/draft', speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4)
[2026-03-14 10:19:50] Load weight end. type=LlamaForCausalLM, avail mem=60.00 GB, mem usage=15.00 GB.
{skipped}[2026-03-14 10:19:53] Load weight end. type=LlamaForCausalLMEagle3, avail mem=59.00 GB, mem usage=1.00 GB.
[2026-03-14 10:20:00] The server is fired up and ready to roll!
"""
SKIPPED = (
    "[2026-03-14 10:19:52] Parameter model.midlayer.mlp.down_proj.weight not found in params_dict\n"
)


@pytest.mark.parametrize(
    ("algorithm", "skipped", "accepted", "said"),
    [
        ("EAGLE3", SKIPPED, 1.0, "1 weight of its checkpoint found no place"),
        ("EAGLE", "", 1.0, "its class is LlamaForCausalLMEagle3, the algorithm EAGLE"),
        ("EAGLE3", "", 1.0, None),
        ("EAGLE3", SKIPPED, 2.6, None),
        ("EAGLE", "", 2.6, None),
    ],
)
def test_a_drafter_that_was_loaded_wrongly_is_why_no_draft_is_accepted(
    algorithm, skipped, accepted, said, tmp_path, diagnose
):
    path = tmp_path / "server.log"
    lines = "".join(
        f"[2026-03-14 10:21:{n:02d}] Decode batch, #running-req: 4, #token: 4000, token usage: 0.05, accept len: {accepted:.2f}, accept rate: {(accepted - 1) / 3:.2f}, cuda graph: True, gen throughput (token/s): 400.00, #queue-req: 0\n"
        for n in range(0, 60, 5)
    )
    path.write_text(LOADED.format(algorithm=algorithm, skipped=skipped) + lines, encoding="utf-8")
    found = diagnose(path).findings
    rules = [one.rule.name for one in found]
    assert rules[:1] == (
        ["draft_does_not_match"] if said else ["draft_never_accepted"][: accepted == 1]
    )
    if said:
        assert said in found[0].message
        assert rules[1] == "draft_never_accepted"


# What explains what -------------------------------------------------------------------------------

OVERRIDDEN = "[2026-03-14 10:19:41] speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1\n"


def test_a_slight_finding_does_not_hide_a_grave_one(tmp_path, diagnose):
    lines = "".join(
        f"[2026-03-14 10:21:{n:02d}] Decode batch, #running-req: 4, #token: 4000, token usage: 0.05, accept len: 1.00, accept rate: 0.00, cuda graph: True, gen throughput (token/s): 400.00, #queue-req: 0\n"
        for n in range(0, 60, 5)
    )
    asked = LOADED.replace("draft_tokens=4", "draft_tokens=16")
    path = tmp_path / "server.log"
    path.write_text(asked.format(algorithm="EAGLE3", skipped=OVERRIDDEN) + lines, encoding="utf-8")
    found = diagnose(path)
    assert [(one.rule.name, one.explained_by) for one in found.findings] == [
        ("draft_never_accepted", None),
        ("tree_setting_impossible", None),
    ]
    assert "16 were asked for, 4 are verified" in found.findings[1].message
    assert found.runs[0].facts["draft_tokens"] == 4
