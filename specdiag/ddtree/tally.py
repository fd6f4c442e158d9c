"""What each request of a run has received so far, and its record in the trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from specdiag.ddtree.decode import Options, Request
from specdiag.ddtree.trace import RequestRecord, StepRecord


@dataclass
class Tally:
    """What a request has received so far."""

    request: Request
    first_token: int | None = None
    cached: int = 0  # tokens of its prompt that a prefix cache had
    tokens: int = 0
    steps: int = 0
    proposed: int = 0
    depths: Counter[int] = field(default_factory=Counter)  # steps by accepted drafts

    def step(self, record: StepRecord) -> None:
        """Count a step."""
        self.steps += 1
        self.depths[len(record.accepted) - 1] += 1
        self.proposed += record.nodes

    def record(self, options: Options, finish: str | None) -> RequestRecord:
        """What a trace says of the request when it has ended."""
        request, sampling = self.request, self.request.sampling
        record = RequestRecord(
            run=options.run, request=request.name, prompt_tokens=len(request.prompt),
            completion_tokens=self.tokens, cached_tokens=self.cached,
            max_new_tokens=request.max_new_tokens,
            temperature=sampling.temperature, top_p=sampling.top_p, seed=sampling.seed,
            first_token=self.first_token, finish=finish,
            grammar=request.grammar.name if request.grammar is not None else None,
        )  # fmt: skip
        if options.mode != "autoregressive":  # as in a server, which counts no verification then
            record.verify_steps = self.steps
            record.correct_drafts = sum(depth * count for depth, count in self.depths.items())
            record.histogram = [self.depths[at] for at in range(max(self.depths, default=-1) + 1)]
            if request.budget is None:  # readers take it for the same in every step of a run
                record.proposed_drafts = self.proposed
        return record
