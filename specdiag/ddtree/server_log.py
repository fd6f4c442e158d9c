"""A log of a run in the shape of SGLang 0.5.11 with a DDTREE worker, beside the run's trace.

A decode line stands for exactly 40 steps of the batch, whichever requests were in it, so its means
can be weighted by its batch and the interval. As in the server, the steps behind the last whole
window have no line: one for fewer steps would weigh as much as the others and bend every sum. The
trace has them.

Lines are flushed one by one: an interrupted run leaves a readable file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from specdiag.ddtree.trace import StepRecord
from specdiag.errors import SpecdiagError, reason

INTERVAL = 40  # steps of the batch between two decode lines
GB = 2**30  # as the server counts it


class ServerLog:
    """A server log that is being written; use it in a `with` block.

    `algorithm` is None, DFLASH or DDTREE, `budget` is DDTREE's, `device` is cpu or cuda. Raises
    SpecdiagError when the file cannot be made or the disk is full.
    """

    def __init__(
        self, path: Path, algorithm: str | None, draft_tokens: int, budget: int | None = None,
        top_k: int | None = None, shadow: bool = False, device: str = "cpu",
    ) -> None:  # fmt: skip
        self.path = path
        self.algorithm, self.draft_tokens = algorithm, draft_tokens
        self.budget, self.top_k, self.shadow, self.device = budget, top_k, shadow, device
        self.began = time.perf_counter()
        self.prefilled = self.began  # when the last prefill line was printed
        self.capacity = 0  # tokens that the cache holds
        self.steps = 0
        self.waiting: dict[int, list[StepRecord]] = {}  # by number, steps that lack a request
        self.window: list[list[StepRecord]] = []  # steps since the last decode line
        try:
            self.file = open(path, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        except OSError as error:
            raise SpecdiagError(
                f"no server log: {reason(error)}",
                str(path),
                "name a file in a folder that can be written",
            ) from None

    def __enter__(self) -> ServerLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            self.file.close()
        except OSError as failed:  # what could not be written is tried again by close
            if kind is None:
                raise self._broken(failed) from None

    def start(self, arguments: Mapping[str, Any], drafter: str = "", block: int = 0) -> None:
        """The lines of a start: what was asked for, and which workers are there."""
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        self._print(f"server_args=ServerArgs({given})")
        if self.algorithm is not None:
            backend = arguments.get("attention_backend")
            head = f"Initialized {self.algorithm} draft runner. attention_backend={backend}, "
            tree = f", budget={self.budget}, top_k={self.top_k}"
            chain = ", draft_window_size=None, compact_cache=False"
            tail = tree if self.algorithm == "DDTREE" else chain
            self._print(f"{head}model={drafter}, block_size={block}{tail}")
        if self.shadow:
            self._print("DDTREE shadow-linear mode is enabled")

    def ready(self, capacity: int, requests: int, context_len: int, kv_bytes: int) -> None:
        """The cache for the next requests was made: `capacity` tokens in `kv_bytes`."""
        first = not self.capacity
        self.capacity = capacity
        half = kv_bytes / 2 / GB
        self._print(
            f"KV Cache is allocated. #tokens: {capacity}, K size: {half:.2f} GB, "
            f"V size: {half:.2f} GB"
        )
        self._print(
            f"max_total_num_tokens={capacity}, max_prefill_tokens={capacity}, "
            f"max_running_requests={requests}, context_len={context_len}"
        )
        if first:
            self._print("The server is fired up and ready to roll!")

    def prefill(self, prompts: Sequence[int], cached: int = 0) -> None:
        """Prompts of these lengths were computed, but for so many tokens that were there."""
        now = time.perf_counter()
        tokens = sum(prompts) - cached
        self._print(
            f"Prefill batch, #new-seq: {len(prompts)}, #new-token: {tokens}, "
            f"#cached-token: {cached}, token usage: {self._usage(tokens + cached):.2f}, "
            "#running-req: 0, #queue-req: 0, "
            f"#pending-token: 0, {self.device} graph: False, "
            f"input throughput (token/s): {tokens / max(now - self.prefilled, 1e-9):.2f}"
        )
        self.prefilled = now

    def step(self, record: StepRecord) -> None:
        """What one request did in a step; the step is over when all of its batch are here.

        Requests that are decoded together start together, so the number of a step is the same for
        all. With the oracle a request's steps come only when it has ended.
        """
        rows = self.waiting.setdefault(record.step, [])
        rows.append(record)
        if len(rows) < record.batch:
            return
        del self.waiting[record.step]
        self.steps += 1
        self.window.append(rows)
        if self.steps == 1 and self.algorithm is not None:
            drafts = [_whole(row.accepted_drafts) for row in rows]
            self._print(f"{self.algorithm} verify completed. num_accepted_drafts_per_req={drafts}")
        if len(self.window) == INTERVAL:
            self._decoded(rows)

    def _decoded(self, rows: Sequence[StepRecord]) -> None:
        # The steps' own time: a run that takes turns with others is not slower for it.
        spent = sum((step[0].step_ms or 0.0) + (step[0].idle_ms or 0.0) for step in self.window)
        seconds = max(spent / 1000, 1e-9)
        window = [row for step in self.window for row in step]
        self.window = []
        committed = sum(row.commit_len or 0.0 for row in window)
        drafts = sum(row.accepted_drafts or 0.0 for row in window)
        count = len(window)
        held = sum(row.kv_after or 0 for row in rows)
        accept = ""
        if self.algorithm is not None:
            rate = drafts / max(count * (self.draft_tokens - 1), 1)
            accept = f"accept len: {committed / count:.2f}, accept rate: {rate:.2f}, "
        self._print(
            f"Decode batch, #running-req: {len(rows)}, #token: {held}, "
            f"token usage: {self._usage(held):.2f}, {accept}{self.device} graph: False, "
            f"gen throughput (token/s): {committed / seconds:.2f}, "
            "#queue-req: 0"
        )
        if self.algorithm != "DDTREE":
            return
        depth = sum(row.accepted_depth or 0.0 for row in window)
        # In shadow-linear mode the verified nodes are the chain's: no size of a tree.
        size = f"avg_tree_size={sum(row.nodes for row in window) / count:.2f} "
        self._print(
            f"DDTREE metrics: avg_accepted_depth={depth / count:.2f} "
            f"avg_accepted_drafts={drafts / count:.2f} avg_commit_len={committed / count:.2f} "
            f"{'' if self.shadow else size}budget={self.budget} top_k={self.top_k}"
        )

    def _usage(self, tokens: int) -> float:
        return min(tokens / self.capacity, 1.0) if self.capacity else 0.0

    def _print(self, message: str) -> None:
        now = datetime.now().isoformat(" ", "milliseconds")
        try:
            self.file.write(f"[{now}] {message}\n")
            self.file.flush()
        except OSError as error:
            raise self._broken(error) from None

    def _broken(self, error: OSError) -> SpecdiagError:
        return SpecdiagError(
            f"the server log broke off: {reason(error)}", str(self.path),
            "free some space; what was written is readable",
        )  # fmt: skip


def _whole(value: float | None) -> int:
    return round(value or 0.0)
