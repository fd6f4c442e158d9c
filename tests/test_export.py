"""Logs in records: the lines are the server's, and the time is the record's where a line has none."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import writers
from compose import Server

from specdiag.errors import SpecdiagError

SAMPLES = Path(__file__).parents[1] / "sample_logs"
SERVERS = {
    "sglang": Server(version="0.5.12", traffic=((4, 80),), seed=3),
    "vllm": Server(engine="vllm", version="0.12.0", traffic=((4, 60),), seed=1),
    "llama.cpp": Server(engine="llamacpp", version="9000", traffic=((1, 30),), seed=5),
}
START = datetime(2026, 12, 31, 23, 59, 55)
EVERY = timedelta(seconds=0.25)  # a line
BAD = ("critical", "high", "medium")


def iso(at):
    return at.isoformat(timespec="microseconds") + "Z"


def epoch(at, unit):
    return int(at.replace(tzinfo=UTC).timestamp() * unit)


def each(record):
    return lambda lines: "".join(json.dumps(record(*one)) + "\n" for one in lines)


def whole(record, around, **how):
    return lambda lines: json.dumps(around([record(*one) for one in lines]), **how)


def hit(at, line):
    return {"_index": "logs", "_id": iso(at), "_source": {"@timestamp": iso(at), "message": line}}


def pair(at, line):
    return [str(epoch(at, 1_000_000_000)), line]


def scalar(line, nth):
    """A line as YAML has it: in one kind of quotes or the other, folded, or as a block."""
    quoted = "'" + line.replace("'", "''") + "'"
    return (quoted, json.dumps(line), quoted.replace(" ", "\n  ", 1), f"|-\n  {line}")[nth % 4]


def binary(text):
    """A text behind its size, as it is once the bytes are read."""
    return (len(text.encode()).to_bytes(8, "little") + text.encode()).decode("utf-8", "replace")


def sheet(names, rows):
    text = io.StringIO()
    csv.writer(text).writerows([names, *rows])
    return text.getvalue()


EXPORTS = {
    "docker": each(lambda at, line: {"log": line + "\n", "stream": "stderr", "time": iso(at)}),
    "Google Cloud": each(
        lambda at, line: {"insertId": "1", "timestamp": iso(at), "textPayload": line}
    ),
    "Loki": each(lambda at, line: {"ts": iso(at), "labels": {"app": "x"}, "line": line}),
    "Datadog": each(
        lambda at, line: {"id": "1", "content": {"timestamp": iso(at), "message": line}}
    ),
    "journald": each(
        lambda at, line: {"MESSAGE": line, "__REALTIME_TIMESTAMP": str(epoch(at, 1_000_000))}
    ),
    "Fluent Bit": each(lambda at, line: {"date": epoch(at, 1000) / 1000, "log": line}),
    "a zone": each(
        lambda at, line: {
            "timestamp": (at + timedelta(hours=5, minutes=30)).isoformat() + "+05:30",
            "message": line,
        }
    ),
    "CloudWatch": whole(
        lambda at, line: {"timestamp": epoch(at, 1000), "message": line},
        lambda found: {"events": found, "nextForwardToken": "f/1"},
    ),
    "Elasticsearch": whole(
        hit, lambda found: {"took": 3, "hits": {"total": {"value": 9}, "hits": found}}
    ),
    "an array of hits": whole(hit, list, indent=1),
    "Grafana": whole(
        lambda at, line: {"line": line, "timestamp": str(epoch(at, 1_000_000_000))}, list
    ),
    "an answer of Loki": whole(
        pair, lambda found: {"status": "success", "data": {"resultType": "streams", "result": [
            {"stream": {"app": "x", "pod": "server-0"}, "values": found}]}},
    ),
    "Loki's answer, pretty": whole(
        pair, lambda found: {"data": {"result": [{"stream": {}, "values": found[::-1]}]}}, indent=2
    ),
    "a push to Loki": whole(pair, lambda found: {"streams": [{"stream": {}, "values": found}]}),
    "CloudWatch Insights": whole(
        lambda at, line: [{"field": "@timestamp", "value": at.isoformat(" ", "milliseconds")},
                          {"field": "@message", "value": line}, {"field": "@ptr", "value": "C"}],
        lambda found: {"results": found, "status": "Complete"},
    ),
    "OpenTelemetry": each(
        lambda at, line: {"resourceLogs": [{
            "resource": {"attributes": [{"key": "k8s.pod.name", "value": {"stringValue": "a"}}]},
            "scopeLogs": [{"logRecords": [
                {"timeUnixNano": str(epoch(at, 1_000_000_000)), "body": {"stringValue": line}}]}],
        }]}
    ),
    "journald, in bytes": each(
        lambda at, line: {"MESSAGE": list(f"\x1b[32m{line}\x1b[0m".encode()),
                          "__REALTIME_TIMESTAMP": str(epoch(at, 1_000_000))}
    ),
    "journald, pretty": lambda lines: "".join(
        json.dumps({"__REALTIME_TIMESTAMP": str(epoch(at, 1_000_000)), "MESSAGE": line}, indent="\t")
        + "\n" for at, line in lines
    ),
    "journald's export": lambda lines: "".join(
        f"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP={epoch(at, 1_000_000)}\nMESSAGE={line}\n\n"
        for at, line in lines
    ),
    "journald's export, in bytes": lambda lines: "".join(
        f"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP={epoch(at, 1_000_000)}\nMESSAGE\n"
        + binary(f"\x1b[32m{line}\x1b[0m") + "\nPRIORITY=6\n\n" for at, line in lines
    ),
    "Azure's tables": lambda lines: json.dumps({"tables": [{
        "name": "PrimaryResult",
        "columns": [{"name": "TimeGenerated", "type": "datetime"},
                    {"name": "LogMessage", "type": "dynamic"}],
        "rows": [[iso(at), line] for at, line in lines],
    }]}),
    "Azure's rows": whole(lambda at, line: {"TimeGenerated": iso(at), "LogEntry": line}, list),
    "journald, verbose": lambda lines: "".join(
        f"Thu {at:%Y-%m-%d %H:%M:%S.%f} UTC [s=1;i=2;b=3]\n    PRIORITY=6\n    MESSAGE={line}\n"
        f"    _SOURCE_REALTIME_TIMESTAMP={epoch(at, 1_000_000)}\n" for at, line in lines
    ),
    "Google Cloud, in YAML": lambda lines: "---\n".join(
        f"insertId: {nth}\nlabels:\n  k8s-pod/app: x\ntextPayload: {scalar(line, nth)}\n"
        f"timestamp: '{iso(at)}'\n" for nth, (at, line) in enumerate(lines)
    ),
    "a sheet of Splunk's": lambda lines: sheet(["_raw", "_time", "host"], [
        [line, iso(at), "gpu01"] for at, line in lines
    ]),
    "a sheet of Grafana's": lambda lines: sheet(["Date", "Line", "tsNs"], [
        [iso(at), line, epoch(at, 1_000_000_000)] for at, line in lines
    ]),
}  # fmt: skip
DIRECT = list(EXPORTS).index("an answer of Loki")  # so many of them are read as they lie
SEVERAL_LINES = ("an array of hits", "journald, pretty")  # that a record takes


@pytest.fixture
def store(tmp_path, load):
    def store(text, name="server.json"):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return load(path)

    return store


@pytest.mark.parametrize(
    ("server", "by"),
    # Those that are converted first are tried with the server that needs their times most.
    [
        (server, by)
        for nth, by in enumerate(EXPORTS)
        for server in (SERVERS if nth < DIRECT else ("vllm",))
    ],
)
def test_what_was_exported_says_what_the_log_says(server, by, store, diagnose, tmp_path):
    lines = writers.lines(SERVERS[server])
    plain = store("".join(line + "\n" for line in lines), "plain.log")
    taken = [(START + nth * EVERY, line) for nth, line in enumerate(lines)]
    found = store(EXPORTS[by](taken))
    assert not found.notices
    for table in ("decode", "acceptance", "request", "config", "event"):
        columns = "* EXCLUDE (run, source, line, time)"
        columns = columns if table != "decode" else "tokens_per_s, accept_len, running, rank"
        asked = f"SELECT {columns} FROM {table} ORDER BY ALL"
        assert found.rows(asked) == plain.rows(asked)
    times = "SELECT line, time FROM {} WHERE time IS NOT NULL ORDER BY ALL"
    if server == "sglang":  # which prints its own
        asked = "SELECT time FROM decode ORDER BY time"
        assert found.rows(asked) == plain.rows(asked)
        return
    rows = found.rows(times.format("acceptance"))
    assert len(rows) == len(plain.rows("FROM acceptance"))
    for row in rows:  # also over New Year, which vLLM's own times would not tell
        nth = row["line"] - 1
        if by not in SEVERAL_LINES:
            assert abs(row["time"] - (START + nth * EVERY)) < timedelta(seconds=1)
    assert rows[-1]["time"].year == (2027 if len(lines) * EVERY > timedelta(seconds=5) else 2026)
    bad = [one for one in diagnose(tmp_path / "server.json").findings if one.severity in BAD]
    assert not bad


def test_a_line_without_a_time_is_put_on_the_clock_of_those_that_have_one(store):
    """The server's clock is in its own zone, the collector's in UTC."""
    lines = [
        *writers.lines(SERVERS["sglang"]),
        "Traceback (most recent call last):",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ]
    last = SERVERS["sglang"].start
    taken = []
    for line in lines:
        own = re.match(r"\[(20[0-9-]+ [0-9:]+)", line)
        last = datetime.fromisoformat(own[1]) if own else last
        taken.append((last - timedelta(hours=2), line))
    (row,) = store(EXPORTS["docker"](taken)).rows("SELECT time FROM problem")
    assert row["time"] == last
    earlier = [line.replace("[2026-06-01 ", "[2026-05-30 ") for line in lines[:-2]]
    assert earlier != lines[:-2]
    imported = [(START, line) for line in [*earlier, *lines]]  # all at once, long after
    (row,) = store(EXPORTS["docker"](imported)).rows("SELECT time FROM problem")
    assert row["time"] == last


def test_a_proof_of_what_was_exported_is_the_record(store, tmp_path, diagnose):
    lines = [
        *writers.lines(SERVERS["vllm"]),
        "(EngineCore_DP0 pid=90) ERROR 06-01 09:10:40 [core.py:708] "
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.",
    ]
    path = tmp_path / "server.json"
    path.write_text(EXPORTS["an array of hits"]([(START, line) for line in lines]), "utf-8")
    found = diagnose(path)
    proofs = [one.text for finding in found.findings for one in finding.evidence]
    assert any("out of memory" in text for text in proofs)
    assert all(json.loads(text)["_source"] for text in proofs)


@pytest.mark.parametrize("by", ["Loki", "an array of hits"])
@pytest.mark.parametrize("server", SERVERS)
def test_an_export_with_the_newest_line_first_says_what_the_log_says(
    server, by, tmp_path, diagnose
):
    taken = [(START + nth * EVERY, line) for nth, line in enumerate(writers.lines(SERVERS[server]))]
    facts = []
    for name, records in (("a", taken), ("b", taken[::-1])):
        path = tmp_path / f"{name}.json"
        path.write_text(EXPORTS[by](records), "utf-8")
        found = diagnose(path)
        (run,) = found.runs
        facts.append(run.facts)
        assert [one.what.split(":")[0] for one in found.notices] == (
            ["its newest line comes first"] if name == "b" else []
        )
    assert facts[0] == facts[1]


@pytest.mark.parametrize("by", [*EXPORTS, "a notebook"])
def test_a_start_that_failed_is_named_wherever_the_log_was_exported(by, tmp_path, diagnose):
    lines = (SAMPLES / "graph_capture_failed.log").read_text("utf-8").splitlines()
    path = tmp_path / "server.json"
    path.write_text(
        notebook(lines) if by == "a notebook"
        else EXPORTS[by]([(START + nth * EVERY, line) for nth, line in enumerate(lines)]), "utf-8"
    )  # fmt: skip
    assert [one.rule.name for one in diagnose(path).causes] == ["graph_capture_failed"]


def notebook(lines):
    printed = {"name": "stderr", "output_type": "stream", "text": [f"{one}\n" for one in lines]}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Serving"]},
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [printed],
         "source": ["!serve"]},
    ]  # fmt: skip
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_two_pods_in_an_answer_of_loki_are_two_servers(tmp_path, diagnose):
    taken = [(START + nth * EVERY, one) for nth, one in enumerate(writers.lines(SERVERS["sglang"]))]
    streams = [
        {"stream": {"app": "x", "pod": f"server-{nth}"}, "values": [pair(*one) for one in taken]}
        for nth in range(2)
    ]
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({"data": {"result": streams}}), "utf-8")
    runs = diagnose(path).runs
    assert len(runs) == 2 and runs[0].facts == runs[1].facts


@pytest.mark.parametrize(
    "text",
    [
        '{"data": {"result": [{"stream": {}, "values": [["x", "a"], ["y", 1]]}]}}',
        '{"data": {"result": [{"stream": 1, "values": [1, ["2", null]]}]}}',
        '{"results": [[{"field": 1}]]}',
        '{"results": [[{"field": "@message", "value": {}}, 3]]}',
        '{"resourceLogs": [{"resource": 1}]}',
        '{"resourceLogs": [3]}',
        '{"cells": [{"cell_type": "code", "outputs": [{"text": [1]}]}]}',
        '{"cells": [1, {"cell_type": "code"}]}',
        "__CURSOR=1\nMESSAGE=\n",
        "__CURSOR=1\nMESSAGE\n\0\0",
        '{"tables": [{"columns": [{"name": 3}], "rows": [[1]]}]}',
        '{"tables": [{"columns": [{"name": "message"}], "rows": 1}]}',
        "time,message\n",
        'time,message\n"2026',
        "time,message\r50 %\r100 %\n",
        '{"data": {"result": [{"stream": {}, "values": [["1", "',
    ],
)
def test_what_only_begins_like_an_export_is_named(text, tmp_path, diagnose):
    path = tmp_path / "server.json"
    path.write_text(text, "utf-8")
    with pytest.raises(SpecdiagError, match="no parser knows this file"):
        diagnose(path)


def test_llama_cpp_has_the_times_that_its_collector_prints(store):
    lines = writers.lines(SERVERS["llama.cpp"])
    text = "".join(
        f"{iso(START + nth * EVERY)} stderr F {line}\n" for nth, line in enumerate(lines)
    )
    rows = store(text, "server.log").rows("SELECT line, time FROM acceptance ORDER BY line")
    assert rows and all(row["time"] == START + (row["line"] - 1) * EVERY for row in rows)


def test_records_over_several_lines_are_read_behind_the_prefix_of_a_container(store):
    answers = [
        {"id": f"r{nth}", "usage": {"prompt_tokens": 9, "completion_tokens": 40 + nth}}
        for nth in range(3)
    ]
    text = "".join(
        f"{iso(START)} stdout F {line}\n"
        for one in answers for line in json.dumps(one, indent=2).split("\n")
    )  # fmt: skip
    found = store(text, "answers.log")
    assert not found.notices
    asked = "SELECT request, completion_tokens AS tokens FROM request ORDER BY request"
    assert [tuple(row.values()) for row in found.rows(asked)] == [
        ("r0", 40),
        ("r1", 41),
        ("r2", 42),
    ]


def test_two_records_in_one_line_break_nothing(store):
    """A document of another shape is no log; that lines of a server are in it is no reason to die."""
    lines = writers.lines(SERVERS["vllm"])
    text = json.dumps({"a": [[line, {"b": line}] for line in lines]})
    filled = store("\n" + text * 2, "server.txt")
    assert filled.rows("SELECT DISTINCT source FROM source") == [{"source": 0}]
    assert filled.rows("FROM request") == []
