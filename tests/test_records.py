"""JSON records: whatever keys and values they hold, they are read or named, and nothing fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import document, layout, parser
from specdiag.parser import Parsed, Parser, Rest

QUICK = settings(deadline=None, max_examples=40)
STEP = {"step": 1, "accepted_depth": 2, "commit_len": 3, "ctx_len": 100, "verify_ms": 3.5}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["", "a", "A", "a.b", "a_ms", "A_MS", "a'b_ms", 'a"_ms', "\\_ms", "\0", *STEP]
)


@pytest.fixture(scope="module")
def flat(definitions: tuple[list[Parser], list[Any]]) -> Parser:
    return next(one for one in definitions[0] if one.name == "flat_steps")


@pytest.fixture(scope="module")
def steps(definitions: tuple[list[Parser], list[Any]]) -> Parser:
    return next(one for one in definitions[0] if one.name == "steps")


def read(one: Parser, *found: object) -> Parsed:
    text = "\n".join(item if isinstance(item, str) else json.dumps(item) for item in found)
    return parser.read(one, text.encode("utf-8", "surrogatepass"), 1)


def rows(parsed: Parsed, table: str = "step") -> list[dict[str, Any]]:
    frames = parsed.frames.get(table, [])
    return pl.concat(frames, how="diagonal_relaxed").to_dicts() if frames else []


# Values


def test_the_good_records_around_a_broken_one_are_read(flat: Parser) -> None:
    parsed = read(flat, STEP, json.dumps(STEP)[:30], "no JSON", {**STEP, "step": 2})
    assert [(row["line"], row["step"]) for row in rows(parsed)] == [(1, 1), (4, 2)]
    assert [line for line, _ in parsed.strangers] == [2, 3]
    assert (parsed.lines, parsed.understood) == (4, 2)


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e30", '"x"']
)
def test_a_number_that_is_none_is_missing_and_not_a_figure(flat: Parser, value: str) -> None:
    parsed = read(flat, f'{{"step": {value}, "commit_len": 3, "verify_ms": {value}}}')
    (row,) = rows(parsed)
    assert row["step"] is None
    assert row["commit_len"] == 3
    assert row["verify_ms"] in (None, 1e30)


@pytest.mark.parametrize("value", [2**53 + 2, -(2**53) - 2, 2**63, -(2**63), 2**64, 10**30])
def test_a_counter_that_overflowed_is_missing(flat: Parser, value: int) -> None:
    (row,) = rows(read(flat, {**STEP, "ctx_len": value}))
    assert row["ctx_len"] is None
    assert row["commit_len"] == 3


def test_whole_numbers_written_as_fractions_are_whole_numbers(flat: Parser) -> None:
    (row,) = rows(read(flat, {**STEP, "step": 7.0}))
    assert row["step"] == 7


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, True, "seven", None])
def test_a_value_of_another_type_spoils_no_other_field(flat: Parser, value: object) -> None:
    (row,) = rows(read(flat, {**STEP, "ctx_len": value}))
    assert row["commit_len"] == 3


def test_lists_of_unequal_length_are_read_as_they_are(steps: Parser) -> None:
    record = {
        "record": "step", "schema": 1, "parents": [-1, 0, 0], "node_tokens": [], "depths": [1],
        "accepted": [0, 99], "candidate_tokens": [[1], [], [2, 3]], "slots": [10**30, 5],
    }  # fmt: skip
    (row,) = rows(read(steps, record))
    assert row["parents"] == [-1, 0, 0]
    assert row["node_tokens"] == []
    assert row["candidate_tokens"] == [[1], [], [2, 3]]
    assert row["slots"] == [None, 5]


def test_a_text_of_a_megabyte_is_read(flat: Parser) -> None:
    assert len(rows(read(flat, {**STEP, "prompt": "x" * (1 << 20)}, STEP))) == 2


def test_nesting_without_end_is_not_valid_json_and_not_a_crash(flat: Parser) -> None:
    deep = f'{{"step": 1, "x": {"[" * 100_000}'
    parsed = read(flat, deep, deep + "]" * 100_000 + "}", STEP)
    assert [line for line, _ in parsed.strangers] == [1]
    assert rows(parsed)[-1]["line"] == 3


# Keys


def test_keys_that_differ_in_case_only_are_not_mixed_up(flat: Parser) -> None:
    parsed = read(flat, {**STEP, "Step": 99, "VERIFY_MS": 99, "odd": 1, "Odd": 2})
    (row,) = rows(parsed)
    assert (row["step"], row["verify_ms"]) == (1, 3.5)
    assert {name for _, name in parsed.unread} >= {"Step", "odd", "Odd"}


@pytest.mark.parametrize("key", ["", "a.b", 'a"b', "a'b", "a\\b", "é", "$", "a\nb", "select"])
def test_a_strange_key_is_named_and_the_record_is_read(flat: Parser, key: str) -> None:
    (row,) = rows(read(flat, {**STEP, key: 1, f"{key}_ms": 2.5}))
    assert row["commit_len"] == 3


def test_stage_times_that_no_name_fits_are_kept(flat: Parser) -> None:
    (row,) = rows(read(flat, {**STEP, "it's_ms": 2.5}))
    assert json.loads(row["other_ms"]) == {"it's_ms": 2.5}


def test_a_record_with_thousands_of_keys_is_read_and_the_first_are_named(flat: Parser) -> None:
    many = {f"key{n}": n for n in range(3000)} | {f"stage{n}_ms": n for n in range(3000)}
    parsed = read(flat, {**STEP, **many})
    (row,) = rows(parsed)
    assert row["commit_len"] == 3
    assert len(parsed.unread) == layout.MOST_KEYS
    assert len(json.loads(row["other_ms"])) == layout.MOST_KEYS


def test_the_same_key_twice_is_one_value(flat: Parser) -> None:
    (row,) = rows(read(flat, '{"step": 1, "commit_len": 3, "commit_len": 4, "x": 1, "x": 2}'))
    assert row["commit_len"] in (3, 4)


def test_keys_of_two_objects_that_end_alike_are_kept_once(flat: Parser) -> None:
    event = replace(flat.events[0], rest=(Rest("extra", r"\.kept$", ("a", "b")),))
    one = replace(flat, events=(event,))
    (row,) = rows(read(one, {**STEP, "a": {"kept": 1}, "b": {"kept": 2}}))
    assert list(json.loads(row["extra"])) == ["kept"]


@QUICK
@given(found=st.lists(st.dictionaries(KEYS | st.text(max_size=4), VALUES, max_size=6), max_size=4))
def test_any_objects_are_read(flat: Parser, found: list[dict[str, Any]]) -> None:
    parsed = read(flat, STEP, *found, {**STEP, "step": 2})
    assert {row["line"] for row in rows(parsed)} >= {1}
    assert parsed.understood <= parsed.lines


def test_a_trace_of_a_later_version_is_refused_in_words(steps: Parser) -> None:
    parsed = read(steps, {"record": "step", "schema": 2, "parents": [-1]})
    assert parsed.refused == "schema version 2 is newer than 1, the one read here"
    assert rows(parsed) == []


# Documents


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ('[{"a": 1}]', True),
        ("[\n  {", True),
        ("[", True),
        ("\ufeff[\r\n{", True),
        ("{\n", True),
        ('{\r\n  "a": 1', True),
        ('{"a": 1,\n "b": 2}', True),
        ('{"a": 1}\n{"a": 2}\n', False),
        ('{"a": 1', False),
        ("[2026-05-21 08:30:05] Decode batch.", False),
        ("text", False),
        ("", False),
        ('{"a": 1}{"a": 2}', True),
        ('{"a": "}{"} , {"a": 2}\n', True),
        ('{"a": "}{"}\n{"a": 2}\n', False),
        ('{"a": 1},\n{"a": 2},\n', False),
    ],
)
def test_a_document_is_told_from_records_and_from_a_log(head: str, expected: bool) -> None:
    assert document.is_document(head.encode()) is expected


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n\n"])
def test_an_array_is_its_records(indent: int | None, before: str) -> None:
    wanted = [{"a": '}]{[,"\\'}, {"b": {"c": [1, {"d": 2}]}}, {}]
    data = (before + json.dumps(wanted, indent=indent)).encode()
    texts = [line for line in document.split(data).split(b"\n") if line]
    assert [json.loads(text) for text in texts] == wanted


def test_records_of_a_document_stand_on_the_line_where_they_start() -> None:
    data = json.dumps([{"a": 1}, {"b": 2}], indent=2).encode()
    lines = document.split(data).split(b"\n")
    assert data.split(b"\n")[1] == b"  {" and lines[1] == b'{ "a": 1 }'
    assert data.split(b"\n")[4] == b"  {" and lines[4] == b'{ "b": 2 }'


def test_records_that_share_a_line_are_counted() -> None:
    assert document.split(b'[{"a": 1}, {"b": 2},\n\n {"c": 3}]').split(b"\n") == [
        b'{"a": 1}', b'{"b": 2}', b'{"c": 3}',
    ]  # fmt: skip


def test_pretty_records_one_after_the_other_are_records() -> None:
    """What `jq . trace.jsonl` makes of a trace."""
    data = "\n".join(json.dumps({"a": n}, indent=2) for n in range(3)).encode()
    lines = document.split(data).split(b"\n")
    assert (lines[0], lines[3], lines[6]) == (b'{ "a": 0 }', b'{ "a": 1 }', b'{ "a": 2 }')


def test_a_document_that_was_cut_gives_the_records_before() -> None:
    lines = document.split(b'[{"a": 1},\n{"a": 2},\n{"a": 3, "b": "x').split(b"\n")
    assert lines == [b'{"a": 1}', b'{"a": 2}', b'{"a": 3, "b": "x']


def test_a_document_without_records_is_one_broken_record() -> None:
    assert document.split(b"[1,\n2]") == b"[1, 2]"


@QUICK
@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, min_size=1, max_size=3), min_size=1))
def test_any_document_gives_its_records(found: list[dict[str, Any]]) -> None:
    for indent in (None, 2):
        data = json.dumps(found, indent=indent).encode()
        texts = [line for line in document.split(data).split(b"\n") if line]
        assert [json.dumps(json.loads(text)) for text in texts] == [json.dumps(f) for f in found]


@QUICK
@given(st.text(alphabet='[]{}",\\ \n:a1', max_size=60))
def test_any_brackets_give_no_error(text: str) -> None:
    document.is_document(text.encode())
    assert document.split(text.encode()).count(b"\n") <= text.count("\n") + text.count("{") + 60


def test_a_string_without_end_is_looked_at_once() -> None:
    data = b"[" + b'"\\"' * 400_000  # looking again from every quote would take hours
    assert b"\n" not in document.split(data)


@pytest.mark.parametrize("between", ["", " ", ",", ",\n", ", \n\n", "\n"])
@pytest.mark.parametrize("indent", [None, 2])
def test_records_that_nothing_or_a_comma_parts_are_read(
    tmp_path: Path, load: Callable[..., Any], between: str, indent: int | None
) -> None:
    """What is appended to a file without a line end, or pasted out of an array."""
    path = tmp_path / "trace.json"
    path.write_text(
        "".join(json.dumps({**STEP, "step": n}, indent=indent) + between for n in range(9))
    )
    store = load(path)
    assert [row["step"] for row in store.rows("SELECT step FROM step ORDER BY line")] == [*range(9)]
    assert store.notices == []


def test_two_programs_that_share_a_file_leave_records_side_by_side(flat: Parser) -> None:
    two = json.dumps({**STEP, "step": 2}) + json.dumps({**STEP, "step": 3})
    parsed = read(flat, STEP, two, json.dumps(STEP)[:20] + json.dumps(STEP), {**STEP, "step": 4})
    assert [(row["line"], row["step"]) for row in rows(parsed)] == [(1, 1), (2, 2), (2, 3), (4, 4)]
    assert (parsed.lines, parsed.understood) == (5, 4)
    assert [line for line, _ in parsed.strangers] == [3]


def test_what_was_inside_of_a_torn_record_is_no_record(flat: Parser) -> None:
    parsed = read(flat, 'x", "stages": {"verify_ms": 9.5, "commit_len": 3}}', STEP)
    assert [row["line"] for row in rows(parsed)] == [2]


# Records as clients print them


@pytest.mark.parametrize("write", [json.dumps, repr], ids=["json", "python"])
@pytest.mark.parametrize(
    "before",
    ["", "2026-05-21 08:30:00,123 INFO client: ", "[rank0] step=", "step> ", "0\t", "data> "],
)
def test_records_behind_something_else_in_each_line_are_read(
    tmp_path: Path, load: Callable[..., Any], before: str, write: Callable[[object], str]
) -> None:
    path = tmp_path / "client.log"
    found = [{**STEP, "step": n, "note": None, "text": "a'b\"{c}"} for n in range(9)]
    path.write_text("connected\n" + "".join(f"{before}{write(one)}\n" for one in found))
    steps = load(path).rows("SELECT step, line FROM step ORDER BY line")
    assert steps == [{"step": n, "line": n + 2} for n in range(9)]


def test_a_note_that_quotes_one_record_is_no_file_of_them(
    tmp_path: Path, load: Callable[..., Any]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("It wrote lines such as\n" * 9 + "this: " + json.dumps(STEP) + "\n")
    assert [one.what for one in load(path).notices] == ["no parser knows this file"]


@pytest.mark.parametrize(
    "text",
    ["{'a': {1, 2}}", "{'a': " + "[" * 90_000, "{'a'", "{'a': nan}", "{''"],
)
def test_what_python_prints_but_json_has_not_is_named(flat: Parser, text: str) -> None:
    parsed = read(flat, STEP, text, STEP)
    assert len(rows(parsed)) == 2
    assert [line for line, _ in parsed.strangers] == [2]


# Records inside of records

REQUESTS = [
    {"id": f"r{n}", "usage": {"prompt_tokens": 9, "completion_tokens": 60 + n}, "note": {"a": [1]}}
    for n in range(3)
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "around",
    [
        lambda found: {"config": {"seed": 1}, "results": found},
        lambda found: {"run": "b7", "responses": found},
        lambda found: {"data": {"a": {"answers": found}, "b": {"answers": []}}},
        lambda found: {one["id"]: one for one in found},
        lambda found: {"model": "m", "answers": {one["id"]: one for one in found}},
        lambda found: [{"turn": n, "results": [one]} for n, one in enumerate(found)],
    ],
)
def test_records_in_what_a_script_dumped_at_its_end_are_read(
    tmp_path: Path, load: Callable[..., Any], around: Callable[[object], object], indent: int | None
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(around(REQUESTS), indent=indent))
    found = load(path).rows("SELECT run, request, completion_tokens FROM request ORDER BY request")
    assert [(row["request"], row["completion_tokens"]) for row in found] == [
        ("r0", 60), ("r1", 61), ("r2", 62),
    ]  # fmt: skip


def test_runs_that_are_named_around_the_records_are_told_apart(
    tmp_path: Path, load: Callable[..., Any]
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"run": name, "answers": REQUESTS} for name in ("b3", "b7")]))
    found = load(path).rows("SELECT run, count(*) AS requests FROM request GROUP BY run")
    assert {row["run"]: row["requests"] for row in found} == {"results:b3": 3, "results:b7": 3}


def test_what_stands_in_a_record_that_is_read_is_not_read_again(flat: Parser) -> None:
    parsed = read(flat, {**STEP, "others": [STEP, STEP]}, {"others": [STEP]})
    assert [row["line"] for row in rows(parsed)] == [1]


@pytest.mark.parametrize(
    ("record", "lacks"),
    [
        ({"id": 1, "usage": {"completion_tokens": None}}, "at least one of completion_tokens"),
        ({"step": 1, "draft_ms": None}, "at least one of accepted_depth"),
    ],
)
def test_records_without_a_value_say_what_they_lack(
    tmp_path: Path, load: Callable[..., Any], record: dict[str, Any], lacks: str
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text((json.dumps(record) + "\n") * 5)
    (notice,) = load(path).notices
    assert "none of its records has a value to check" in notice.what
    assert notice.help.startswith(lacks)


# Parquet


def test_parquet_is_read_like_json_lines(
    tmp_path: Path, flat: Parser, load: Callable[..., Any]
) -> None:
    found = [{**STEP, "step": n, "parents": [-1, 0], "note": {"a": n}} for n in range(3)]
    (tmp_path / "json" / "x").mkdir(parents=True)
    (tmp_path / "parquet" / "x").mkdir(parents=True)
    text = "".join(json.dumps(one) + "\n" for one in found)
    (tmp_path / "json" / "x" / "steps.jsonl").write_text(text)
    pl.DataFrame(found).write_parquet(tmp_path / "parquet" / "x" / "steps.parquet")
    tables = [
        load(tmp_path / kind).rows(f"SELECT * FROM {table} ORDER BY ALL")
        for table in ("step", "time_sample")
        for kind in ("json", "parquet")
    ]
    assert len(tables[0]) == 3
    assert tables[0] == tables[1]
    assert tables[2] == tables[3]


def test_the_settings_of_specforge_are_runs_of_their_own(
    tmp_path: Path, diagnose: Callable[..., Any]
) -> None:
    def setting(steps: int, throughput: float, accepted: float) -> dict[str, Any]:
        metrics = {
            "latency": 30000 / throughput, "output_throughput": throughput, "accept_length": accepted,
            "accuracy": None, "num_questions": 80, "num_valid_predictions": 0, "categorical_performance": None,
        }  # fmt: skip
        return {
            "batch_size": 1, "steps": steps, "topk": min(steps, 1), "num_draft_tokens": steps + 1 if steps else 0,
            "metrics": [metrics], "num_samples": 80,
        }  # fmt: skip

    result = {"model": "a/draft", "mtbench": [setting(0, 150.0, 1.0), setting(3, 120.0, 2.4)]}
    path = tmp_path / "results_20260601_090000.jsonl"
    path.write_text(json.dumps(result, indent=4), encoding="utf-8")
    (found,) = diagnose(path).findings
    assert found.rule.name == "slower_than_baseline" and "break-even is 3.00" in found.message


@pytest.mark.parametrize("start", [[0], []])
@pytest.mark.parametrize(("wrong", "rules"), [(False, []), (True, ["path_not_a_chain"])])
def test_paths_that_begin_below_the_root_are_checked_alike(
    start: list[int], wrong: bool, rules: list[str],
    tmp_path: Path, diagnose: Callable[..., Any],
) -> None:  # fmt: skip
    parents = [-1, 0, 0, 1, 1, 2, 3, 3]
    paths = [[1, 3, 6], [1, 4], [2, 5], [1], []] * 6
    if wrong:
        paths[7] = [1, 5]  # whose parent is 2
    ctx, text = 100, ""
    for step, path in enumerate(paths):
        row = {"rid": "q1", "step": step, "parents": parents, "accepted_path": start + path, "commit_len": len(path) + 1, "ctx_len": ctx}  # fmt: skip
        text += json.dumps(row) + "\n"
        ctx += len(path) + 1
    (tmp_path / "steps.jsonl").write_text(text)
    found = diagnose(tmp_path / "steps.jsonl")
    assert [one.rule.name for one in found.findings] == rules
    assert not found.notices
