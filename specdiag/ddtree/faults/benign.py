"""What looks like a fault and is none: a reader must stay silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.loop import Loop
from specdiag.ddtree.passes import Passes
from specdiag.ddtree.record import Recorder
from specdiag.ddtree.recording import Recording

# What passes of other shapes make of a logit of size 10: a few units in its last place.
NOISE = {torch.float32: 1e-4, torch.bfloat16: 0.05}


@fault(53, "Near ties flip by noise of the type's size", "-")
def near_ties(at: Injection) -> None:
    def verify(original: Wrapper, passes: Any, *args: Any) -> Any:
        out = original(passes, *args)
        noise = torch.rand(out.logits.shape, generator=draws).to(out.logits.device)
        return replace(out, logits=out.logits + NOISE.get(passes.target.dtype, 0.0) * noise)

    draws = torch.Generator().manual_seed(53)
    at.around(Passes, "verify", verify)


@fault(56, "Warm-up rounds stand among the steps, and are marked", "-")
def warm_up(at: Injection) -> None:
    def record(original: Wrapper, recorder: Any, held: Any, row: int) -> Any:
        found = original(recorder, held, row)
        if found.step == 0:
            for number in range(3):
                recorder.on_step(
                    replace(
                        found, request="warmup", step=number, warmup=True, accepted=[0],
                        emitted=[], accepted_depth=0.0, accepted_drafts=0.0, commit_len=1.0,
                    )
                )  # fmt: skip
        return found

    def tally(original: Wrapper, recording: Any, record: Any) -> None:
        if not record.warmup:
            original(recording, record)
        elif recording.writer is not None:
            recording.writer.write(record)

    at.around(Recorder, "_record", record, always=True)
    at.around(Recording, "_step", tally, always=True, quiet=True)


@fault(57, "The target is quantised, the drafter was trained for the original", "-")
def quantised_target(at: Injection) -> None:
    def prefill(original: Wrapper, loop: Any) -> None:
        if not kept:
            for parameter in loop.target.parameters():
                kept.append((parameter, parameter.data.clone()))
                if parameter.dim() > 1:
                    step = parameter.data.abs().amax(-1, keepdim=True) / 7
                    parameter.data.copy_((parameter.data / step).round().nan_to_num() * step)
        original(loop)

    def restore() -> None:
        for parameter, data in kept:
            parameter.data.copy_(data)

    kept: list[tuple[Any, Any]] = []
    at.stack.callback(restore)
    at.around(Loop, "prefill", prefill, always=True, quiet=True)
