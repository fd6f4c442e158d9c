"""The detection bench: every fault and many sound runs, judged by the ordinary rules.

Traces are written by processes beside each other, then read in groups, as `specdiag analyze`
reads a folder of them. Nothing but the traces says what was wrong with a run.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from specdiag import diagnosis, source
from specdiag.ddtree import faults, trials
from specdiag.ddtree.trials import KINDS, Trial
from specdiag.errors import SpecdiagError

START = 3  # the first step that is faulty
TOGETHER = 40  # traces that are read together
QUIET = ("low", "info")  # what is no alarm

# What can be left out of a trace, and the columns that go with it.
PARTS: dict[str, tuple[str, ...]] = {
    "candidates": ("candidate_tokens", "candidate_log_probs", "lse"),
    "mask": ("visible", "past_visible", "mask_bytes"),
    "inputs": ("ids_read", "positions_read", "tap_layers_read", "draft_turns"),
    "checksums": ("checksums",),
    "law": ("target_probs", "draws"),
    "oracle": ("oracle_tokens", "oracle_gaps"),
    "draft": ("block_tokens", "block_start", "draft_kv_before", "draft_kv_after", "context_start",
              "context_rows", "context_source", "window_low", "spine_tokens"),
    "scores": ("ranks", "log_probs"),
    "positions": ("positions",),
    "choices": ("target_tokens", "gaps"),
    "counters": ("accepted_depth", "accepted_drafts"),
    "cache": ("kv_before", "kv_verified", "kv_after", "kv_source", "kv_target", "slots"),
    "state": ("state_row", "state_sources", "checkpoint_tokens", "checkpoint_rows"),
    "grammar": ("legal",),
    "times": ("draft_ms", "topk_ms", "build_ms", "compile_ms", "verify_ms", "walk_ms",
              "commit_ms", "step_ms"),
}  # fmt: skip


@dataclass
class Case:
    """One run, and what became of it."""

    trial: Trial
    number: int | None = None  # of the fault; None is a sound run
    start: int = START
    due: int | None = None  # the step in which the fault shows, None if it had nothing to act on
    causes: list[tuple[str, str, str, int | None, str]] = field(default_factory=list)
    error: str = ""
    needed: list[str] = field(default_factory=list)  # parts without which it is not named

    @property
    def benign(self) -> bool:
        """Whether a reader has to stay silent."""
        return self.number is None or faults.all_faults()[self.number].effect == "-"

    @property
    def named(self) -> bool:
        """Whether the first finding names the fault."""
        return bool(self.causes) and f"F{self.number}" in self.causes[0][4].split(", ")

    @property
    def found(self) -> int | None:
        """The step that the first finding names."""
        return self.causes[0][3] if self.causes else None

    @property
    def alarms(self) -> list[str]:
        """What is reported that would wake somebody."""
        return [rule for rule, severity, *_ in self.causes if severity not in QUIET]


def fault_cases(quick: bool) -> list[Case]:
    """Every fault on every kind of target that can have it."""
    found = []
    for number, one in faults.all_faults().items():
        for seed in range(1 if quick else 2):
            for kind in KINDS:
                sizes = (4,) if "batch" in one.needs else (1, 4)
                for batch in sizes if not quick else sizes[:1]:
                    trial = trials.suited(one, kind, batch, seed)
                    if trial is not None:
                        found.append(Case(trial, number))
    if not quick:
        return found
    return list({case.number: case for case in reversed(found)}.values())[::-1]


def sound_cases(quick: bool) -> list[Case]:
    """Runs without a fault, as different as they come."""
    changes: dict[str, dict[str, Any]] = {
        "plain": {}, "linear": {"mode": "linear"}, "shadow": {"mode": "shadow_linear"},
        "chain": {"top_k": 1, "budget": 7}, "wide": {"top_k": 8, "budget": 24},
        "sampled": {"temperature": 1.0}, "nucleus": {"temperature": 0.8, "top_p": 0.8},
        "ties": {"dtype": torch.bfloat16}, "thinking": {"text": "thinking"},
        "hard": {"text": "shuffled"}, "easy": {"text": "repeated"}, "stops": {"line_stop": True},
        "limits": {"cut": True}, "long": {"prompt_tokens": 200}, "simulated": {"simulated": True},
        "grammar": {"grammar": trials.LINES, "stop": False}, "prefix": {"prefix": 4},
    }  # fmt: skip
    found = []
    for name, change in changes.items():
        for seed in range(1 if quick else 3):
            for kind in KINDS:
                for batch in (1, 4) if not quick else (4,):
                    label = f"sound-{name}-"
                    trial = Trial(kind, batch, 10 + seed, label=label)
                    found.append(Case(dataclasses.replace(trial, **change)))
    return found[::3] if quick else found


def write(case: Case, folder: Path) -> Case:
    """Make the trace of a case."""
    torch.set_num_threads(1)
    one = None if case.number is None else faults.all_faults()[case.number]
    try:
        at = trials.run(case.trial, folder / f"{case.trial.name}.jsonl", one, case.start)
    except (SpecdiagError, RuntimeError, ValueError, IndexError, KeyError) as error:
        case.error = f"{type(error).__name__}: {error}"
        return case
    if at is not None and at.first is not None and one is not None:
        case.due = at.first + one.shown
    return case


def judge(folder: Path) -> dict[str, list[tuple[str, str, str, int | None, str]]]:
    """What the rules say of the runs of a folder: causes in their order, by run."""
    parsers, rules, broken = diagnosis.definitions([], [])
    assert not broken
    found, _ = diagnosis.analyze(source.find([str(folder)]), parsers, rules, {})
    assert not found.broken, str(found.broken[0])
    by_run: dict[str, list[tuple[str, str, str, int | None, str]]] = {}
    for one in found.causes:
        step, named = one.values.get("step"), str(one.values.get("faults") or "")
        by_run.setdefault(one.run, []).append(
            (one.rule.name, one.severity, one.message, step, named)
        )
    return by_run


def group(cases: Sequence[Case], folder: Path, parts: bool) -> list[Case]:
    """Make and judge some cases; for `parts`, also with each part of their traces left out."""
    folder.mkdir(parents=True)
    for case in cases:
        write(case, folder)
    for case, causes in _judged(cases, folder):
        case.causes = causes
    if parts:
        for part, columns in PARTS.items():
            less = folder.with_name(f"{folder.name}-less-{part}")
            less.mkdir()
            for path in folder.iterdir():
                _without(path, less / path.name, columns)
            for case, causes in _judged(cases, less):
                again = dataclasses.replace(case, causes=causes)
                if case.named and not again.named:
                    case.needed.append(part)
    return list(cases)


def _judged(cases: Sequence[Case], folder: Path) -> Iterator[tuple[Case, list[Any]]]:
    found = judge(folder)
    if len(cases) == 1:  # then the run is called after its folder
        found = dict.fromkeys([cases[0].trial.name], next(iter(found.values()), []))
    for case in cases:
        yield case, found.get(case.trial.name, [])


def _without(path: Path, copy: Path, columns: Sequence[str]) -> None:
    with path.open(encoding="utf-8") as lines, copy.open("w", encoding="utf-8") as out:
        for line in lines:
            record = json.loads(line)
            out.write(json.dumps({k: v for k, v in record.items() if k not in columns}) + "\n")


def run(
    cases: Sequence[Case], folder: Path, processes: int, done: Callable[[int], None],
    parts: bool = False,
) -> list[Case]:  # fmt: skip
    """All cases made and judged, in their order; `done` hears how many at a time."""
    groups = [cases[at : at + TOGETHER] for at in range(0, len(cases), TOGETHER)]
    jobs = {}
    found: dict[int, list[Case]] = {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for number, some in enumerate(groups):
            # One seed of one kind of target each is enough to see what a trace has to hold.
            jobs[pool.submit(group, some, folder / str(number), parts)] = number
        for job in as_completed(jobs):
            found[jobs[job]] = job.result()
            done(len(found[jobs[job]]))
    return [case for number in sorted(found) for case in found[number]]
