"""Streamed answers, saved as they came: each request counts once, with its last counters."""

from __future__ import annotations

import json

import pytest

from specdiag import streams

TOKENS = [9 * n for n in range(7, 13)]  # of each request


def native(number, tokens):
    """Chunks of SGLang's own endpoint: all so far, in each."""
    for sent in range(3, tokens + 1, 3):
        last = sent == tokens
        yield {
            "text": "ab " * sent,
            "meta_info": {
                "id": f"r{number}", "finish_reason": {"type": "length"} if last else None,
                "prompt_tokens": 40, "completion_tokens": sent, "cached_tokens": 0,
                "spec_verify_ct": sent // 3, "spec_accept_length": 3.0,
            },
        }  # fmt: skip


def chat(number, tokens, usage="last"):
    base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "model": "m"}
    for sent in range(3, tokens + 1, 3):
        choice = {"index": 0, "delta": {"content": "ab "}, "finish_reason": None}
        told = {"prompt_tokens": 40, "completion_tokens": sent} if usage == "each" else None
        yield {**base, "choices": [choice], "usage": told}
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield {**base, "choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": tokens}}


def completion(number, tokens):
    base = {"id": f"cmpl-{number}", "object": "text_completion", "model": "m"}
    for _ in range(3, tokens + 1, 3):
        yield {**base, "choices": [{"index": 0, "text": "ab ", "finish_reason": None}]}
    yield {**base, "choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": tokens}}


def timings(tokens):
    return {"prompt_n": 40, "predicted_n": tokens, "predicted_ms": 10.0 * tokens,
            "predicted_per_second": 100.0, "draft_n": tokens, "draft_n_accepted": tokens // 3}  # fmt: skip


def llamacpp(number, tokens):
    """It gives no name to an answer, but says of each chunk whether it is the last."""
    for _ in range(3, tokens + 1, 3):
        yield {"index": 0, "content": "ab ", "stop": False, "id_slot": -1}
    yield {"index": 0, "content": "", "stop": True, "id_slot": 0, "timings": timings(tokens)}


def llamacpp_chat(number, tokens):
    """With timings_per_token."""
    base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "model": "m"}
    for sent in range(3, tokens + 1, 3):
        choice = {"index": 0, "delta": {"content": "ab "}, "finish_reason": None}
        yield {**base, "choices": [choice], "timings": timings(sent)}


SERVERS = [native, chat, completion, llamacpp, llamacpp_chat]


def saved(chunks, around="data: {}\n\n", end="data: [DONE]\n\n"):
    return "".join(around.replace("{}", json.dumps(one)) for one in chunks) + end


def capture(server, **how):
    return "".join(saved(server(n, tokens), **how) for n, tokens in enumerate(TOKENS))


@pytest.fixture
def requests(tmp_path, load):
    def requests(text):
        path = tmp_path / "stream.txt"
        path.write_text(text, newline="")
        return load(path).rows("SELECT * FROM request ORDER BY line")

    return requests


@pytest.mark.parametrize("server", SERVERS)
def test_a_request_counts_once_however_many_chunks_it_has(requests, server):
    found = requests(capture(server))
    assert [row["completion_tokens"] for row in found] == TOKENS
    if server is not completion:
        assert found[0]["text"] == "ab " * (TOKENS[0] // (1 if server is native else 3))


@pytest.mark.parametrize(
    "how",
    [
        {"around": "data: {}\n"},
        {"around": "data:{}\n\n"},
        {"around": "data: {}\r\n\r\n"},
        {"around": "id: 7\nevent: message\nretry: 3000\ndata: {}\n\n"},
        {"around": ": keep-alive\n\ndata: {}\n\n"},
        {"end": ""},
        {"end": "\n\n"},
        {"around": "{}\n", "end": ""},
    ],
)
@pytest.mark.parametrize("server", SERVERS)
def test_a_stream_may_be_saved_in_many_ways(requests, server, how):
    assert [row["completion_tokens"] for row in requests(capture(server, **how))] == TOKENS


def test_what_curl_says_of_the_answer_is_no_part_of_it(requests):
    head = "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream\r\n\r\n"
    text = "".join(head + saved(native(n, tokens)) for n, tokens in enumerate(TOKENS))
    assert [row["completion_tokens"] for row in requests(text)] == TOKENS


def test_answers_that_came_at_once_are_told_apart_by_their_names(requests):
    lines = [[*native(n, 60)] for n in range(4)]
    found = requests(saved(chunk for four in zip(*lines, strict=True) for chunk in four))
    assert [(row["request"], row["completion_tokens"]) for row in found] == [
        (f"r{n}", 60) for n in range(4)
    ]


def test_a_name_that_the_client_chose_may_be_used_again(requests):
    found = requests(saved([*native(1, 30), *native(1, 60), *native(1, 30)], end=""))
    assert [row["completion_tokens"] for row in found] == [30, 60, 30]


def test_counters_in_each_chunk_are_those_of_the_last(requests):
    assert [row["completion_tokens"] for row in requests(saved(chat(1, 30, "each")))] == [30]


def test_figures_of_drafting_in_the_last_chunk_are_read(requests):
    *chunks, last = chat(1, 54)
    told = {"num_spec_steps": 43, "num_accepted_draft_tokens": 10, "num_draft_tokens": 129}
    (row,) = requests(saved([*chunks, {**last, "metrics": {"speculative_decoding": told}}]))
    assert (row["correct_drafts"], row["proposed_drafts"]) == (10, 129)


def test_answers_in_one_piece_are_read_behind_data_too(requests):
    found = [
        {"meta_info": {"prompt_tokens": 4, "completion_tokens": tokens, "spec_verify_ct": 9}}
        for tokens in TOKENS
    ]
    assert [row["completion_tokens"] for row in requests(saved(found, end=""))] == TOKENS


def test_an_answer_stands_where_its_last_chunk_does(requests):
    text = capture(native)
    lines = text.split("\n")
    for row in requests(text):
        assert f'"completion_tokens": {row["completion_tokens"]},' in lines[row["line"] - 1]


def test_an_answer_that_breaks_off_has_what_came_before(requests):
    text = saved(native(1, 30), end="")
    found = requests(text[: -len(text) // 20] + "\n")
    assert [row["completion_tokens"] for row in found] == [27]


def test_a_stream_without_counters_is_named_with_what_it_lacks(tmp_path, load):
    path = tmp_path / "stream.txt"
    path.write_text(saved([*chat(1, 30)][:-1]).replace('"usage": null', '"x": 1'))
    (notice,) = load(path).notices
    assert notice.what == "no parser knows the answers in this stream"
    assert "include_usage" in notice.help


def test_a_stream_of_something_else_is_not_read(tmp_path, load):
    path = tmp_path / "stream.txt"
    path.write_text(saved({"price": n} for n in range(20)))
    assert [one.what for one in load(path).notices] == [
        "no parser knows the answers in this stream"
    ]


@pytest.mark.parametrize(
    "chunk",
    [
        '{"choices": [1, null, {"index": [1], "delta": 3}, {"delta": {"content": 5}}]}',
        '{"choices": {"0": 1}}', '{"id": {"a": 1}, "meta_info": 3, "usage": [1]}', "{", "[1]", "7",
        '{"id": "r1", "meta_info": {"completion_tokens": "x"}, "text": null, "choices": null}',
        '{"x": ' + '{"x":' * 400 + "1" + "}" * 401, '{"x": ' + "[" * 90_000, '{"a": "\\ud800"}',
    ],
)  # fmt: skip
def test_a_strange_chunk_spoils_no_other(requests, chunk):
    first, *rest = native(1, 30)
    text = saved([first], end="") + f"data: {chunk}\n\ndata: {chunk}\n\n" + saved(rest)
    assert 30 in [row["completion_tokens"] for row in requests(text)]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'data: {"a": 1}\n\ndata: [DONE]\n', True),
        (b'{"meta_info": {"completion_tokens": 3, "finish_reason": "stop"}}\n', False),
        (b'[2026-03-14 10:20:00] x\n[2026-03-14 10:20:00] y\ndata: {"a": 1}\n', False),
        (b'{"rid": "a", "step": 1, "accepted_drafts": 2}\n', False),
        (b"data: none\n", False),
        (b"", False),
    ],
)
def test_a_stream_is_told_from_records_and_from_a_log(head, expected):
    assert streams.begins(head) is expected
