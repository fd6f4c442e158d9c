"""A line that a container runtime wrote in pieces is one line, where its first piece is."""

from __future__ import annotations

import json

import pytest

PIECE = 16 << 10  # bytes
ARGUMENTS = (
    "[2026-03-14 10:20:00] server_args=ServerArgs(model_path='a/target', page_size=1, "
    "chat_template=None, notes='" + "x" * 2 * PIECE + "', speculative_algorithm='EAGLE3', "
    "speculative_num_draft_tokens=4, decode_log_interval=40)"
)
DECODE = (
    "[2026-03-14 10:21:07] Decode batch, #running-req: 2, #token: 640, token usage: 0.01, "
    "accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 100.25, "
    "#queue-req: 3"
)
LINES = [DECODE, ARGUMENTS, DECODE, DECODE]
TIME = "2026-03-14T10:20:00.123456789Z"


def pieces(line):
    return [line[at : at + PIECE] for at in range(0, len(line), PIECE)]


def kubernetes(lines):
    for line in lines:
        *first, last = pieces(line)
        for one in first:
            yield f"{TIME} stderr P {one}"
            yield f"{TIME} stdout F INFO:     127.0.0.1:1 - GET /health"
        yield f"{TIME} stderr F {last}"


def docker(lines):
    for line in lines:
        for one in pieces(line + "\n"):
            yield json.dumps({"log": one, "stream": "stderr", "time": TIME})


def collected(lines, **mark):
    for line in lines:
        *first, last = pieces(line)
        for one in first:
            yield json.dumps({"time": TIME, "stream": "stderr", **mark, "log": one})
        yield json.dumps({"time": TIME, "stream": "stderr", "logtag": "F", "log": last})


@pytest.mark.parametrize(
    "written",
    [
        list(kubernetes(LINES)),
        list(docker(LINES)),
        list(collected(LINES, logtag="P")),
        list(collected(LINES, partial_message="true")),
    ],
    ids=["Kubernetes", "Docker", "Fluent Bit", "Fluentd"],
)
def test_the_pieces_of_a_line_are_one_line(written, tmp_path, load):
    path = tmp_path / "server.log"
    path.write_text("".join(f"{one}\n" for one in written), "utf-8")
    found = load(path)
    assert not found.notices
    keys = "('notes', 'speculative_algorithm', 'speculative_num_draft_tokens')"
    rows = found.rows(
        f"SELECT key, line, length(value) AS length FROM config WHERE key IN {keys} ORDER BY key"
    )
    assert rows == [
        {"key": "notes", "line": 2, "length": 2 * PIECE},
        {"key": "speculative_algorithm", "line": 2, "length": 6},
        {"key": "speculative_num_draft_tokens", "line": 2, "length": 1},
    ]
    last = len(written)
    assert found.rows("SELECT line FROM decode ORDER BY line") == [
        {"line": 1},
        {"line": last - 1},
        {"line": last},
    ]


def test_a_record_without_a_line_end_is_a_line(tmp_path, load):
    """Collectors take the end off, and a line may be as long as a piece."""
    long = "[2026-03-14 10:20:00] INFO " + "x" * PIECE * 2
    lines = [DECODE, long, DECODE]
    path = tmp_path / "server.log"
    path.write_text("".join(json.dumps({"log": one}) + "\n" for one in lines), "utf-8")
    assert load(path).rows("SELECT line FROM decode ORDER BY line") == [{"line": 1}, {"line": 3}]
