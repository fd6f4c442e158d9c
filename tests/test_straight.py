"""Blocks whose records look alike are parsed once; whatever does not fit is found all the same."""

from __future__ import annotations

import json

import polars as pl
import pytest

from specdiag import bundled, definition, parser, straight
from specdiag.parser import Parsed, Parser

MANY = 3 * straight.HEAD  # records: more than those whose keys are looked at
ODD = MANY - 10  # the one that is not like the others
STEP = {
    "run": "a", "step": 7, "req": 3, "ctx_len": 900, "commit_len": 3, "step_ms": 20.5,
    "node_tokens": [5, 6], "parents": [-1, 0], "finish": "stop",
}  # fmt: skip


@pytest.fixture(scope="module")
def flat() -> Parser:
    return definition.load(bundled.PARSERS / "flat_steps.toml")


def texts(odd: str = "") -> list[str]:
    found = [json.dumps({**STEP, "step": n}) for n in range(MANY)]
    return found if not odd else [*found[:ODD], odd, *found[ODD + 1 :]]


def read(flat: Parser, lines: list[str], first: int = 1) -> Parsed:
    return parser.read(flat, "\n".join(lines).encode(), first)


def rows(parsed: Parsed) -> list[dict[str, object]]:
    frames = parsed.frames["step"]
    return pl.concat(frames, how="diagonal_relaxed").sort("line").to_dicts()


def carefully(flat: Parser, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> Parsed:
    with monkeypatch.context() as patched:
        patched.setattr(straight, "read", lambda *_: False)
        return read(flat, lines)


def is_straight(flat: Parser, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    def never(*_: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr("specdiag.records.project", never)
        try:
            read(flat, lines)
        except AssertionError:
            return False
    return True


def test_records_that_look_alike_are_not_looked_at_one_by_one(
    flat: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_straight(flat, texts(), monkeypatch)
    assert rows(read(flat, texts())) == rows(carefully(flat, texts(), monkeypatch))


ODDITIES = {
    "a key that nobody reads": json.dumps({**STEP, "note": "x"}),
    "such a key whose value is null": json.dumps({**STEP, "note": None}),
    "such a key instead of a known one": json.dumps({"note": 1, **STEP} | {"note": 2}),
    "a known key less, and a strange one": json.dumps(
        {k: v for k, v in STEP.items() if k != "finish"} | {"note": None}
    ),
    "a broken record": '{"run": "a", "step": 7, "commit_len": ',
    "no object": '["run", 7]',
    "a key twice": '{"run": "a", "step": 1, "step": 2, "commit_len": 3}',
    "a token that takes more than 32 bits": json.dumps({**STEP, "node_tokens": [5, 2**40]}),
    "a hole in a list": json.dumps({**STEP, "node_tokens": [5, None]}),
    "text that looks like a key": json.dumps({**STEP, "finish": 'a "note": b'}),
    "an object where a number should be": json.dumps({**STEP, "ctx_len": {"a": 1, "b": 2}}),
    "a null": json.dumps({**STEP, "finish": None}),
    "a known key less": json.dumps({k: v for k, v in STEP.items() if k != "finish"}),
    "a known key more": json.dumps({**STEP, "budget": 8}),
    "an empty line": "",
    "spaces": "   ",
}


@pytest.mark.parametrize("odd", ODDITIES.values(), ids=ODDITIES)
def test_one_odd_record_among_many_is_read_as_if_every_record_were_looked_at(
    flat: Parser, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, due = read(flat, texts(odd)), carefully(flat, texts(odd), monkeypatch)
    assert rows(found) == rows(due)
    assert (found.lines, found.understood, found.unread, found.strangers) == (
        due.lines, due.understood, due.unread, due.strangers,
    )  # fmt: skip


@pytest.mark.parametrize("odd", ["a null", "a known key less"])
def test_a_value_that_is_missing_now_and_then_costs_no_second_look(
    flat: Parser, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_straight(flat, texts(ODDITIES[odd]), monkeypatch)


def test_keys_that_all_records_have_and_nobody_reads_are_counted_and_kept(flat: Parser) -> None:
    parsed = read(flat, [json.dumps({**STEP, "note": {"a": [1, 2], "b": 3}})] * MANY)
    assert parsed.unread == {("step", "note"): MANY}
    assert json.loads(str(rows(parsed)[-1]["extra"])) == {"note": {"a": [1, 2], "b": 3}}


def test_a_block_after_one_of_another_shape_is_read_by_its_own(flat: Parser) -> None:
    read(flat, texts())
    other = [json.dumps({"rid": "x", "round": n, "accept_len": 2.5}) for n in range(MANY)]
    found = rows(read(flat, other, first=500))
    assert [(row["line"], row["request"], row["commit_len"]) for row in found[:2]] == [
        (500, "x", 2.5),
        (501, "x", 2.5),
    ]


def test_a_broken_record_far_down_in_a_block_is_named(flat: Parser) -> None:
    """DuckDB hands out the first rows of a block before it comes to the last ones."""
    lines = [json.dumps({**STEP, "step": n}) for n in range(20_000)]
    parsed = read(flat, [*lines, '{"run": "a", "step": 7, "com', *lines])
    assert parsed.strangers == [(20_001, '{"run": "a", "step": 7, "com')]
    assert parsed.understood == 40_000
