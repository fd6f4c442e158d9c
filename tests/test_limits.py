"""Requests that queue behind a limit: whose limit it is decides how much it weighs."""

from __future__ import annotations

import pytest

RESET = "[2026-08-10 14:00:00] Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting --max-running-requests.\n"
STARTED = "[2026-08-10 14:00:01] server_args=ServerArgs(model_path='org/target', {args}speculative_algorithm='EAGLE3')\n"
CAPACITY = "[2026-08-10 14:01:00 TP0] max_total_num_tokens=402176, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests={limit}, context_len=131072, available_gpu_mem=7.40 GB\n"
DECODED = "[2026-08-10 14:02:{nth:02d} TP0] Decode batch, #running-req: {limit}, #token: {tokens}, token usage: 0.09, accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 1300.00, #queue-req: {queued}\n"


@pytest.mark.parametrize(
    ("limit", "reset", "args", "severity", "words"),
    [
        (48, True, "", "medium", "reset to 48 because of speculation"),
        (16, True, "", "medium", "16, although it announced 48"),
        (48, False, "max_running_requests=None, ", "medium", "which nobody asked for"),
        (48, False, "", "low", "came up with a limit of 48"),
        (48, False, "max_running_requests=48, ", None, ""),
    ],
)
def test_a_limit_that_the_server_set(limit, reset, args, severity, words, tmp_path, diagnose):
    lines = "".join(
        DECODED.format(nth=nth, limit=limit, tokens=30000 + 300 * nth, queued=20 + nth)
        for nth in range(20)
    )
    path = tmp_path / "server.log"
    start = RESET * reset + STARTED.format(args=args) + CAPACITY.format(limit=limit)
    path.write_text(start + lines, encoding="utf-8")
    found = [one for one in diagnose(path).findings if one.rule.name == "running_cap_lowered"]
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert all(words in one.message for one in found)
