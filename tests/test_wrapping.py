"""Whatever a collector puts before each line of a server's log, the log is read as without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdiag import diagnosis, raw, recognition

SAMPLES = Path(__file__).parents[1] / "sample_logs"
LOGS = {
    "sglang": SAMPLES / "founding-1-depth-against-commit" / "ddtree-b7-k1.log",
    "vllm": SAMPLES / "hung-vllm.log",
    "llama.cpp": SAMPLES / "refused-drafter-llamacpp.log",
}
COLLECTORS = {
    "docker compose": "sglang-1  | {line}",
    "docker compose in colour": "\x1b[36msglang-1  | \x1b[0m{line}",
    "a swarm": "sglang.1.k2j3h4@gpu-node1    | {line}",
    "GitHub Actions": "2026-03-14T10:21:07.4829130Z {line}",
    "GitLab CI": "2026-03-14T10:21:07.482913Z 01O {line}",
    "Jenkins": "[2026-03-14T10:21:07.482Z] {line}",
    "aws logs tail": "2026-03-14T10:21:07.482000+00:00 ecs/sglang/0af31 {line}",
    "stern": "sglang-0 server {line}",
    "CRI": "2026-03-14T10:21:07.482913Z stderr F {line}",
    "journald": "Mar  4 10:21:07 gpu01 sglang[71]: {line}",
    "journald, in Russian": "марта 14 10:21:07 gpu01 sglang[71]: {line}",
    "journald, in Chinese": "3月 14 10:21:07 gpu01 sglang[71]: {line}",
    "journald, precise": "Mar 14 10:21:07.482913 gpu01 sglang[71]: {line}",
    "journald, with units": "Sat 2026-03-14 10:21:07 UTC gpu01 sglang.service[71]: {line}",
    "ts": "Mar 14 10:21:07 {line}",
    "Modal": "Mar 14  10:21:07.482  {line}",
    "foreman": "10:21:07 web.1   | {line}",
    "pm2": "0|sglang  | {line}",
    "mpirun": "[1,0]<stdout>: {line}",
    "torchrun": "[default0]:{line}",
    "Ray Serve": "(ServeReplica:default:LLMServer pid=812, ip=10.0.0.7) {line}",
    "Ray in colour": "\x1b[36m(SchedulerActor pid=812)\x1b[0m {line}",
    "SkyPilot": "(head, rank=0, pid=812) {line}",
    "pdsh": "gpu01: {line}",
    "grep -n": "server.log:12:{line}",
    "cat -n": "   12\t{line}",
}


@pytest.fixture(scope="module")
def parsers():
    return diagnosis.definitions([], [])[0]


@pytest.mark.parametrize(
    ("server", "collector"),
    # What Ray puts there is what vLLM's own processes put there.
    [
        (one, by)
        for one in LOGS
        for by in COLLECTORS
        if not (one == "vllm" and by.startswith("Ray"))
    ],
)
def test_the_lines_are_those_of_the_server(server, collector, parsers):
    lines = LOGS[server].read_text("utf-8").splitlines()
    data = "".join(COLLECTORS[collector].format(line=line) + "\n" for line in lines).encode()
    expected, _ = recognition.look(parsers, "\n".join(lines).encode())
    form, best = recognition.look(parsers, data)
    assert form is not None and best == [form.parser]
    assert form.parser is expected.parser
    found = raw.clean(raw.split(data, 1, form.wrapper)).get_column("text").to_list()
    assert found == [line for line in lines if line]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("**/*.log")), ids=lambda path: path.stem)
def test_a_log_without_a_collector_stays_as_it_is(path, parsers):
    form, _ = recognition.look(parsers, path.read_bytes())
    assert form is not None and form.wrapper == ""


def test_what_only_some_lines_begin_with_is_no_wrapper(parsers):
    lines = LOGS["sglang"].read_text("utf-8").splitlines()
    mixed = [f"gpu01: {line}" if at % 3 == 0 else line for at, line in enumerate(lines)]
    form, _ = recognition.look(parsers, "\n".join(mixed).encode())
    assert form is not None and form.wrapper == ""


@pytest.mark.parametrize("collector", ["CRI", "journald", "docker compose", "GitHub Actions"])
def test_one_line_of_the_server_in_a_long_traceback_is_enough(collector, parsers):
    frames = ['  File "/opt/serve/args.py", line 7, in check', "    raise ValueError(text)"] * 12
    lines = [
        "[2026-03-14 10:21:07] server_args=ServerArgs(model_path='a/target', page_size=64)",
        "Traceback (most recent call last):",
        *frames,
        "ValueError: this does not go together",
    ]
    data = "".join(COLLECTORS[collector].format(line=line) + "\n" for line in lines).encode()
    form, _ = recognition.look(parsers, data)
    assert form is not None
    found = raw.clean(raw.split(data, 1, form.wrapper)).get_column("text").to_list()
    assert found == lines
