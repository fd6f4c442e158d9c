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
