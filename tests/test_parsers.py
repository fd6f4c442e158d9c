"""Every parser reads its own samples, and the same line is read the same however it is wrapped."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import bundled, content, definition, diagnosis, parser, recognition, source, store
from specdiag.errors import SpecdiagError
from specdiag.recognition import Head

PATHS = sorted((Path(__file__).parents[1] / "parsers").glob("*.toml"))
PARSERS = [definition.load(path) for path in PATHS]
EVENTS = [(one, event) for one in PARSERS for event in one.events]
EMPTY = store.open_empty()
TABLES = {
    table: {name for name, *_ in EMPTY.execute(f"DESCRIBE {table}").fetchall()}
    for (table,) in EMPTY.execute("SHOW TABLES").fetchall()
}
PLACED = {"arm", "life", "line"}  # what a row is placed by, and then no longer has

each_parser = pytest.mark.parametrize("one", PARSERS, ids=lambda one: one.name)
each_event = pytest.mark.parametrize(
    ("one", "event"), EVENTS, ids=[f"{one.name}-{event.title}" for one, event in EVENTS]
)


def rows(parsed, table):
    return [row for frame in parsed.frames.get(table, []) for row in frame.to_dicts()]


def named(name):
    return next(one for one in PARSERS if one.name == name)


def text_of(one):
    return "".join(
        sample.text.strip("\n") + "\n" for event in one.events for sample in event.samples
    )


# Definitions -------------------------------------------------------------------------------------


@each_event
def test_a_sample_is_read_with_its_values(one, event):
    assert event.samples, "no sample shows what this event reads"
    for sample in event.samples:
        parsed = parser.read(one, sample.text.encode() + b"\n", 1, "")
        found = rows(parsed, event.table)
        assert any(sample.gives.items() <= row.items() for row in found), (sample.text, found)
        assert not parsed.strangers


@each_event
def test_fills_columns_that_exist(one, event):
    known = TABLES[event.table] | PLACED
    filled = {*event.constants, *event.needs, *event.any, *(kept.column for kept in event.rest)}
    if event.style != "arguments":  # there, fields rename keys
        filled |= {field.column for field in event.fields}
    assert filled <= known
    for sample in event.samples:
        assert set(sample.gives) <= known
        parsed = parser.read(one, sample.text.encode() + b"\n", 1, "")
        for table, frames in parsed.frames.items():
            for frame in frames:
                assert set(frame.columns) <= TABLES[table] | PLACED, table


@each_parser
def test_recognises_its_own_samples(one):
    found, best = recognition.choose(PARSERS, Head.of(text_of(one).encode()))
    assert found is not None and found.name == one.name
    assert [other.name for other in best] == [one.name]


@each_parser
def test_says_what_it_is(one):
    assert one.title and not one.title.endswith(".")
    assert all(event.title and not event.title.endswith(".") for event in one.events)


@each_parser
def test_all_its_samples_together_are_read(one):
    parsed = parser.read(one, text_of(one).encode(), 1, "")
    assert not parsed.strangers and not parsed.refused
    assert {event.table for event in one.events} == set(parsed.frames)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('table = "decode"', 'tabel = "decode"'), "no key 'table'"),
        (('["int"', '["number"'), "type 'number' of field 'running' is none of"),
        (("'x=([0-9]+)'", "'x=([0-9]+'"), "parser definition is wrong"),
        (('title = "x"', "title = x"), "parser definition cannot be read"),
        (('style = "fields"', 'style = "guess"'), "style 'guess' is none of"),
    ],
)
def test_a_broken_definition_is_named(tmp_path, change, message):
    text = (
        'title = "x"\nformat = "lines"\nrecognise = ["^x="]\n[[event]]\ntable = "decode"\n'
        'title = "x"\nstyle = "fields"\nhas = "x="\n[event.fields]\n'
        "running = [\"int\", 'x=([0-9]+)']\n"
    )
    path = tmp_path / "broken.toml"
    path.write_text(text)
    assert definition.load(path).name == "broken"
    path.write_text(text.replace(*change))
    with pytest.raises(SpecdiagError, match=message) as caught:
        definition.load(path)
    assert caught.value.where == str(path)


def test_a_definition_takes_events_from_another_file(tmp_path):
    """In their place: the first event that fits a line wins."""
    event = '[[event]]\ntable = "event"\ntitle = "x"\nhas = "x="\nset = {{ kind = "{}" }}\n'
    (tmp_path / "more.toml").write_text(event.format("first") + event.format("second"))
    path = tmp_path / "mine.toml"
    head = 'title = "x"\nformat = "lines"\nrecognise = ["^x="]\n'
    include = '[[event]]\ninclude = "more.toml"\n'
    path.write_text(head + event.format("before") + include + event.format("after"))
    kinds = [one.constants["kind"] for one in definition.load(path).events]
    assert kinds == ["before", "first", "second", "after"]
    path.write_text(head + include.replace("more", "none"))
    with pytest.raises(SpecdiagError, match=r"definition is wrong: .*none\.toml"):
        definition.load(path)


@pytest.mark.parametrize(
    "path", sorted((PATHS[0].parent / "shared").glob("*")), ids=lambda p: p.stem
)
def test_shared_events_are_shared(path):
    """By several parsers, or they had a place of their own."""
    asked = f'include = "shared/{path.name}"'
    assert sum(asked in one.read_text(encoding="utf-8") for one in PATHS) > 1


# Unknown labels ----------------------------------------------------------------------------------

SERVER = (
    "[2026-03-14 10:20:00] server_args=ServerArgs(model_path='a/target', page_size=1, "
    "speculative_algorithm='EAGLE3', speculative_num_draft_tokens=4, decode_log_interval=40)"
)
DECODE = (
    "[2026-03-14 10:21:07] Decode batch, #running-req: 2, #token: 640, token usage: 0.01, "
    "accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 100.25, "
    "#queue-req: 3"
)


def read(text, name="sglang_server"):
    return parser.read(named(name), text.encode() + b"\n", 1, "")


@pytest.mark.parametrize("place", [", #queue-req", ", accept len", " #running-req"])
def test_an_unknown_label_is_kept_and_counted(tmp_path, load, place):
    text = DECODE.replace(
        place, f"{', ' if place[0] == ',' else ' '}moon phase: 0.25, {place.lstrip(', ')}"
    )
    log = tmp_path / "server.log"
    log.write_text(f"{DECODE}\n{text}\n{text}\n")
    filled = load(log)
    assert filled.rows('SELECT "table", name, lines FROM unread') == [
        {"table": "decode", "name": "moon phase", "lines": 2}
    ]
    first, second, third = filled.rows(
        "SELECT * EXCLUDE (line, idle, usable, steady) FROM decode ORDER BY line"
    )
    assert json.loads(second.pop("extra")) == {"moon phase": "0.25"}
    assert first.pop("extra") is None and third.pop("extra")
    assert first == second == third
    assert [notice.what for notice in filled.notices] == [
        "field 'moon phase' of table decode not understood in 2 lines"
    ]


def test_an_unknown_label_is_kept_in_lines_of_many_shapes():
    """More shapes than are learned: what is read label by label loses nothing either."""
    texts = [DECODE + f", label {n}: {n}" for n in range(40)]
    parsed = read("\n".join(texts))
    found = rows(parsed, "decode")
    assert sorted(row["line"] for row in found) == list(range(1, 41))
    assert {row["tokens_per_s"] for row in found} == {100.25}
    kept = [json.loads(row["extra"]) for row in found if row["extra"]]
    given = [{name: value for name, value in one.items() if value is not None} for one in kept]
    assert sorted(map(str, given)) == sorted(str({f"label {n}": str(n)}) for n in range(40))
    assert sum(parsed.unread.values()) == 40


def test_a_line_with_a_counter_keeps_it_in_any_shape():
    texts = [
        DECODE.replace("batch,", f"batch [{n}],") + "".join(f", l{k}: 1" for k in range(n))
        for n in range(20)
    ]
    found = rows(read("\n".join(texts)), "decode")
    assert {row["line"]: row["iteration"] for row in found} == {n + 1: str(n) for n in range(20)}


def test_records_of_pairs_that_share_a_line_are_kept_apart():
    line = "[2026-03-14 10:21:07] DDTREE metrics: commit_len={}"
    found = rows(read(line.format(2) + line.format(3)), "acceptance")
    assert [row["commit_len"] for row in found] == [2.0, 3.0]


def test_a_label_of_a_block_is_left_out_by_its_form():
    block = (
        "= Serving Benchmark Result =\nP99.9 TPOT (ms): 8.4\n  Position 12: 1.2\nmoon: full\n"
        + "=" * 50
    )
    assert read(block, "bench_serving_text").unread == {("benchmark", "moon"): 1}


def test_an_unknown_pair_is_kept():
    (row,) = rows(
        read("[2026-03-14 10:21:07] DDTREE metrics: commit_len=2 moon=full"), "acceptance"
    )
    assert row["commit_len"] == 2.0 and json.loads(row["extra"]) == {"moon": "full"}


def test_an_unknown_key_is_kept_and_counted():
    parsed = read('{"step": 1, "commit_len": 2, "verify_ms": 3, "moon": "full"}', "flat_steps")
    (row,) = rows(parsed, "step")
    assert json.loads(row["extra"]) == {"moon": "full"}
    assert parsed.unread == {("step", "moon"): 1}


def test_a_line_that_nothing_knows_is_counted_and_named():
    parsed = read(f"{DECODE}\nmoonshine\n{DECODE}")
    assert (parsed.lines, parsed.understood) == (3, 2)
    assert parsed.strangers == [(2, "moonshine")]


# Wrappers, encodings, prefixes -------------------------------------------------------------------

DECODES = [
    re.sub(r":07\]", f":{n:02}]", DECODE).replace("#token: 640", f"#token: {640 + 80 * n}")
    for n in range(7, 13)
]
LOG = [SERVER, *DECODES]

WRAPPERS = {
    "none": "{}",
    "docker compose": "sglang-1  | {}",
    "docker compose in colour": "\x1b[36msglang-1  | \x1b[0m{}",
    "pm2": "3|sglang  | {}",
    "cri": "2026-03-14T10:21:07.123456789Z stdout F {}",
    "journald": "Mar 14 10:21:07 gpu-7 sglang[4711]: {}",
    "journald iso": "2026-03-14T10:21:07+00:00 gpu-7 sglang[4711]: {}",
    "docker timestamps": "2026-03-14T10:21:07.123456789Z {}",
    "kubectl": "[pod/server-0/main] {}",
    "kubectl timestamps": "[pod/server-0/main] 2026-03-14T10:21:07.123456789Z {}",
    "kibana": "Mar 14, 2026 @ 10:21:07.123\t{}",
    "srun": "0: {}",
    "torchrun": "[rank0]: {}",
    "ray": "(Scheduler pid=4711, ip=10.0.0.7) {}",
    "ray in colour": "\x1b[36m(SGLangEngine2 pid=4711)\x1b[0m {}",
    "ray pasted from a terminal": "[36m(Scheduler pid=4711, ip=10.0.0.7)[0m {}",
    "ray serve": "(ServeReplica:default:LLMServer pid=4711, ip=10.0.0.7) {}",
    "quote": "> {}",
    "quote of HTML": "&gt; {}",
    "colour": "\x1b[32m{}\x1b[0m",
    "indented": "    {}",
}


def exported(text, **record):
    """Every line as the record that a collector makes of it."""
    form = json.dumps(record)
    return "".join(
        form.replace("{}", json.dumps(line)[1:-1]) + "\n" for line in text.splitlines()
    ).encode()


ENCODINGS = {
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "bom": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "utf-16-le": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "utf-16-be": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "gzip": lambda text: gzip.compress(text.encode()),
    "gzip twice": lambda text: gzip.compress(text[:800].encode()) + gzip.compress(text[800:].encode()),
    "zstd": lambda text: zstandard.ZstdCompressor().compress(text.encode()),
    "bzip2": lambda text: bz2.compress(text.encode()),
    "xz": lambda text: lzma.compress(text.encode()),
    "no last line end": lambda text: text.rstrip("\n").encode(),
    "empty lines": lambda text: text.replace("\n", "\n\n").encode(),
    "zero bytes": lambda text: b"\0" * 64 + text.encode(),
    "docker json-file": lambda text: exported(text, log="{}\n", stream="stdout", time="2026-03-14T10:21:07Z"),
    "fluent bit": lambda text: exported(text, stream="stderr", log="{}\n", kubernetes={"pod_name": "a"}),
    "cloud logging": lambda text: exported(text, insertId="x", resource={"type": "pod"}, textPayload="{}"),
    "cloud logging of a logger": lambda text: exported(text, jsonPayload={"message": "{}", "level": "info"}),
    "journald json": lambda text: exported(text, __CURSOR="s=1", MESSAGE="{}", _PID="4711"),
    "journald json with colours": lambda text: "".join(
        json.dumps({"MESSAGE": list(f"\x1b[32m{line}\x1b[0m".encode()), "_PID": "4711"}) + "\n"
        for line in text.splitlines()
    ).encode(),
    "a logger's json": lambda text: exported(text, level="info", message="{}"),
    "elastic": lambda text: exported(text, **{"@timestamp": "2026-03-14T10:21:07Z", "@message": "{}"}),
    "several lines a record": lambda text: (json.dumps({"message": text}) + "\n").encode(),
}  # fmt: skip
QUERY = "SELECT * EXCLUDE (run, source, line) FROM decode WHERE source = ? ORDER BY tokens, time"


def log_of(lines, wrapper="{}"):
    return "".join(wrapper.replace("{}", line) + "\n" for line in lines)


VLLM = [
    f"(APIServer pid=71) INFO 07-20 09:21:{n:02} [loggers.py:271] Engine 000: "
    f"Avg prompt throughput: 25.5 tokens/s, Avg generation throughput: {600 + n}.5 tokens/s, "
    "Running: 6 reqs, Waiting: 2 reqs, GPU KV cache usage: 12.5%, Prefix cache hit rate: 40.0%"
    for n in range(5)
]
VARIANTS = {
    "plain": log_of(LOG).encode(),
    "plain vllm": log_of(VLLM).encode(),
    **{f"sglang {name}": log_of(LOG, wrapper).encode() for name, wrapper in WRAPPERS.items()},
    **{f"vllm {name}": log_of(VLLM, wrapper).encode() for name, wrapper in WRAPPERS.items()},
    **{f"encoded {name}": encode(log_of(LOG)) for name, encode in ENCODINGS.items()},
}


def test_records_that_a_format_knows_are_not_opened():
    record = {"message": DECODE, "id": "c1", "usage": {"prompt_tokens": 9, "completion_tokens": 7}}
    form, _ = recognition.look(PARSERS, (json.dumps(record) + "\n").encode() * 3)
    assert (form.parser.name, form.inside) == ("requests", "")


def read_all(folder, logs, parsers=PARSERS):
    """The decode rows of each of some logs, which are read together but are runs of their own."""
    files = []
    for data in logs.values():
        path = folder / str(len(files)) / "server.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        files.append(source.Source(str(path), path))
    filled = diagnosis.fill(files, parsers)
    return {name: filled.rows(QUERY, [number]) for number, name in enumerate(logs)}


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    return read_all(tmp_path_factory.mktemp("variants"), VARIANTS)


@pytest.fixture
def plain(variants):
    """The rows of LOG."""
    return variants["plain"]


@pytest.fixture
def decoded(tmp_path):
    """The decode rows of one log."""
    return lambda text: read_all(tmp_path, {"": text.encode()})[""]


def test_the_plain_log_is_read(variants):
    assert [row["tokens"] for row in variants["plain"]] == [640 + 80 * n for n in range(7, 13)]
    assert [row["tokens_per_s"] for row in variants["plain vllm"]] == [600.5 + n for n in range(5)]
    assert all(row["complete"] for name in ("plain", "plain vllm") for row in variants[name])


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapped_line_is_read_the_same(variants, plain, name):
    assert variants[f"sglang {name}"] == plain


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoded_log_is_read_the_same(variants, plain, name):
    assert variants[f"encoded {name}"] == plain


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapped_log_of_vllm_is_read_the_same(variants, name):
    assert variants[f"vllm {name}"] == variants["plain vllm"]


@pytest.mark.parametrize("server", ["sglang", "vllm"])
@pytest.mark.parametrize("name", WRAPPERS)
def test_nothing_is_left_of_a_wrapper(server, name):
    data = VARIANTS[f"{server} {name}"]
    form, _ = recognition.look(PARSERS, data)
    parsed = parser.read(form.parser, data, 1, form.wrapper, form.inside)
    assert parsed.strangers == []


@pytest.mark.parametrize("wrapper", ["{}", "2026-08-13T08:33:29.1Z {}", "\x1b[2m{}\x1b[0m"])
@pytest.mark.parametrize("lines", [DECODES, VLLM], ids=["sglang", "vllm"])
def test_a_log_of_dynamo_keeps_its_times(decoded, lines, wrapper):
    """Dynamo puts a time of its own before a message, in the form of a collector's."""
    messages = [re.sub(r"^.*?\] ", "", line) for line in lines]
    placed = [f"2026-08-13T08:33:{n:02}.5Z  INFO loggers.log: {m}" for n, m in enumerate(messages)]
    found = decoded(log_of(placed, wrapper))
    assert [row["time"].second for row in found] == list(range(len(lines)))
    assert all(row["complete"] for row in found)


@pytest.mark.parametrize(
    ("ranks", "rank"),
    [
        ("", None),
        (" TP0", "TP0"),
        (" DP1 TP0", "DP1 TP0"),
        (" TP0 DP1", "TP0 DP1"),
        (" DP1 TP3 EP3", "DP1 TP3 EP3"),
        (" PP0 DP0 TP2", "PP0 DP0 TP2"),
    ],
)
def test_ranks_stand_in_any_order(decoded, plain, ranks, rank):
    ranked = decoded(log_of(line.replace("]", f"{ranks}]", 1) for line in LOG))
    assert ranked == [row | {"rank": rank} for row in plain]


def test_milliseconds_are_read(decoded, plain):
    found = decoded(log_of(re.sub(r"(:\d\d)\]", r"\1.250]", line, count=1) for line in LOG))
    assert [row["time"] for row in found] == [
        row["time"] + timedelta(milliseconds=250) for row in plain
    ]
    assert [row | {"time": None} for row in found] == [row | {"time": None} for row in plain]


def test_a_line_without_its_prefix_is_read(decoded, plain):
    found = decoded(log_of([SERVER, *(line.partition("] ")[2] for line in DECODES)]))
    assert found == [row | {"time": None} for row in plain]


def test_two_records_in_a_line_are_two(decoded, plain):
    glued = [SERVER, DECODES[0] + DECODES[1], *DECODES[2:]]
    assert decoded(log_of(glued)) == plain


def test_a_record_after_a_progress_bar_is_read(decoded, plain):
    bar = "Capturing batches:  50%|#####     | 4/8 [00:03<00:03,  1.2it/s]"
    glued = [SERVER, f"{bar}\r{bar}{DECODES[0]}", *DECODES[1:]]
    assert decoded(log_of(glued)) == plain


def test_a_torn_line_is_marked_and_keeps_what_it_has(decoded):
    torn = DECODES[-1][: DECODES[-1].index("accept len")]
    found = decoded(log_of([*LOG, torn]))
    assert [row["complete"] for row in found].count(False) == 1
    (row,) = (row for row in found if not row["complete"])
    assert (row["running"], row["tokens"], row["accept_len"], row["usable"]) == (
        2,
        1600,
        None,
        False,
    )


@pytest.mark.parametrize("size", [64, 300, 1000])
def test_a_file_is_cut_into_blocks_without_a_trace(decoded, plain, monkeypatch, size):
    monkeypatch.setattr(content, "BLOCK", size)
    assert decoded(log_of(LOG)) == plain


# Sums --------------------------------------------------------------------------------------------

START = datetime(2026, 3, 14, 10, 21, 7)
DIALECTS = {
    "0.4.0": "Decode batch. #running-req: {running}, #token: {tokens}, token usage: {usage:.2f}, "
    "gen throughput (token/s): {tokens_per_s:.2f}, #queue-req: {queued}",
    "0.4.3": "Decode batch. #running-req: {running}, #token: {tokens}, token usage: {usage:.2f}, "
    "accept len: {accept_len:.2f}, gen throughput (token/s): {tokens_per_s:.2f}, "
    "largest-len: {largest_len}, #queue-req: {queued}, ",
    "0.5.3": "Decode batch. #running-req: {running}, #token: {tokens}, token usage: {usage:.2f}, "
    "accept len: {accept_len:.2f}, accept rate: {accept_rate:.2f}, cuda graph: {graph}, "
    "gen throughput (token/s): {tokens_per_s:.2f}, #queue-req: {queued}, ",
    "0.5.9 hybrid": "Decode batch, #running-req: {running}, #full token: {tokens}, "
    "full token usage: {usage:.2f}, mamba num: {state_slots}, mamba usage: 0.06, "
    "accept len: {accept_len:.2f}, accept rate: {accept_rate:.2f}, cuda graph: {graph}, "
    "gen throughput (token/s): {tokens_per_s:.2f}, #queue-req: {queued}",
    "0.5.9 separated": "Decode batch [{iteration}], #running-req: {running}, #token: {tokens}, "
    "token usage: {usage:.2f}, accept len: {accept_len:.2f}, accept rate: {accept_rate:.2f}, "
    "pre-allocated usage: 0.01, #prealloc-req: 0, #transfer-req: 1, #retracted-req: 0, "
    "cuda graph: {graph}, gen throughput (token/s): {tokens_per_s:.2f}, #queue-req: {queued}",
    "another order": "Decode batch, #queue-req: {queued}, gen throughput (token/s): {tokens_per_s:.2f}, "
    "npu graph: {graph}, #token: {tokens}, accept len: {accept_len:.2f}, #running-req: {running}",
    "with more": "Decode batch, #running-req: {running}, #token: {tokens}, token usage: {usage:.2f}, "
    "accept len: {accept_len:.2f}, accept rate: {accept_rate:.2f}, moon phase: 0.5, "
    "cuda graph: {graph}, gen throughput (token/s): {tokens_per_s:.2f}, #queue-req: {queued}",
}
COLUMNS = (
    "running", "tokens", "usage", "accept_len", "accept_rate", "graph", "tokens_per_s", "queued",
    "state_slots", "largest_len", "iteration",
)  # fmt: skip


def written(rng, n):
    """What a decode line says, and the line."""
    dialect = rng.choice(sorted(DIALECTS))
    values = {
        "running": rng.randint(1, 64), "tokens": rng.randint(1, 10**6),
        "usage": round(rng.random(), 2), "accept_len": round(rng.uniform(1, 8), 2),
        "accept_rate": round(rng.random(), 2), "graph": rng.random() < 0.5,
        "tokens_per_s": round(rng.uniform(1, 10**4), 2), "queued": rng.randint(0, 99),
        "state_slots": rng.randint(0, 99), "largest_len": rng.randint(1, 10**5),
        "iteration": str(rng.randint(1, 10**6)),
    }  # fmt: skip
    text = DIALECTS[dialect].format(**values)
    said = {name: values[name] for name in COLUMNS if "{" + name in DIALECTS[dialect]}
    rank = rng.choice(["", " TP0", " DP1 TP0"])
    return f"[{START + timedelta(seconds=n)}{rank}] {text}", said


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_exactly_what_was_written(tmp_path, load, seed):
    rng = random.Random(seed)
    lines = [written(rng, n) for n in range(500)]
    log = tmp_path / "server.log"
    log.write_text("".join(text + "\n" for text, _ in lines))
    filled = load(log)
    found = filled.rows("SELECT * FROM decode ORDER BY line")
    assert [row["line"] for row in found] == list(range(1, 501))
    assert all(row["complete"] for row in found)
    for column in COLUMNS:
        said = [values.get(column) for _, values in lines]
        assert [row[column] for row in found] == said, column
        if column not in ("graph", "iteration"):
            (total,) = filled.rows(f"SELECT sum({column}::DECIMAL(18, 2)) AS sum FROM decode")
            assert float(total["sum"]) == pytest.approx(
                sum(v for v in said if v is not None), abs=1e-6
            )
    more = sum("moon phase" in text for text, _ in lines)
    assert filled.rows("SELECT name, lines FROM unread") == [{"name": "moon phase", "lines": more}]


# Which definition of `accept rate` a release prints ------------------------------------------------


def rated(formula, pairs, width=None):
    """A log whose lines have these accept lengths and the rate that a release makes of them."""
    server = SERVER.replace(
        "speculative_num_draft_tokens=4", f"speculative_num_draft_tokens={width}"
    )
    lines = [
        DECODES[0].replace("accept len: 2.50", f"accept len: {length:.2f}")
        .replace("accept rate: 0.50", f"accept rate: {formula(length):.2f}")
        .replace("#token: 640", f"#token: {640 + n}")
        for n, length in enumerate(pairs)
    ]  # fmt: skip
    return log_of(
        [server if width else SERVER.replace("speculative_num_draft_tokens=4, ", ""), *lines]
    )


LENGTHS = [round(1.1 + 0.07 * n, 2) for n in range(40)]
DEFINITIONS = {
    # release: (accept rate of an accept length, with steps = 3 and N draft tokens; name)
    "0.5.3, N = steps + 1": (lambda length: length / 4, 4, "commit_per_proposed"),
    "0.5.5, N draft tokens": (lambda length: length / 16, 16, "commit_per_proposed"),
    "0.5.11, N - 1 proposed": (lambda length: (length - 1) / 15, 16, "drafts_per_proposed"),
    "0.5.11, a short chain": (lambda length: (length - 1) / 3, 4, "drafts_per_proposed"),
}


@pytest.mark.parametrize("release", DEFINITIONS)
@pytest.mark.parametrize("told", [True, False], ids=["width told", "width not told"])
def test_the_definition_of_the_accept_rate_is_seen(tmp_path, load, release, told):
    formula, width, name = DEFINITIONS[release]
    log = tmp_path / "server.log"
    log.write_text(rated(formula, LENGTHS, width if told else None))
    (run,) = load(log).rows("SELECT rate_formula, draft_tokens FROM run")
    assert run["rate_formula"] == name
    assert run["draft_tokens"] == (width if told else None)


def test_a_rate_that_follows_no_definition_is_not_named(tmp_path, load):
    log = tmp_path / "server.log"
    log.write_text(rated(lambda length: 0.9 - length / 10, LENGTHS, 4))
    assert load(log).rows("SELECT rate_formula FROM run") == [{"rate_formula": None}]


# Whatever else is in the log -----------------------------------------------------------------------

NOISE = st.one_of(
    st.sampled_from([
        '[2026-03-14 10:21:07] INFO:     10.0.0.5:44782 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.9it/s]",
        "Capturing batches (bs=8):  38%|###8      | 3/8 [00:02<00:03,  1.41it/s]\r",
        "Traceback (most recent call last):",
        '  File "/opt/server/scheduler.py", line 10, in run',
        "/usr/lib/python3.11/site.py:3: UserWarning: old",
        "[W314 10:21:07.1 ProcessGroup.cpp:1] Warning: something",
        "[2026-03-14 10:21:07 TP0] A record that says nothing",
        "{\"an\": \"object\"}", "[]", "", "    ", "\t", "[20", "[2026-03-14 10:21",
        "batch", "#running-req: 7", "0: 1: 2:", "> > >", "\x1b[31m\x1b[0m", "\ufeff",
    ]),
    st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=60),
)  # fmt: skip
VARIANT = st.tuples(
    st.lists(st.tuples(st.integers(0, len(LOG)), NOISE), max_size=3),
    st.sampled_from(sorted(WRAPPERS.values())),
)


@settings(max_examples=15)
@given(several=st.lists(VARIANT, min_size=8, max_size=8))
def test_noise_and_wrappers_change_no_row(tmp_path, plain, several):
    logs = {}
    for number, (noise, wrapper) in enumerate(several):
        lines = list(LOG)
        for place, text in noise:
            lines.insert(place, text)
        logs[number] = log_of(lines, wrapper).encode()
    for number, found in read_all(tmp_path, logs).items():
        assert found == plain, logs[number].decode()


def test_the_folder_of_parsers_is_the_one_that_is_used():
    assert {path.parent for path in PATHS} == {bundled.PARSERS}


@each_parser
def test_the_patterns_of_a_bundled_parser_compile(one):
    assert definition.check(one) is None  # it raises for a broken one; not called at every start
