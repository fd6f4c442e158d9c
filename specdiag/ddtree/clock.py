"""How long each stage of a step took."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch

STAGES = ("draft", "topk", "build", "compile", "verify", "walk", "commit")

Marks = dict[str, Any]  # when each stage ended, in order: seconds, or an event of the device


class Clock:
    """Times the stages of a step, where the work is done: on CUDA by events in the stream.

    Stages follow each other without gaps and sum to the step. Nobody waits for the device before
    `times` are asked for.
    """

    def __init__(self, device: torch.device, running: bool = True) -> None:
        self.device, self.running = device, running
        self.now = time.perf_counter if device.type != "cuda" else self._event
        self.marks: Marks = {"": self.now()} if running else {}

    def start(self) -> None:
        """A step begins; what passed since the last one was idle time."""
        if self.running:
            self.marks = {"": next(reversed(self.marks.values()))}
            self.lap("idle")

    def lap(self, stage: str) -> None:
        """What passed since the last mark was this stage."""
        if self.running:
            self.marks[stage] = self.now()

    def _event(self) -> Any:
        mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        mark.record(torch.cuda.current_stream(self.device))
        return mark


def times(marks: Marks) -> dict[str, float]:
    """Milliseconds of each stage between the marks of a step."""
    pairs = pairwise(marks.items())
    last = next(reversed(marks.values()), 0.0)
    if isinstance(last, float):
        return {stage: 1000 * (end - begin) for (_, begin), (stage, end) in pairs}
    last.synchronize()
    return {stage: begin.elapsed_time(end) for (_, begin), (stage, end) in pairs}
