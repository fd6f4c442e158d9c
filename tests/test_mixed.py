"""Several servers in one file: each is judged as if it had a file of its own."""

from __future__ import annotations

import json
import random
import re

import pytest
import writers
from compose import Server

SPECULATES = Server(
    engine="vllm", version="0.12.0", model="org/target-8b", traffic=((4, 60),), seed=1
)
PLAIN = Server(
    engine="vllm", version="0.12.0", model="org/other-14b", draft=None, algorithm="NONE",
    traffic=((4, 60),), base=14.0, seed=2,
)  # fmt: skip
SGLANG = Server(version="0.5.12", traffic=((4, 80),), seed=3)
DRAFTS = Server(engine="llamacpp", version="9000", traffic=((1, 30),), seed=5)
ALONE = PLAIN.but(engine="llamacpp", version="9000", traffic=((1, 30),), seed=6)
BAD = ("critical", "high", "medium")
# What stands before the lines of a first and of a second writer, and how their runs are called.
COLLECTORS = {
    "llama.cpp's router": ("[ 8081] {}", "[51301] {}", "8081", "51301"),
    "docker compose": ("vllm-a-1  | {}", "vllm-b-1  | {}", "vllm-a-1", "vllm-b-1"),
    "docker compose in colour": (
        "\x1b[36mvllm-a-1  | \x1b[0m{}", "\x1b[33mb-1       | \x1b[0m{}", "vllm-a-1", "b-1",
    ),
    "kubectl --prefix": ("[pod/a-7c9f-x/s] {}", "[pod/b-0/s] {}", "a-7c9f-x/s", "b-0/s"),
    "stern": ("a-0 server {}", "b-0 server {}", "a-0-server", "b-0-server"),
    "Ray Serve": (
        "(ServeReplica:app:LLM pid=812, ip=10.0.0.7) {}", "(ServeReplica:b:LLM pid=91) {}",
        "app:LLM-pid-812", "b:LLM-pid-91",
    ),
    "Ray": ("(SGLangEngine pid=8) {}", "(SGLangEngine pid=9) {}", "SGLangEngine-pid-8",
            "SGLangEngine-pid-9"),
    "journald": ("Mar 14 10:21:07 gpu01 a[71]: {}", "Mar 14 10:21:07 gpu01 b[72]: {}",
                 "gpu01-a", "gpu01-b"),
    "aws logs tail": (
        "2026-03-14T10:21:07.482000+00:00 ecs/a/0af31 {}",
        "2026-03-14T10:21:07.482000+00:00 ecs/b/0af32 {}", "ecs/a/0af31", "ecs/b/0af32",
    ),
}  # fmt: skip


def mixed(*logs):
    """The lines of some logs, as they come while all are written."""
    chance = random.Random(1)
    left = [list(log) for log in logs]
    whole = [len(log) for log in logs]
    lines = []
    while any(left):
        fullest = max(range(len(left)), key=lambda nth: len(left[nth]) / whole[nth])
        for _ in range(min(chance.randint(1, 7), len(left[fullest]))):
            lines.append(left[fullest].pop(0))
    return "".join(line + "\n" for line in lines)


def wrapped(how, lines):
    return [how.format(line) for line in lines]


@pytest.fixture
def told(tmp_path, diagnose):
    """What is said of each run of a log: its facts, without its times' order, and its findings."""

    def told(text, name="all.log"):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        found = diagnose(path)
        assert not [one for one in found.findings if one.severity in BAD]
        facts = ("algorithm", "model", "accept_len", "tokens_per_s", "started", "ended", "version")
        return {run.name: {key: run.facts.get(key) for key in facts} for run in found.runs}

    return told


@pytest.mark.parametrize("collector", COLLECTORS)
def test_two_servers_in_one_log_are_two_runs(collector, told):
    first, second, one, other = COLLECTORS[collector]
    servers = (DRAFTS, ALONE) if collector == "llama.cpp's router" else (SPECULATES, PLAIN)
    logs = [writers.lines(server) for server in servers]
    alone = [
        told("".join(line + "\n" for line in log), f"{name}.log")
        for name, log in zip("ab", logs, strict=True)
    ]
    found = told(mixed(wrapped(first, logs[0]), wrapped(second, logs[1])))
    assert found == {f"all:{one}": alone[0]["a"], f"all:{other}": alone[1]["b"]}


def test_servers_of_three_kinds_and_a_proxy_share_a_compose_log(told):
    logs = {"sglang-1": SGLANG, "vllm-1": PLAIN, "llama-1": DRAFTS}
    nginx = ['10.0.0.1 - - [14/Mar/2026:10:21:07 +0000] "POST /v1/completions HTTP/1.1" 200'] * 90
    text = mixed(
        *(wrapped(f"{name:<10}| {{}}", writers.lines(one)) for name, one in logs.items()),
        wrapped("nginx-1   | {}", nginx),
    )
    found = told(text)
    assert {name: facts["algorithm"] for name, facts in found.items()} == {
        "all:sglang-1": "EAGLE3", "all:vllm-1": "NONE", "all:llama-1": "DRAFT_MODEL",
    }  # fmt: skip


def test_what_the_router_says_itself_is_nothing_against_a_model(told):
    router = [
        "srv    load_models: Loaded 3 cached model presets",
        "srv   llama_server: starting router server, no model will be loaded in this process",
        "srv          load: spawning server instance with name=target-8b on port 51234",
    ]
    children = mixed(
        wrapped("[51234] {}", writers.lines(DRAFTS)), wrapped("[51301] {}", writers.lines(ALONE))
    )
    found = told("".join(line + "\n" for line in router) + children)
    assert set(found) == {"all:51234", "all:51301"}


def test_records_name_the_pod_that_wrote_them(told):
    def records(pod, server):
        return [
            json.dumps({"log": line + "\n", "stream": "stderr", "kubernetes": {"pod_name": pod}})
            for line in writers.lines(server)
        ]

    found = told(mixed(records("a-0", SPECULATES), records("b-0", PLAIN)), "all.jsonl")
    assert {name: facts["model"] for name, facts in found.items()} == {
        "all:a-0": "org/target-8b", "all:b-0": "org/other-14b",
    }  # fmt: skip


def test_an_export_of_two_pods_is_two_runs(told):
    hits = [
        {"_source": {"message": line, "kubernetes": {"pod": {"name": "x"}, "pod_name": pod}}}
        for pod, server in (("a-0", SPECULATES), ("b-0", PLAIN))
        for line in writers.lines(server)
    ]
    random.Random(1).shuffle(pods := [hit["_source"]["kubernetes"]["pod_name"] for hit in hits])
    left = {pod: iter([h for h in hits if pod in str(h)]) for pod in ("a-0", "b-0")}
    text = json.dumps({"hits": {"hits": [next(left[pod]) for pod in pods]}})
    assert set(told(text, "all.json")) == {"all:a-0", "all:b-0"}


def test_records_of_requests_that_name_their_host_are_no_logs(tmp_path, load):
    """They are read once, though their texts quote a server."""
    path = tmp_path / "requests.jsonl"
    record = {"id": "c", "prompt_tokens": 5, "completion_tokens": 9, "text": "use vllm serve x"}
    records = [{**record, "id": f"c{n}", "host": f"gpu{n % 2}"} for n in range(20)]
    path.write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    assert load(path).rows("SELECT count(*) AS n FROM request") == [{"n": 20}]


def pids(lines, by):
    return [re.sub(r"pid=([0-9]+)", lambda one: f"pid={int(one[1]) + by}", line) for line in lines]


def test_two_vllm_servers_of_one_shell_are_two_runs(told):
    """`vllm serve a & vllm serve b &`: only the front ends' process numbers tell them apart."""
    logs = [pids(writers.lines(one), by) for one, by in ((SPECULATES, 1000), (PLAIN, 2000))]
    found = told(mixed(*logs))
    assert {facts["model"] for name, facts in found.items() if ":" in name} == {
        "org/target-8b", "org/other-14b",
    }  # fmt: skip


def test_a_vllm_server_that_started_again_is_two_lives(told):
    logs = [pids(writers.lines(one), by) for one, by in ((SPECULATES, 1000), (PLAIN, 2000))]
    assert list(told("".join(line + "\n" for log in logs for line in log))) == ["all", "all#2"]


def test_prefill_and_decode_servers_are_each_their_own(told):
    lines = [
        line.replace("(model_path=", "(disaggregation_mode='{}', model_path=")
        for line in writers.lines(SGLANG)
    ]
    prefill = [line for line in lines if "Decode batch" not in line]
    decode = [line for line in lines if "Prefill batch" not in line]
    found = told(
        mixed(wrapped("[pod/prefill-0/s] {}", prefill), wrapped("[pod/decode-0/s] {}", decode))
    )
    assert set(found) == {"all:prefill-0/s", "all:decode-0/s"}
    assert found["all:prefill-0/s"]["accept_len"] is None


def test_nodes_of_one_server_are_one_run(told):
    def node(rank):
        told = "(nnodes=2, node_rank={}, dist_init_addr='10.0.0.1:5000', model_path="
        lines = [one.replace("(model_path=", told.format(rank)) for one in writers.lines(SGLANG)]
        quiet = ("Decode batch", "Prefill batch", "fired up") if rank else ("\0",)
        return [line for line in lines if not any(word in line for word in quiet)]

    found = told(mixed(*(wrapped(f"[pod/sglang-{n}/s] {{}}", node(n)) for n in (0, 1))))
    assert list(found) == ["all"]
    assert found["all"]["accept_len"] > 2


def test_a_traceback_is_not_torn_by_another_writer(tmp_path, diagnose):
    trace = [
        "[2026-06-01 09:01:30 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/app/sglang/srt/managers/scheduler.py", line 3000, in run_scheduler_process',
        '  File "/app/sglang/srt/speculative/eagle_worker.py", line 674, in verify',
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ]
    other = wrapped("b-1 | {}", writers.lines(SGLANG.but(seed=9)))
    crashed = wrapped("a-1 | {}", [*writers.lines(SGLANG), *trace])
    path = tmp_path / "all.log"
    path.write_text(mixed(crashed, other), "utf-8")
    found = diagnose(path)
    assert {one.run for one in found.findings if one.severity in BAD} == {"all:a-1"}
    assert not found.notices
    (proof, *_) = [e for one in found.findings if one.severity in BAD for e in one.evidence]
    assert proof.text.startswith("a-1 | ")


def test_a_server_that_comes_late_in_a_long_log_is_found(told):
    """Its lines are far behind those that a format is recognised by."""
    first = wrapped("a-1 | {}", writers.lines(SGLANG.but(traffic=((4, 1500),))))
    second = wrapped("b-1 | {}", writers.lines(PLAIN))
    assert sum(map(len, first)) > 256 << 10
    found = told("".join(line + "\n" for line in [*first, *second]))
    assert set(found) == {"all:a-1", "all:b-1"}


@pytest.mark.parametrize("what", ["a proxy", "a router", "a second name that is no server's"])
def test_one_server_beside_others_that_are_none_keeps_its_name(what, told):
    others = {
        "a proxy": ['10.0.0.1 - - [14/Mar/2026] "POST /v1/completions HTTP/1.1" 200'] * 60,
        "a router": ["2026-06-01T09:00:02.6Z  INFO router::http: worker http://10.0.0.2"] * 60,
        "a second name that is no server's": ["step 1 loss 0.1"] * 60,
    }
    server = wrapped("sglang-1  | {}", writers.lines(SGLANG))
    assert list(told(mixed(server, wrapped("other-1   | {}", others[what])))) == ["all"]


# A result below a log ------------------------------------------------------------------------------

RESULT = """\
============ Serving Benchmark Result ============
Backend:                                 sglang
Max request concurrency:                 4
Successful requests:                     40
Benchmark duration (s):                  22.01
Total generated tokens:                  20480
Output token throughput (tok/s):         930.49
Accept length:                           {}
---------------Time to First Token----------------
Mean TTFT (ms):                          80.20
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          4.11
==================================================
"""


def answered(accept_len):
    """The log of a server, and what a benchmark said of it, in one paste."""
    log = "".join(line + "\n" for line in writers.lines(SGLANG))
    return f"{log}$ python -m sglang.bench_serving\n{RESULT.format(accept_len)}"


def test_a_result_that_is_pasted_below_a_log_is_read(tmp_path, diagnose):
    path = tmp_path / "paste.log"
    path.write_text(answered("1.00"), encoding="utf-8")
    found = diagnose(path)
    assert [one.rule.name for one in found.findings if one.severity in BAD] == ["sources_disagree"]
    assert not [one for one in found.notices if "not understood" in one.what]


def test_a_result_that_says_what_its_log_says_is_no_finding(tmp_path, diagnose):
    path = tmp_path / "paste.log"
    path.write_text("".join(line + "\n" for line in writers.lines(SGLANG)), encoding="utf-8")
    logged = diagnose(path).facts["paste"]["accept_len"]
    path.write_text(answered(f"{logged:.2f}"), encoding="utf-8")
    found = diagnose(path)
    assert [one.rule.name for one in found.findings if one.severity in BAD] == []
    assert list(found.facts) == ["paste"]


PAGE = """\
+ curl -s http://127.0.0.1:8000/metrics
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a/target"} 2.0
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="a/target"} 250.0
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1.5e+08
"""


def test_a_page_of_metrics_that_is_pasted_into_a_log_is_read(tmp_path, load):
    lines = writers.lines(Server(engine="vllm", version="0.12.0", traffic=((4, 60),), seed=1))
    middle = len(lines) // 2
    path = tmp_path / "server.log"
    path.write_text("\n".join([*lines[:middle], PAGE.rstrip(), *lines[middle:]]) + "\n", "utf-8")
    plain = tmp_path / "plain" / "server.log"
    plain.parent.mkdir()
    plain.write_text("\n".join(lines) + "\n", "utf-8")
    found, without = load(path), load(plain)
    assert not found.notices
    metrics = found.rows("SELECT run, name, value, line FROM metric ORDER BY line")
    assert metrics == [
        {"run": "server", "name": "vllm:num_requests_running", "value": 2.0, "line": middle + 4},
        {
            "run": "server",
            "name": "vllm:spec_decode_num_drafts_total",
            "value": 250.0,
            "line": middle + 7,
        },
        {
            "run": "server",
            "name": "process_resident_memory_bytes",
            "value": 1.5e8,
            "line": middle + 9,
        },
    ]
    asked = "SELECT tokens_per_s, running, prompt_tokens_per_s FROM decode ORDER BY line"
    assert found.rows(asked) == without.rows(asked)
