"""What a log is wrapped in, cut into or mixed with changes no finding."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable

import corpus
import mutations
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import OPERATORS, Files

# Faults that stand for the kinds of evidence: figures of lines, a comparison of arms, a death.
FAULTS = [
    "draft_never_accepted",
    "retraction_storm",
    "slower_than_baseline",
    "acceptance_decays_with_context",
    "out_of_memory_at_start",
]
WRAPPERS = {
    "docker compose": "sglang-1  | {line}",
    "docker timestamps": "2026-03-14T10:21:07.482913Z {line}",
    "kubectl prefix": "[pod/sglang-0/server] {line}",
    "CRI": "2026-03-14T10:21:07.482913Z stderr F {line}",
    "journald": "Mar 14 10:21:07 gpu01 sglang[71]: {line}",
    "syslog": "2026-03-14T10:21:07+00:00 gpu01 sglang[71]: {line}",
    "srun": "0: {line}",
    "Ray": "(SchedulerActor pid=812, ip=10.0.0.7) {line}",
    "quoted": "> {line}",
    "carriage returns": "{line}\r",
    "colours": "\x1b[32m{line}\x1b[0m",
}
NOISE = [
    '[{time}] INFO:     10.0.0.5:57164 - "GET /health HTTP/1.1" 200 OK',
    "[{time}] Receive: obj=GenerateReqInput(rid='5f0c1e', text='Write a sort ' ... ' in Rust.', sampling_params={{'temperature': 0.0}}, stream=False)",
    "gpu01:71:412 [0] NCCL INFO Channel 00/02 : 0 1",
    "/opt/venv/lib/python3.12/site-packages/torch/cuda/__init__.py:61: FutureWarning: The pynvml package is deprecated.",
    "",
    "I0314 10:21:07.123456 812 transfer_engine.cpp:55] Transfer engine is up",
    "[{time}] Cache not flushed because there are pending requests. #queue-req: 0, #running-req: 2",
]


@functools.cache
def files(fault: str) -> Files:
    """A sick log; `ranks` is one of four ranks whose drafter is dead."""
    one = OPERATORS["draft_never_accepted" if fault == "ranks" else fault]
    server = mutations.server(one.on, f"robust-{fault}")
    if fault == "ranks":
        server = server.but(dp=4, tp=4, traffic=((16, 80),))
    return one.make(server, one.sick)


def wrapped(made: Files, wrapper: str) -> Files:
    return {
        name: "".join(WRAPPERS[wrapper].format(line=line) + "\n" for line in text.splitlines())
        for name, text in made.items()
    }


def noisy(made: Files, rng: random.Random) -> Files:
    """Lines of others between the records, none inside a traceback or before the first."""
    found = {}
    for name, text in made.items():
        kept: list[str] = []
        for line in text.splitlines():
            stamp = re.match(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", line)
            if (
                stamp
                and kept
                and kept[-1].startswith("[20")
                and "Traceback" not in kept[-1]
                and rng.random() < 0.3
            ):
                kept.append(rng.choice(NOISE).format(time=stamp[1]))
            kept.append(line)
        found[name] = "\n".join(kept) + "\n"
    return found


def rotated(made: Files, rng: random.Random) -> Files:
    """Three parts of each log, as logrotate leaves them: the oldest has the highest number."""
    found = {}
    for name, text in made.items():
        lines = text.splitlines(keepends=True)
        starts = [n for n, line in enumerate(lines) if line.startswith("[20")]
        first, second = sorted(rng.sample(starts[2:], 2))
        for part, number in (
            (lines[:first], ".2"),
            (lines[first:second], ".1"),
            (lines[second:], ""),
        ):
            found[name + number] = "".join(part)
    return found


def reordered(made: Files, rng: random.Random) -> Files:
    """Lines of different ranks in the same second swap: each rank's own order stays."""

    def rank(line: str) -> str:
        return (re.match(r"\[[-0-9: ]+((?: [A-Z]+\d+)*)\]", line) or [line, "?"])[1]

    found = {}
    for name, text in made.items():
        lines = text.splitlines()
        for n in range(1, len(lines)):
            one, two = lines[n - 1], lines[n]
            together = one[:21] == two[:21] and one.startswith("[20") and two.startswith("[20")
            if (
                together
                and "?" not in (rank(one), rank(two))
                and rank(one) != rank(two)
                and "Traceback" not in one + two
                and rng.random() < 0.5
            ):
                lines[n - 1], lines[n] = two, one
        found[name] = "\n".join(lines) + "\n"
    return found


def told(said: corpus.Said) -> list[tuple[str, str, bool]]:
    """What is found, without the figures: a rule, its severity, and whether it follows."""
    return sorted(
        (one.rule.name, one.severity, one.explained_by is not None) for one in said.findings
    )


def renamed(made: Files, fault: str, number: int) -> Files:
    """Of a model of its own, so that many changes of one log can be read at once."""
    return {
        name: text.replace(f"example/robust-{fault}", f"example/robust-{fault}-{number}")
        for name, text in made.items()
    }


@pytest.fixture(scope="session")
def plain(tmp_path_factory) -> dict[str, list[tuple[str, str, bool]]]:
    wanted = [(name, lambda name=name: files(name)) for name in [*FAULTS, "ranks"]]
    said = corpus.judge(tmp_path_factory.mktemp("plain"), wanted)
    assert all(name in said[name].rules() for name in FAULTS) and said["ranks"].rules()
    return {name: told(one) for name, one in said.items()}


@pytest.fixture(scope="session")
def in_wrappers(tmp_path_factory) -> dict[str, list[tuple[str, str, bool]]]:
    def make(wrapper: str, fault: str) -> Files:
        return renamed(wrapped(files(fault), wrapper), fault, list(WRAPPERS).index(wrapper))

    wanted = [
        (f"{wrapper}--{fault}", lambda w=wrapper, f=fault: make(w, f))
        for wrapper in WRAPPERS
        for fault in FAULTS
    ]
    said = corpus.judge(tmp_path_factory.mktemp("wrapped"), wanted)
    return {name: told(one) for name, one in said.items()}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_changes_no_finding(wrapper, fault, plain, in_wrappers):
    assert in_wrappers[f"{wrapper}--{fault}"] == plain[fault]


@given(seeds=st.lists(st.integers(0, 10_000), min_size=2, max_size=2))
@settings(max_examples=3)
def test_noise_rotation_and_the_order_of_ranks_change_no_finding(seeds, plain, tmp_path_factory):
    def make(change: Callable[[Files, random.Random], Files], fault: str, number: int) -> Files:
        rng = random.Random(seeds[number % 2])
        return renamed(change(files(fault), rng), fault, number)

    changes = [noisy, rotated, reordered]
    wanted = [
        (f"{number}--{fault}", lambda n=number, c=change, f=fault: make(c, f, n))
        for number, change in enumerate(changes * 2) for fault in plain if (change is reordered) == (fault == "ranks")
    ]  # fmt: skip
    said = corpus.judge(tmp_path_factory.mktemp("changed"), wanted)
    for name, one in said.items():
        assert told(one) == plain[name.partition("--")[2]], name
