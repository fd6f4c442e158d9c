"""Records as CSV or TSV give the tables that they give as JSON lines."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from specdiag import content, sheets

SAMPLES = Path(__file__).parents[1] / "sample_logs"
TABLES = ("config", "request", "step", "benchmark", "acceptance")
FORMATS = (
    "healthy-complete-trace.jsonl", "healthy-tree-profile.jsonl", "sources_disagree/requests.jsonl",
    "benchmark_artefact.jsonl", "differs_from_greedy/plain.jsonl", "output_garbled/eagle.jsonl",
    "stage_grows_with_context.jsonl", "tree_below_chain/tree.jsonl", "tree_runs_linear.jsonl",
    "healthy-clients/offline.jsonl", "healthy-clients/one-batch.jsonl",
    "healthy-clients/speculative.jsonl",
)  # fmt: skip
STEP = {
    "rid": "r,1", "step": 3, "algo": "DDTREE", "ctx_len": 40, "accepted_depth": 2, "commit_len": 3,
    "parents": [-1, 0, 1], "node_tokens": [5, 6, 7], "stage_ms": {"verify": 9.5, "copy": 5e-1},
    "note": 'said "a";\nb\tc',
}  # fmt: skip
STEPS = [{**STEP, "step": n, "ctx_len": 40 + 3 * n} for n in range(12)]
REQUEST = {
    "id": "00123", "prompt": "[1, 2] is a list", "text": "True", "temperature": 1e-2,
    "meta_info": {
        "finish_reason": {"type": "length", "length": 9}, "prompt_tokens": 40,
        "completion_tokens": 61, "spec_verify_ct": 20, "spec_accept_histogram": [1, 2, 17],
    },
}  # fmt: skip
REQUESTS = [
    {**REQUEST, "text": text} for text in ("True", "12", "1e3", "a\n\n\nb", "{'a': 1}", "x")
]


def sheet(records, write=json.dumps, separator=",", index=False, end="\n", point="."):
    """What a CSV writer makes of records."""
    names = list(dict.fromkeys(name for one in records for name in one))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=end)
    writer.writerow([""] * index + names)
    for number, one in enumerate(records):
        cells = [cell(one.get(name), write, point) for name in names]
        writer.writerow([number] * index + cells)
    return out.getvalue()


def cell(value, write, point="."):
    if isinstance(value, float):
        return json.dumps(value).replace(".", point)
    return write(value) if isinstance(value, list | dict) else value


def flat(record, before=""):
    """As pandas.json_normalize makes it."""
    found = {}
    for name, value in record.items():
        inner = isinstance(value, dict)
        found |= flat(value, f"{before}{name}.") if inner else {before + name: value}
    return found


@pytest.fixture
def tables(tmp_path, load):
    """The tables of a text in a file of this name."""

    def tables(text, name="trace.csv"):
        path = tmp_path / name.rpartition(".")[2] / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        store = load(path)
        return {
            table: sorted(map(str, store.rows(f"SELECT * EXCLUDE (source, line) FROM {table}")))
            for table in TABLES
        }

    return tables


def lines(records):
    return "".join(json.dumps(one) + "\n" for one in records)


def figures(found):
    """The rows of all tables."""
    return [row for rows in found.values() for row in rows]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("write", [json.dumps, repr], ids=["json", "python"])
def test_records_as_a_sheet_give_the_same_tables(tables, name, write):
    text = (SAMPLES / name).read_text()
    records = [json.loads(line) for line in text.splitlines() if line.strip()][:50]
    expected = tables(lines(records), "trace.jsonl")
    assert figures(expected)
    assert tables(sheet(records, write)) == expected


@pytest.mark.parametrize("records", [STEPS, REQUESTS], ids=["steps", "requests"])
@pytest.mark.parametrize(
    ("how", "encode"),
    [
        ({}, str.encode),
        ({"write": repr}, str.encode),
        ({"separator": "\t"}, str.encode),
        ({"separator": "|"}, str.encode),
        ({"separator": ";"}, str.encode),
        ({"separator": ";", "point": ","}, str.encode),
        ({"index": True}, str.encode),
        ({"end": "\r\n"}, str.encode),
        ({"end": "\r\n"}, lambda text: b"\xef\xbb\xbf" + text.encode()),
        ({"separator": "\t"}, lambda text: b"\xff\xfe" + text.encode("utf-16-le")),
    ],
)  # fmt: skip
def test_a_sheet_is_read_however_it_was_saved(tables, records, how, encode):
    expected = tables(lines(records), "trace.jsonl")
    assert figures(expected)
    assert tables(encode(sheet(records, **how))) == expected


def test_names_with_dots_lead_into_objects(tables):
    expected = tables(lines(REQUESTS), "trace.jsonl")
    assert tables(sheet([flat(one) for one in REQUESTS])) == expected


def test_a_column_of_records_is_a_sheet_too(tables):
    inner = [{"meta_info": {**one["meta_info"], "id": n}} for n, one in enumerate(REQUESTS)]
    assert figures(tables(lines(inner), "trace.jsonl")) == figures(tables(sheet(inner)))


def test_a_row_stands_on_its_line_in_the_file(tmp_path, load):
    path = tmp_path / "requests.csv"
    path.write_text(sheet(REQUESTS).replace('\n00123,"[1, 2] is a list",x', "\n\n\n00123,p,x"))
    texts = path.read_text().split("\n")
    found = load(path).rows("SELECT line, text FROM request ORDER BY line")
    assert [row["text"] for row in found] == [one["text"] for one in REQUESTS]
    for row in found:
        assert texts[row["line"] - 1].startswith("00123")


@pytest.mark.parametrize("size", [200, 1000, 5000])
@pytest.mark.parametrize("records", [STEPS, REQUESTS], ids=["steps", "requests"])
def test_a_sheet_is_cut_into_blocks_without_a_trace(tables, monkeypatch, size, records):
    expected = tables(sheet(records))
    monkeypatch.setattr(content, "BLOCK", size)
    assert tables(sheet(records)) == expected


def test_a_cell_that_is_no_number_spoils_no_other(tables):
    odd = [STEP, {**STEP, "commit_len": "n/a"}, {**STEP, "commit_len": "-"}, STEP]
    none = [STEP, {**STEP, "commit_len": None}, {**STEP, "commit_len": None}, STEP]
    assert tables(sheet(odd)) == tables(lines(none), "trace.jsonl")


def test_rows_that_are_too_short_or_too_long_are_read(tables):
    text = sheet([{"step": n, "commit_len": 2, "verify_ms": 9.5} for n in range(4)])
    ragged = text + "4,3\n5,3,9.5,7,8\n"
    assert len(tables(ragged)["step"]) == 6


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,cpu,mem\n" + "2026-05-21T08:30:00Z,1,2\n" * 20,
        '"Time","gpu util","latency_ms"\n' + "1,2,3\n" * 20,
        "name,count\naccepted_depth,3\ncommit_len,4\n",
        "Hello\nthere was a log.\n", "a,b\n", "a,b\n\n\n", ",,\n1,2,3\n", "1,2\n3,4\n",
    ],
)  # fmt: skip
def test_a_sheet_of_something_else_is_not_read(tmp_path, load, text):
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert [one.what for one in load(path).notices] == ["no parser knows this file"]


@pytest.mark.parametrize(
    "text",
    [
        'step,commit_len\n1,2\n"2,3\n' + "3,4\n" * 9, "step,commit_len\n1,2\n\0\0\n3,\xff\n",
        "step,commit_len\n1," + "[" * 100_000 + "\n2,3\n", "step,commit_len,step\n1,2,3\n",
        "step,commit_len,step.a,commit_len.b\n1,2,3,4\n", 'step,commit_len\n1,"{\'a\': {1, 2}}"\n',
        "step,commit_len\n1,2\r2,3\r", "step,commit_len\n1,[1 2 3]\n2,[1,,2]\n3,{}\n4,[NaN]\n",
    ],
)  # fmt: skip
def test_a_broken_sheet_is_no_crash_and_gives_no_row_that_it_has_not(tables, text):
    assert len(tables(text)["step"]) <= text.count("\n") + text.count("\r")


def test_a_quote_that_nothing_closes_does_not_hold_the_file_in_memory(monkeypatch):
    monkeypatch.setattr(sheets, "LARGEST", 100)
    blocks = [content.Block(b'"' + b"1,2\n" * 9, 1), *[content.Block(b"1,2\n" * 9, 1)] * 9]
    assert max(len(one.data) for one in sheets.whole(iter(blocks))) < 200
