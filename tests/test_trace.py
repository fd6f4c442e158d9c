"""The step trace: its record classes, the parser that reads them and the tables are one schema."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import bundled, definition, layout, parser, store
from specdiag.ddtree import trace
from specdiag.ddtree.trace import RequestRecord, RunRecord, StepRecord

STEPS = definition.load(bundled.PARSERS / "steps.toml")
EVENTS = {event.table: event for event in STEPS.events}
# What a step has from elsewhere: where it stands, what is derived, what no field knows.
NOT_RECORDED = {
    "run", "source", "line", "time", "accept_len", "tokens_per_s", "other_ms", "extra", "last",
}  # fmt: skip
TYPES = {
    "int": "int",
    "float": "float",
    "str": "text",
    "bool": "bool",
    "list[int]": "ints",
    "list[float]": "floats",
    "list[bool | None]": "bools",
    "list[str]": "texts",
    "list[list[int]]": "int_lists",
    "list[list[float]]": "float_lists",
    "dict[str, Any]": "json",
}

HEAD = {
    "run": "b7", "request": "r0", "step": 3, "row": 0, "batch": 1, "mode": "ddtree",
    "algorithm_requested": "DDTREE", "algorithm": "DDTREE", "ctx_len": 40, "root": 7,
    "budget_requested": 3, "budget": 3, "top_k": 2, "nodes": 3, "width": 4,
}  # fmt: skip


def annotations(record: type) -> dict[str, str]:
    """The fields of a record and their types, optional or not."""
    return {one.name: str(one.type).removesuffix(" | None") for one in dataclasses.fields(record)}


@functools.cache
def columns(table: str) -> dict[str, str]:
    return {
        name: type for name, type, *_ in store.open_empty().execute(f"DESCRIBE {table}").fetchall()
    }


def sql_type(field: str) -> str:
    """The type of schema.sql for a type of parsers/steps.toml."""
    found = layout.SQL_TYPES[field] if field != "int" else "BIGINT"
    depth = 0
    while isinstance(found, list):
        (found,) = found
        depth += 1
    return found + "[]" * depth


def read(*texts: str) -> parser.Parsed:
    return parser.read(STEPS, ("\n".join(texts) + "\n").encode(), 1)


def rows(parsed: parser.Parsed, table: str) -> list[dict[str, typing.Any]]:
    return [row for frame in parsed.frames.get(table, []) for row in frame.to_dicts()]


# One schema --------------------------------------------------------------------------------------


def test_steps_have_the_same_fields_everywhere():
    recorded = annotations(StepRecord)
    parsed = {field.column: field.type for field in EVENTS["step"].fields}
    stored = columns("step")
    assert set(parsed) == set(recorded) - {"run"}
    assert set(stored) == set(parsed) | NOT_RECORDED
    for name, type in parsed.items():
        assert TYPES[recorded[name]] == type, name
        assert stored[name] == sql_type(type), name


def test_steps_have_one_name_for_each_field():
    for event in EVENTS.values():
        assert all(field.names == (field.column,) for field in event.fields)


def test_requests_have_the_same_fields_everywhere():
    recorded = annotations(RequestRecord)
    parsed = {field.column: field.type for field in EVENTS["request"].fields}
    stored = columns("request")
    assert set(recorded) == set(parsed) | {"run"} | (set(STEPS.ignore) & set(recorded))
    for name, type in parsed.items():
        assert stored[name] == sql_type(type), name
        if name != "histogram":  # the table takes histograms of any source
            assert TYPES[recorded[name]] == type, name


def test_every_kind_of_record_has_its_event():
    kinds = {event.where["record"] for event in STEPS.events}
    assert kinds == set(trace.KINDS.values())
    assert STEPS.version == ("schema", trace.SCHEMA)


# Writing and reading -----------------------------------------------------------------------------

WHOLE = st.integers(1 - 2**53, 2**53 - 1)  # as every JSON reader has them
# A decimal with 15 digits is read as it was written.
REAL = st.floats(-1e12, 1e12, allow_nan=False).map(lambda value: float(f"{value:.12g}"))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
VALUES = {
    "int": WHOLE,
    "float": REAL,
    "str": TEXT,
    "bool": st.booleans(),
    "list[int]": st.lists(WHOLE, max_size=4),
    "list[float]": st.lists(REAL, max_size=4),
    "list[bool | None]": st.lists(st.booleans() | st.none(), max_size=4),
    "list[str]": st.lists(TEXT, max_size=4),
    "list[list[int]]": st.lists(st.lists(WHOLE, max_size=3), max_size=3),
    "list[list[float]]": st.lists(st.lists(REAL, max_size=3), max_size=3),
    "dict[str, Any]": st.dictionaries(TEXT, st.lists(WHOLE, max_size=3), max_size=2),
}


def record_of(kind: type) -> st.SearchStrategy[typing.Any]:
    """Records with any value in any field, optional ones there or not."""
    required, optional = {}, {}
    for one in dataclasses.fields(kind):
        values = VALUES.get(annotations(kind)[one.name], st.none())
        plain = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        (required if plain else optional)[one.name] = values
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: kind(**given))


@settings(max_examples=60)
@given(record_of(StepRecord))
def test_a_step_is_read_as_it_was_written(step):
    parsed = read(trace.line(step))
    (row,) = rows(parsed, "step")
    assert row["arm"] == step.run
    assert not parsed.unread and not parsed.strangers
    for name in annotations(StepRecord).keys() - {"run", "checksums"}:
        assert row.get(name) == getattr(step, name), name
    kept = row.get("checksums")
    assert (json.loads(kept) if kept else None) == step.checksums


@settings(max_examples=30)
@given(record_of(RequestRecord))
def test_a_request_is_read_as_it_was_written(request_record):
    parsed = read(trace.line(request_record))
    (row,) = rows(parsed, "request")
    assert row["arm"] == request_record.run
    assert not parsed.unread and not parsed.strangers
    for field in EVENTS["request"].fields:
        assert row.get(field.column) == getattr(request_record, field.column), field.column


def test_a_run_becomes_its_settings():
    run = RunRecord(
        run="b7", target="tiny", algorithm="DDTREE", block=8, stop_ids=[1, 2], overlap=True
    )
    found = {row["key"]: row["value"] for row in rows(read(trace.line(run)), "config")}
    assert found["target"] == "tiny" and found["block"] == "8"
    assert json.loads(found["stop_ids"]) == [1, 2] and found["overlap"] == "true"
    assert "drafter" not in found  # what is not set is left out


def test_a_whole_trace_is_read(tmp_path, load):
    log = tmp_path / "t.jsonl"
    steps = [
        StepRecord(**(HEAD | {"step": n, "accepted": [0, 1], "accepted_depth": 1.0,
                              "accepted_drafts": 1.0, "commit_len": 2.0, "step_ms": 10.0}))
        for n in range(3)
    ]  # fmt: skip
    request = RequestRecord(
        run="b7", request="r0", prompt_tokens=5, completion_tokens=7, verify_steps=3
    )
    run = RunRecord(run="b7", target="tiny", algorithm="DDTREE", budget=3)
    log.write_text("".join(trace.line(one) + "\n" for one in [run, *steps, request]))
    filled = load(log)
    assert not filled.notices
    (facts,) = filled.rows("SELECT * FROM run")
    assert (facts["algorithm"], facts["budget"], facts["tree"]) == ("DDTREE", 3, True)
    assert (facts["accept_len"], facts["step_ms"]) == (2.0, 10.0)
    assert filled.rows("SELECT last FROM step ORDER BY step") == [
        {"last": False}, {"last": False}, {"last": True},
    ]  # fmt: skip
    assert filled.rows("SELECT commit_len FROM request") == [{"commit_len": 2.0}]


# What JSON cannot hold, what is new, and what is missing ------------------------------------------

WILD = st.sampled_from([math.nan, math.inf, -math.inf, 1.0])


@settings(max_examples=60)
@given(WILD, st.lists(WILD, min_size=1, max_size=3), st.lists(st.lists(WILD), max_size=2), WILD)
def test_a_line_is_always_json(one, several, nested, inner):
    step = StepRecord(
        **HEAD, step_ms=one, log_probs=several, candidate_log_probs=nested,
        checksums={"kv": [inner], "whole": inner},
    )  # fmt: skip
    text = trace.line(step)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the line"))
    assert "\n" not in text
    (row,) = rows(read(text), "step")
    assert len(row["log_probs"]) == len(several)
    assert [value for value in row["log_probs"] if value is not None and math.isinf(value)] == []


def test_a_masked_token_has_the_lowest_log_probability():
    text = trace.line(StepRecord(**HEAD, log_probs=[0.0, -math.inf]))
    (row,) = rows(read(text), "step")
    assert row["log_probs"][0] == 0.0 and row["log_probs"][1] < -1e38


def test_what_is_new_is_kept_and_named():
    text = json.dumps({"record": "step", "schema": 1, **HEAD, "colour": "red", "sync_ms": 0.5})
    parsed = read(text)
    (row,) = rows(parsed, "step")
    assert json.loads(row["extra"]) == {"colour": "red"}
    assert json.loads(row["other_ms"]) == {"sync_ms": 0.5}
    assert parsed.unread == {("step", "colour"): 1}
    assert row["ctx_len"] == 40


def test_what_is_missing_is_null(tmp_path, load):
    log = tmp_path / "t.jsonl"
    log.write_text(
        '{"record":"step","schema":1,"run":"b7","request":"r0","step":1,"commit_len":2}\n'
    )
    (row,) = load(log).rows("SELECT * FROM step")
    given = {name for name, value in row.items() if value is not None}
    assert given == {"run", "source", "line", "request", "step", "commit_len", "last"}


def test_a_newer_major_version_is_refused(tmp_path, load):
    log = tmp_path / "t.jsonl"
    newer = json.dumps({"record": "step", "schema": trace.SCHEMA + 1, **HEAD})
    log.write_text(newer + "\n")
    filled = load(log)
    assert filled.rows("SELECT * FROM step") == []
    assert any("newer" in notice.what for notice in filled.notices)


def test_a_newer_minor_version_is_read():
    text = json.dumps({"record": "step", "schema": trace.SCHEMA + 0.5, **HEAD})
    assert len(rows(read(text), "step")) == 1


def test_the_same_columns_in_parquet_are_the_same_trace(tmp_path, load):
    import polars as pl

    log, table = tmp_path / "t.jsonl", tmp_path / "parquet" / "t.parquet"
    table.parent.mkdir()
    given = [
        HEAD | {"step": n, "accepted": [0, 1], "commit_len": 2.0, "parents": [-1, 0, 0, 1],
                "block_tokens": [7, 9], "kv_before": 40}
        for n in range(3)
    ]  # fmt: skip
    log.write_text("".join(trace.line(StepRecord(**one)) + "\n" for one in given))
    pl.DataFrame(given).write_parquet(table)
    query = "SELECT request, step, ctx_len, accepted, commit_len, parents, nodes FROM step ORDER BY step"
    assert load(log).rows(query) == load(table).rows(query)


@pytest.mark.parametrize("module", ["specdiag.ddtree.trace"])
def test_needs_nothing_but_the_standard_library(module):
    code = (
        f"import sys, {module}; "
        "print([name for name in ('torch', 'numpy', 'polars', 'duckdb') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
