"""Streamed answers as a client saved them (server-sent events), one record a request.

Each `data:` line is a chunk of an answer. Counters in it hold for all that came so far, so that
the last of them count; texts are pieces, or all the text so far. What a server says once, in any
chunk, is kept. A record stands on the line of its last chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from specdiag import content
from specdiag.source import Source

LOOKED_AT = 200  # lines
FIELDS = ("data:", "event:", "id:", "retry:", ":")
DONE = "[DONE]"
PIECES = ("content", "text", "reasoning_content")  # of which a chunk has the next part
NAMES = ("id", "rid", "request_id")
DEEPEST = 8  # objects inside of each other that are put together


def begins(head: bytes) -> bool:
    """Whether a file that starts like this is a stream: most of its lines are fields of events.

    Or they are what stands in them: chunks, the first of which says that more will come.
    """
    lines = head.decode("utf-8", "replace").splitlines()[:LOOKED_AT]
    lines = [line for line in lines if line.strip("\ufeff \t")]
    data = [text for line in lines if (text := _payload(line))[:1] == "{"]
    fields = sum(line.startswith(FIELDS) for line in lines)
    return bool(data) and (2 * fields > len(lines) or _unfinished(_object(data[0]) or {}))


def _unfinished(chunk: dict[str, Any]) -> bool:
    """Whether a record says of itself that it is a chunk, and not the last."""
    match chunk:
        case {"choices": [{"finish_reason": None}, *_]} | {"meta_info": {"finish_reason": None}}:
            return True
        case {"content": str(), "stop": False}:
            return True
    return str(chunk.get("object")).endswith(".chunk")


def records(file: Source) -> bytes:
    """The answers as JSON, each on a line of the same number as its last chunk has in the file."""
    data = content.whole(file)
    if data is None:
        most = f"{content.WHOLE >> 20} MB"
        file.warn(f"a stream of more than {most} is not read", "save fewer answers a file")
        return b""
    lines = data.replace(b"\0", b"").decode("utf-8", "replace").split("\n")
    texts = [""] * len(lines)
    for line, text in _answers(lines):
        texts[line] = text
    return "\n".join(texts).encode("utf-8", "replace")


def _payload(line: str) -> str:
    """What the data of an event is; a line that is a whole answer is data, too."""
    line = line.strip("\r\ufeff")
    return line[5:].strip() if line.startswith("data:") else line if line[:1] == "{" else ""


def _answers(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The line where each answer ends, counted from 0, and its record."""
    open_ones: dict[str, dict[str, Any]] = {}
    ends: dict[str, int] = {}
    latest = ""
    for number, line in enumerate(lines):
        text = _payload(line)
        if text == DONE:
            if latest in open_ones:
                yield ends[latest], json.dumps(open_ones.pop(latest))
            continue
        if not text:
            continue
        chunk = _object(text)
        if chunk is None:
            yield number, text  # it is counted as broken
            continue
        latest = _name(chunk)
        known = open_ones.get(latest)
        if known and (_ended(known) if not latest else _again(known, chunk)):
            yield ends[latest], json.dumps(open_ones.pop(latest))
            known = None
        open_ones[latest] = _folded(known or {}, chunk)
        ends[latest] = number
    for name, record in open_ones.items():
        yield ends[name], json.dumps(record)


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
        json.dumps(found)  # as it will be, or it is nested too deeply
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _name(chunk: dict[str, Any]) -> str:
    """What the chunks of one answer have in common, or nothing."""
    inner = chunk.get("meta_info")
    for one in (chunk, inner if isinstance(inner, dict) else {}):
        for key in NAMES:
            if isinstance(one.get(key), str | int):
                return str(one[key])
    return ""


def _ended(record: dict[str, Any]) -> bool:
    """Whether an answer without a name goes on: only llama.cpp's says that it does."""
    return record.get("stop") is not False


def _again(known: dict[str, Any], chunk: dict[str, Any]) -> bool:
    """Whether a name is used a second time: fewer tokens than before."""
    before, now = _tokens(known), _tokens(chunk)
    return before is not None and now is not None and now < before


def _tokens(record: dict[str, Any]) -> float | None:
    for inner in (record.get("meta_info"), record.get("usage")):
        if isinstance(inner, dict) and isinstance(inner.get("completion_tokens"), int | float):
            return float(inner["completion_tokens"])
    return None


def _folded(known: dict[str, Any], chunk: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """What is known of an answer after one more chunk."""
    result = dict(known)
    for key, value in chunk.items():
        before = result.get(key)
        if key == "choices" and isinstance(value, list) and not depth:
            result[key] = _choices(before or [], value)
        elif key in PIECES and isinstance(value, str) and isinstance(before, str):
            # SGLang's own endpoint says all the text so far.
            whole = key == "text" and not depth and value.startswith(before)
            result[key] = value if whole else before + value
        elif isinstance(value, dict) and isinstance(before, dict) and depth < DEEPEST:
            result[key] = _folded(before, value, depth + 1)
        elif value is not None or key not in result:
            result[key] = value
    return result


def _choices(known: list[Any], pieces: list[Any]) -> list[Any]:
    """The choices of an answer, each with its text so far, as one in one piece has it."""
    result = {one["index"]: one for one in known}
    for piece in pieces:
        if not isinstance(piece, dict):
            continue
        whole = {key: value for key, value in piece.items() if key not in ("delta", "index")}
        if isinstance(piece.get("delta"), dict):
            whole["message"] = piece["delta"]
        index = piece.get("index")
        index = index if isinstance(index, int) else 0
        result[index] = _folded(result.get(index, {"index": index}), whole, 1)
    return list(result.values())
