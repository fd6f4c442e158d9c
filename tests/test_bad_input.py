"""Every input is hostile until it is parsed: what is bad is named, all the rest is analysed.

A mistake in the input ends in a warning, a mistake of the user in an error: three lines that say
what, where, and what to do. A traceback is always our fault.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import content, definition, diagnosis, reading, rule, source, unpack
from specdiag.diagnosis import Diagnosis
from specdiag.errors import NOTHING_READ, Notice, SpecdiagError
from specdiag.parser import Parser
from specdiag.rule import Rule
from specdiag.store import Store

LINE = (
    "[2026-04-02 09:11:00] DDTREE metrics: avg_accepted_depth=7.00 avg_accepted_drafts=2.00 "
    "avg_commit_len=2.00 budget=7\n"
)
STEP = json.dumps({"step": 1, "accepted_depth": 7, "commit_len": 2, "ctx_len": 100}) + "\n"
SICK = "depth_contradicts_commit"  # what LINE is evidence of
HEADER = '-- title = "t"\n-- severity = "low"\n-- needs = {}\n-- why = "w"\n-- fix = ["f"]\n'
FORMAT = 'title = "t"\nformat = "lines"\nrecognise = ["HELLO"]\n'
EVENT = '[[event]]\ntable = "step"\ntitle = "x"\nhas = "HELLO"\n'

# A rule that quotes the first rows it sees, so that a test can tell what was read from where.
WITNESS = """
SELECT run, count(*) || ' rows' AS message, list_sort(list(cite(source, line))) AS lines
FROM (SELECT run, source, line FROM acceptance UNION ALL SELECT run, source, line FROM step)
GROUP BY run
"""

Definitions = tuple[list[Parser], list[Rule]]
Command = Callable[..., Any]


@cache
def bundled() -> Definitions:
    parsers, rules, _ = diagnosis.definitions([], [])
    return parsers, rules


@cache
def witness() -> Rule:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "witness.sql")
        path.write_text(HEADER + WITNESS)
        return rule.load(path)


def analyze(
    *paths: object, more_rules: tuple[Rule, ...] = (), more_parsers: tuple[Parser, ...] = ()
) -> Diagnosis:
    """Files with the one rule that quotes them: quick."""
    files = source.find([str(path) for path in paths])
    parsers = [*bundled()[0], *more_parsers]
    found, _ = diagnosis.analyze(files, parsers, [witness(), *more_rules], {})
    return found


def analyze_all(path: Path) -> Diagnosis:
    """A file with every bundled rule."""
    found, _ = diagnosis.analyze(source.find([str(path)]), *bundled(), {})
    return found


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A log beside the bad one."""
    folder = tmp_path / "beside"
    folder.mkdir()
    log = folder / "good.log"
    log.write_text(LINE * 3)
    return log


def evidence(found: Diagnosis) -> list[tuple[int, str]]:
    """The first lines that gave rows, as a report quotes them."""
    return [
        (proof.line, proof.text)
        for finding in found.findings
        if finding.rule.name == "witness"
        for proof in finding.evidence
    ]


def said(found: Diagnosis) -> list[str]:
    return [notice.what for notice in found.notices]


def three_lines(text: str) -> bool:
    """Whether errors and warnings consist of what, where and help, and nothing else."""
    lines = text.strip().splitlines()
    return len(lines) % 3 == 0 and all(
        what.startswith(("error: ", "warning: "))
        and where.startswith(" --> ")
        and help.startswith("help: ")
        for what, where, help in zip(lines[::3], lines[1::3], lines[2::3], strict=True)
    )


# What cannot be read at all


def bad_files(folder: Path) -> dict[str, str]:
    """One file of every kind that cannot be read, and a word of what is said of it."""
    (folder / "empty.log").write_bytes(b"")
    (folder / "blank.log").write_bytes(b"\n \n\0\0\n")
    (folder / "binary.bin").write_bytes(random.Random(1).randbytes(5000))
    (folder / "prose.txt").write_text("Dear reader,\nthis is no log.\n")
    (folder / "broken.parquet").write_bytes(b"PAR1" + b"\xff" * 100)
    (folder / "cut.log.gz").write_bytes(gzip.compress(LINE.encode())[:10])
    (folder / "cut.log.zst").write_bytes(zstandard.compress(LINE.encode())[:12])
    (folder / "later.jsonl").write_text('{"record":"step","schema":2,"step":1}\n')
    (folder / "gone.log").symlink_to("nowhere")
    (folder / "self.log").symlink_to("self.log")
    os.mkfifo(folder / "pipe.log")
    return {
        "empty.log": "empty",
        "blank.log": "empty",
        "binary.bin": "binary",
        "prose.txt": "no parser",
        "broken.parquet": "Parquet",
        "cut.log.gz": "ended before",
        "cut.log.zst": "ended before",
        "later.jsonl": "version 2 is newer",
        "gone.log": "no such file",
        "self.log": "symbolic links",
        "pipe.log": "a pipe",
    }


def test_whatever_cannot_be_read_is_named_and_the_rest_is_analysed(
    tmp_path: Path, good: Path, specdiag: Command
) -> None:
    folder = tmp_path / "bad"
    folder.mkdir()
    expected = bad_files(folder)
    answer = specdiag("analyze", "--no-html", folder, good)
    assert answer.code == 0
    assert SICK in answer.out
    assert three_lines(answer.err)
    blocks = answer.err.strip().split("warning: ")[1:]
    found = {Path(block.splitlines()[1].split(" --> ")[1]).name: block for block in blocks}
    assert len(blocks) == len(found) == len(expected)
    for name, word in expected.items():
        assert word in found[name].splitlines()[0]


@pytest.mark.parametrize("name", ["empty.log", "binary.bin", "gone.log", "pipe.log", "cut.log.gz"])
def test_nothing_but_a_bad_file_is_an_error_of_three_lines(
    tmp_path: Path, name: str, specdiag: Command
) -> None:
    bad_files(tmp_path)
    (tmp_path / "only").mkdir()
    (tmp_path / name).rename(tmp_path / "only" / name)
    answer = specdiag("check", tmp_path / "only")
    assert answer.code == NOTHING_READ
    assert three_lines(answer.err) and name in answer.err


def test_results_of_specdiag_itself_are_no_evidence(
    tmp_path: Path, good: Path, specdiag: Command
) -> None:
    own = '{"schema": 1, "specdiag": "0.1.0", "arms": [], "runs": [], "findings": []}'
    (tmp_path / "bench.json").write_text(own)
    answer = specdiag("check", good, tmp_path / "bench.json")
    assert answer.err == "" and "run good" in answer.out
    answer = specdiag("check", tmp_path / "bench.json")
    assert answer.code == NOTHING_READ and three_lines(answer.err) and "bench.json" in answer.err


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specdiag", *map(str, arguments)],
        capture_output=True, text=True, timeout=60, **options,
    )  # fmt: skip


def test_the_real_command_exits_with_2_for_a_path_that_does_not_exist(tmp_path: Path) -> None:
    done = run("analyze", "--no-html", tmp_path / "gone.log")
    assert done.returncode == 2
    assert done.stdout == ""
    assert three_lines(done.stderr) and "gone.log" in done.stderr


def test_the_real_command_reads_a_pipe_and_exits_with_1_for_its_findings(tmp_path: Path) -> None:
    done = run("check", "-", input=LINE * 3, cwd=tmp_path)
    assert done.returncode == 1
    assert "<stdin>:1" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_exits_with_3(tmp_path: Path, specdiag: Command) -> None:
    answer = specdiag("analyze", tmp_path)
    assert answer.code == NOTHING_READ
    assert three_lines(answer.err)


def test_a_file_without_permission_is_named(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything, so the refusal is played."""
    closed = tmp_path / "closed.log"
    closed.write_text(LINE)

    def refuse(path: Path, *rest: str) -> Any:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied")
        return open(path, *rest)

    monkeypatch.setattr(unpack, "open", refuse, raising=False)
    found = analyze(closed, good)
    assert said(found) == ["not read: permission denied"]
    assert evidence(found)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything; see the test above")
def test_a_file_without_permission_is_named_for_real(tmp_path: Path, good: Path) -> None:
    closed = tmp_path / "closed.log"
    closed.write_text(LINE)
    closed.chmod(0)
    assert said(analyze(closed, good)) == ["not read: permission denied"]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_that_is_not_called_one_is_named_and_not_taken_for_a_log(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "server.log").write_text(LINE)
    packed = shutil.make_archive(str(tmp_path / "logs"), kind, tmp_path, "server.log")
    shutil.move(packed, tmp_path / "logs")
    with pytest.raises(SpecdiagError) as raised:
        analyze(tmp_path / "logs")
    assert (raised.value.what, raised.value.help) == (
        f"this is a {kind} archive", f"unpack it; a whole one called .{kind} is opened"
    )  # fmt: skip


# What can be read in part


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, bz2.compress, lzma.compress])
def test_a_packed_log_that_was_cut_is_analysed_as_far_as_it_goes(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    noise = random.Random(1)
    text = "".join(f"{LINE}noise {noise.random()}\n" for _ in range(20_000)).encode()
    packed = pack(text)
    log = tmp_path / "server.log.gz"
    log.write_bytes(packed[: len(packed) // 2])
    found = analyze(log)
    assert [line for line, _ in evidence(found)] == [1, 3, 5, 7]
    assert "ended before" in said(found)[0]
    assert found.notices[0].help == "what came before it was analysed"


def test_a_bomb_is_stopped_and_what_came_before_is_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "FLOOR", 1 << 20)
    monkeypatch.setattr(content, "BLOCK", 1 << 18)
    bomb = tmp_path / "bomb.log.gz"
    bomb.write_bytes(gzip.compress(LINE.encode() * 3 + bytes(50 << 20)))
    found = analyze(bomb)
    assert evidence(found)
    assert said(found)[-1] == "reading stopped: it unpacks to more than 200 times its size"


def test_a_giant_line_is_named_with_its_number_and_the_lines_after_it_keep_theirs(
    tmp_path: Path,
) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as stream:
        stream.write(LINE.encode())
        stream.seek(200 << 20, os.SEEK_CUR)  # zero bytes that take no room on disk
        stream.write(b"\n" + LINE.encode() * 2)
    found = analyze(log)
    assert evidence(found) == [(n, LINE.rstrip()) for n in (1, 3, 4)]
    assert found.notices == [
        Notice("a line of more than 8 MB is skipped", f"{log}:2", "the lines around it are read")
    ]


def test_a_giant_first_line_does_not_hide_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "LONGEST_LINE", 1 << 20)
    log = tmp_path / "server.log"
    log.write_bytes(b"x" * (2 << 20) + b"\n" + LINE.encode() * 2)
    assert [line for line, _ in evidence(analyze(log))] == [2, 3]


@pytest.mark.parametrize("end", [60, 95])
def test_a_last_line_that_was_cut_is_harmless(tmp_path: Path, end: int) -> None:
    log = tmp_path / "server.log"
    log.write_text(LINE * 2 + LINE[:end])
    assert [line for line, _ in evidence(analyze(log))][:2] == [1, 2]


def test_a_json_line_that_was_cut_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    trace = tmp_path / "steps.jsonl"
    trace.write_text(STEP * 2 + STEP[:30] + "\n" + STEP)
    found = analyze(trace)
    assert [line for line, _ in evidence(found)] == [1, 2, 4]
    assert found.notices[0].what.startswith("1 record is not valid JSON")
    assert found.notices[0].where == f"{trace}:3"
    assert found.runs[0].sources[0]["parsed"] == 0.75


def test_a_log_that_vanishes_while_it_is_read_is_named(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    log.write_text(LINE)
    head = content.head

    def look_and_lose(file: source.Source) -> bytes:
        found = head(file)
        log.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(content, "head", look_and_lose)
    found = analyze(log, good)
    assert said(found) == ["not read: no such file or directory"]
    assert evidence(found)


def test_a_log_that_is_written_or_rotated_while_it_is_read_gives_what_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    log.write_text(LINE * 2 + LINE[:50])
    blocks = content.blocks

    def and_grow(file: source.Source, *rest: Any, **options: Any) -> Any:
        for block in blocks(file, *rest, **options):
            if "size" not in options:  # the real read, not the look at the head
                with log.open("a") as stream:
                    stream.write(LINE[50:] + LINE)
            yield block

    monkeypatch.setattr(content, "blocks", and_grow)
    assert [line for line, _ in evidence(analyze(log))] == [1, 2]

    def and_shrink(file: source.Source, *rest: Any, **options: Any) -> Any:
        for block in blocks(file, *rest, **options):
            if "size" not in options:
                log.write_text("")
            yield block

    log.write_text(LINE * 2)
    monkeypatch.setattr(content, "blocks", and_shrink)
    found = analyze(log)
    assert [finding.message for finding in found.findings] == ["2 rows"]
    assert evidence(found) == []  # the lines are gone; nothing else is quoted in their place


# Bytes that are not plain text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_marked_encodings_are_read_and_quoted(tmp_path: Path, encoding: str) -> None:
    """PowerShell writes UTF-16, Notepad a mark in front."""
    log = tmp_path / "server.log"
    mark = "\ufeff" if encoding[-3:] in ("-le", "-be") else ""
    log.write_bytes((mark + LINE * 2).encode(encoding))
    found = analyze(log)
    assert evidence(found) == [(1, LINE.rstrip()), (2, LINE.rstrip())]
    assert found.notices == []


def test_bytes_that_are_no_utf8_spoil_their_line_only(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(LINE.encode() + b"\xff\xfe caf\xe9 \xc3\n" + LINE.encode())
    found = analyze(log)
    assert [line for line, _ in evidence(found)] == [1, 3]
    assert found.notices[0].where == f"{log}:2"


def test_zero_bytes_of_a_crash_or_a_rotation_are_looked_through(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"\0" * 5000 + LINE.encode() + LINE.replace("budget", "bud\0get").encode())
    found = analyze(log)
    assert [line for line, _ in evidence(found)] == [1, 2]
    assert found.notices == []


def test_windows_line_ends_colours_and_progress_bars_are_looked_through(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    parts = [
        LINE.replace("\n", "\r\n"),
        f"\x1b[32m{LINE.rstrip()}\x1b[0m\n",
        f" 5%|#  |\r10%|## |\r{LINE}",
        LINE,
    ]
    log.write_bytes("".join(parts).encode())
    found = analyze(log)
    assert [line for line, _ in evidence(found)] == [1, 2, 3, 4]
    assert evidence(found)[0][1] == LINE.rstrip()
    assert found.notices == []


def test_two_records_on_one_line_are_two_records(tmp_path: Path, definitions: Definitions) -> None:
    log = tmp_path / "server.log"
    log.write_text(LINE.rstrip() + LINE.replace("budget=7", "budget=8") + LINE)
    filled = diagnosis.fill(source.find([str(log)]), definitions[0])
    rows = filled.rows("SELECT line, budget FROM acceptance ORDER BY ALL")
    assert rows == [
        {"line": 1, "budget": 7},
        {"line": 1, "budget": 8},
        {"line": 2, "budget": 7},
    ]


# Numbers and clocks


@pytest.mark.parametrize("value", ["nan", "-inf", "1e400", "-1", "-9223372036854775808"])
def test_absurd_numbers_in_a_log_are_survived(tmp_path: Path, value: str) -> None:
    """By every rule: sums and differences of them must not overflow."""
    log = tmp_path / "server.log"
    decode = (
        "[2026-05-21 08:30:{:02d}] Decode batch. #running-req: 1, #token: {}, token usage: 0.00, "
        "accept len: {}, accept rate: 0.5, cuda graph: True, gen throughput (token/s): {}, "
        "#queue-req: {}\n"
    )
    log.write_text(
        "".join(decode.format(n, *[value] * 4) for n in range(30))
        + LINE.replace("7.00", value)
        + LINE.replace("budget=7", f"budget={value}")
    )
    found = analyze_all(log)
    assert found.broken == []
    assert found.runs


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e400", "-5", str(-(2**63))])
def test_absurd_numbers_in_a_trace_are_survived(tmp_path: Path, value: str) -> None:
    trace = tmp_path / "steps.jsonl"
    keys = ("step", "accepted_depth", "commit_len", "ctx_len", "step_ms", "batch", "budget")
    odd = "{" + ", ".join(f'"{key}": {value}' for key in keys) + "}\n"
    lists = f'{{"parents": [-1, {value}], "node_tokens": [{value}], "accepted": [0, {value}]}}\n'
    trace.write_text(STEP * 5 + odd * 30 + lists + STEP)
    found = analyze_all(trace)
    assert found.broken == []
    assert found.runs


def test_a_clock_that_jumps_back_or_shows_nonsense_is_survived(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    days = ["2026-04-02", "2026-04-01", "9999-99-99", "2020-01-01"]
    log.write_text("".join(LINE.replace("2026-04-02", day) for day in days))
    found = analyze_all(log)
    assert found.broken == []
    assert [line for line, _ in evidence(analyze(log))] == [1, 2, 3, 4]


# Names


@pytest.mark.parametrize(
    "name", [b"a log.log", "журнал ü.log".encode(), b"caf\xe9.log", b"a[1].log"]
)
def test_every_file_name_is_read_and_can_be_printed(
    tmp_path: Path, specdiag: Command, name: bytes
) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    Path(path).write_text(LINE * 3)
    answer = specdiag("analyze", "--no-html", "--output", "json=-", path)
    assert answer.code == 0
    (finding, *_) = json.loads(answer.out)["findings"]
    assert finding["evidence"][0]["text"] == LINE.rstrip()
    assert finding["evidence"][0]["path"].endswith(name.decode("utf-8", "backslashreplace"))


def test_a_name_that_plays_with_the_terminal_is_shown_in_escapes(
    tmp_path: Path, good: Path, specdiag: Command
) -> None:
    (tmp_path / "a\x1b[2J\nerror: all is lost\u202e.log").write_text("no log\n")
    answer = specdiag("analyze", "--no-html", tmp_path)
    assert "\x1b" not in answer.err and "\u202e" not in answer.err
    assert three_lines(answer.err)


def test_the_same_file_given_twice_is_analysed_once(good: Path) -> None:
    found = analyze(good, good, good.parent)
    assert [finding.run for finding in found.findings] == ["good"]
    assert [run.sources[0]["lines"] for run in found.runs] == [3]


# Traces in other shapes


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_read_and_its_records_are_quoted(
    tmp_path: Path, indent: int | None
) -> None:
    trace = tmp_path / "steps.json"
    trace.write_text(json.dumps([json.loads(STEP)] * 3, indent=indent))
    found = analyze(trace)
    lines = [1, 2, 3] if indent is None else [2, 8, 14]
    assert [line for line, _ in evidence(found)] == lines
    assert all(json.loads(text) == json.loads(STEP) for _, text in evidence(found))


def test_pretty_printed_records_are_read_and_quoted(tmp_path: Path) -> None:
    trace = tmp_path / "steps.json"
    trace.write_text("\n".join([json.dumps(json.loads(STEP), indent=2)] * 3))
    found = analyze(trace)
    assert [line for line, _ in evidence(found)] == [1, 7, 13]
    assert json.loads(evidence(found)[1][1]) == json.loads(STEP)


def test_an_array_that_was_cut_gives_the_records_before(tmp_path: Path) -> None:
    trace = tmp_path / "steps.json"
    trace.write_text(json.dumps([json.loads(STEP)] * 3, indent=2)[:-30])
    found = analyze(trace)
    assert [line for line, _ in evidence(found)] == [2, 8]
    assert found.notices[0].where == f"{trace}:14"


@pytest.mark.parametrize("shape", ["{},\n", "[{},\n", "{}\n"])
def test_records_of_megabytes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    """A benchmark with its details is one record of many megabytes on one line."""
    monkeypatch.setattr(content, "LONGEST_LINE", 1 << 20)
    big = json.dumps({**json.loads(STEP), "generated_texts": "x" * (3 << 20)})
    trace = tmp_path / "steps.json"
    array = shape.startswith("[")
    trace.write_text(shape.rstrip("\n,").format(big) + ("," if array else "") + "\n" + STEP
                     + ("]" if array else ""))  # fmt: skip
    found = analyze(trace)
    assert len(evidence(found)) == 2
    assert all(notice.what.startswith("field") for notice in found.notices)


def test_thousands_of_unknown_keys_are_a_few_warnings(tmp_path: Path) -> None:
    trace = tmp_path / "steps.jsonl"
    record = json.loads(STEP) | {f"key{n}": n for n in range(2000)}
    trace.write_text((json.dumps(record) + "\n") * 2)
    found = analyze(trace)
    assert len(evidence(found)) == 2
    assert len(found.notices) == reading.NAMED + 1
    assert found.notices[-1].what.endswith("more fields not understood")


def test_a_key_that_names_another_run_on_every_line_does_not_make_thousands_of_runs(
    tmp_path: Path,
) -> None:
    """Every run is compared with every other: this took hours for a large trace."""
    trace = tmp_path / "steps.jsonl"
    lines = [json.dumps(json.loads(STEP) | {"run_id": f"r{n}"}) for n in range(1000)]
    trace.write_text("\n".join(lines))
    found = analyze(trace)
    assert len(found.runs) == 1
    assert "one run" in said(found)[0]
    assert evidence(found)


def test_a_trace_in_parquet_is_analysed_and_quoted(tmp_path: Path) -> None:
    trace = tmp_path / "steps [1].parquet"
    pl.DataFrame([json.loads(STEP)] * 3).write_parquet(trace)
    found = analyze(trace)
    assert [line for line, _ in evidence(found)] == [1, 2, 3]
    assert json.loads(evidence(found)[0][1]) == json.loads(STEP)
    assert found.notices == []


def test_a_parquet_trace_of_a_later_version_is_refused_and_an_empty_one_named(
    tmp_path: Path, good: Path
) -> None:
    later = pl.DataFrame({"record": ["step"], "schema": [2], "block_tokens": [[1]],
                          "kv_before": [1], "parents": [[-1]], "accepted": [[0]]})  # fmt: skip
    later.write_parquet(tmp_path / "later.parquet")
    pl.DataFrame({"step_ms": pl.Series([], dtype=pl.Float64)}).write_parquet(
        tmp_path / "none.parquet"
    )
    other = pl.DataFrame({"height": [1.8]})
    other.write_parquet(tmp_path / "other.parquet")
    whole = (tmp_path / "later.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    found = analyze(tmp_path, good)
    assert {Path(notice.where).name: notice.what.split(":")[0] for notice in found.notices} == {
        "cut.parquet": "this Parquet file cannot be read",
        "later.parquet": "not read",
        "none.parquet": "this Parquet file has no rows",
        "other.parquet": "no parser knows the columns of this Parquet file",
    }
    assert len(found.notices) == 4
    assert evidence(found)


# Rules of users


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with three rows that rules may try to harm."""
    log = tmp_path_factory.mktemp("filled") / "good.log"
    log.write_text(LINE * 3)
    return diagnosis.fill(source.find([str(log)]), bundled()[0])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "COPY (SELECT 1) TO '{out}'",
        "EXPORT DATABASE '{out}'",
        "ATTACH '{out}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "DROP TABLE acceptance",
        "DELETE FROM run; SELECT run, 'x' AS message FROM run",
        "CREATE TABLE mine (a INTEGER)",
    ],
)
def test_a_rule_that_reaches_for_files_or_changes_tables_is_refused(
    tmp_path: Path, filled: Store, sql: str
) -> None:
    out = tmp_path / "out"
    path = tmp_path / "mine.sql"
    path.write_text(HEADER + sql.format(out=out))
    with pytest.raises(SpecdiagError) as error:
        rule.apply(rule.load(path), filled.db, {})
    assert error.value.where == str(path)
    assert not out.exists()
    assert rule.apply(witness(), filled.db, {})[0][0].message == "3 rows"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT",
        "SELEC 1",
        "",
        "SELECT * FROM nowhere",
        "SELECT run, nothing AS message FROM acceptance",
        "SELECT run, $unset AS message FROM run",
        "SELECT run FROM run",
        "SELECT 'x' AS message FROM run",
        "SELECT 'elsewhere' AS run, 'x' AS message",
        "SELECT NULL AS run, 'x' AS message",
        "SELECT run, 'x' AS message, 'fatal' AS severity FROM run",
        "SELECT run, 'x' AS message, 'much' AS impact FROM run",
        "SELECT run, 'x' AS message, [1, 2] AS lines FROM run",
        "SELECT run, error('no') AS message FROM run",
    ],
)
def test_a_rule_that_does_not_run_is_three_lines(tmp_path: Path, filled: Store, sql: str) -> None:
    path = tmp_path / "mine.sql"
    path.write_text(HEADER + sql)
    with pytest.raises(SpecdiagError) as error:
        rule.apply(rule.load(path), filled.db, {})
    assert three_lines(str(error.value))
    assert error.value.where == str(path)
    assert rule.apply(witness(), filled.db, {})[0][0].message == "3 rows"


@pytest.mark.parametrize(
    "header",
    [
        "-- title = \n",
        "",
        HEADER.replace('"low"', '"fatal"'),
        HEADER.replace("{}", "5"),
        HEADER.replace("{}", "{ decode = 5 }"),
        HEADER + "-- colour = 3\n",
        HEADER + "-- params = 3\n",
        HEADER.replace('-- why = "w"\n', ""),
        "\xff",
    ],
)
def test_a_broken_rule_header_is_named_and_the_other_rules_are_there(
    tmp_path: Path, header: str
) -> None:
    path = tmp_path / "mine.sql"
    path.write_text(header + "SELECT run, 'x' AS message FROM run", encoding="latin-1")
    _, rules, broken = diagnosis.definitions([], [tmp_path])
    assert [(error.where, error.exit_code) for error in broken] == [(str(path), 2)]
    assert three_lines(str(broken[0]))
    assert [one.name for one in rules] == [one.name for one in bundled()[1]]


def test_a_broken_rule_file_exits_with_2_and_the_other_rules_run(
    tmp_path: Path, good: Path, specdiag: Command
) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "header.sql").write_text("-- title = \nSELECT 1")
    (folder / "statement.sql").write_text(HEADER + "SELECT * FROM nowhere")
    answer = specdiag("analyze", "--no-html", "--rules", folder, good)
    assert answer.code == 2
    assert three_lines(answer.err)
    assert "header.sql" in answer.err and "statement.sql" in answer.err
    assert SICK in answer.out


def test_a_rule_may_cite_lines_that_are_not_there(tmp_path: Path, good: Path) -> None:
    path = tmp_path / "mine.sql"
    path.write_text(
        HEADER + "SELECT run, 'x' AS message, [cite(99, 1), cite(-1, 1), cite(0, 999), NULL] AS "
        "lines, 'nan'::DOUBLE AS impact, 'inf'::DOUBLE AS value FROM run"
    )
    found = analyze(good, more_rules=(rule.load(path),))
    assert found.broken == []
    proofs = {one.rule.name: len(one.evidence) for one in found.findings}
    assert proofs == {"witness": 3, "mine": 0}


# Parsers of users


@pytest.mark.parametrize(
    "text",
    [
        "title = ",
        FORMAT,
        FORMAT + "event = 1\n",
        'event = ["x"]\n' + FORMAT,
        FORMAT + EVENT + "fields = 3\n",
        FORMAT + EVENT.replace("step", "nowhere"),
        FORMAT + EVENT + 'fields = { step = ["whole", "x=(.*)"] }\n',
        FORMAT + EVENT + 'fields = { step = ["int", "x=(.*"] }\n',
        FORMAT + EVENT + 'fields = { step = ["int", "(?<=x=)(.*)"] }\n',
        FORMAT.replace('["HELLO"]', '"HELLO"') + EVENT,
        FORMAT.replace('["HELLO"]', '["HEL(LO"]') + EVENT,
        FORMAT.replace("lines", "xml") + EVENT,
    ],
)
def test_a_broken_parser_definition_is_named_and_the_others_are_there(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    parsers, _, broken = diagnosis.definitions([tmp_path], [])
    assert [(error.where, error.exit_code) for error in broken] == [(str(path), 2)]
    assert three_lines(str(broken[0]))
    assert [one.name for one in parsers] == [one.name for one in bundled()[0]]


def test_a_broken_parser_file_exits_with_2_and_the_rest_is_analysed(
    tmp_path: Path, good: Path, specdiag: Command
) -> None:
    folder = tmp_path / "parsers"
    folder.mkdir()
    (folder / "mine.toml").write_text("title = ")
    answer = specdiag("analyze", "--no-html", "--parsers", folder, good)
    assert answer.code == 2
    assert three_lines(answer.err) and "mine.toml" in answer.err
    assert SICK in answer.out


@pytest.mark.parametrize(
    "fields", ['fields = { step = ["text", "x=(.*)"] }', 'set = { step = "x" }']
)
def test_a_field_of_another_type_than_its_column_is_left_empty(
    tmp_path: Path, good: Path, fields: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FORMAT + EVENT + fields)
    log = tmp_path / "mine.log"
    log.write_text("HELLO x=5\nHELLO x=many\n")
    found = analyze(log, good, more_parsers=(definition.load(path),))
    assert evidence(found)
    assert any(run.sources[0]["format"] == "mine" for run in found.runs)


def test_two_parsers_that_claim_a_file_are_named_and_it_is_analysed(tmp_path: Path) -> None:
    twins = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.toml"
        path.write_text(FORMAT + EVENT + 'fields = { step = ["int", "x=([0-9]+)"] }\n')
        twins.append(definition.load(path))
    log = tmp_path / "mine.log"
    log.write_text("HELLO x=5\n")
    found = analyze(log, more_parsers=tuple(twins))
    assert said(found) == ["one and two both claim this file; it is read as two"]
    assert found.runs[0].sources[0]["parsed"] == 1.0


# Anything


SGLANG = LINE + (
    "[2026-05-21 08:30:05] server_args=ServerArgs(model_path='m', speculative_algorithm='EAGLE', "
    "speculative_num_draft_tokens=4)\n"
    "[2026-05-21 08:30:15] Load weight begin. avail mem=78.43 GB\n"
    "[2026-05-21 08:30:25] Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0, "
    "token usage: 0.00, #running-req: 0, #queue-req: 0\n"
    "[2026-05-21 08:30:26 TP0] Decode batch. #running-req: 1, #token: 40, token usage: 0.00, "
    "accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 90.1, "
    "#queue-req: 0\n"
    "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: no\n"
)  # fmt: skip
GARBAGE = st.sampled_from(
    [b"\0", b"\r", b"\n", b"\xff", b"\x1b[31m", b"1e400", b"nan", b"-1", b"9" * 20, b"{", b"}", b"[",
     b"]", b'"', b"'", b",", b": ", b"=", b"(", b")", b"\\", b"[2026-", b"\xef\xbb\xbf", b"\x1f\x8b",
     b"Traceback (most recent call last)", b"#running-req: ", b"server_args="]
) | st.binary(max_size=4)  # fmt: skip


@st.composite
def mutations(draw: st.DrawFn, text: bytes) -> bytes:
    """A valid text that was cut, shuffled, doubled and filled with garbage in places."""
    data = bytearray(text)
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 60)))
        part = bytes(data[start:end])
        match draw(st.sampled_from(["cut", "shuffle", "double", "insert", "replace", "end"])):
            case "cut":
                del data[start:end]
            case "shuffle":
                data[start:end] = bytes(draw(st.permutations(part)))
            case "double":
                data[start:start] = part
            case "insert":
                data[start:start] = draw(GARBAGE)
            case "replace":
                data[start:end] = draw(GARBAGE)
            case "end":
                del data[max(start, len(data) // 2) :]
    return bytes(data)


def unnamed(data: bytes) -> list[str]:
    """What goes wrong with a file of these bytes, but for mistakes that are named as a user's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "any")
        path.write_bytes(data)
        try:
            found = analyze_all(path)
        except SpecdiagError as error:
            return [] if str(error).startswith("error: ") else [str(error)]
        return [str(error) for error in found.broken]


ANYTHING = settings(deadline=None, max_examples=8)


@ANYTHING
@given(data=st.binary(max_size=200) | st.lists(GARBAGE, max_size=30).map(b"".join))
def test_any_bytes_are_analysed_or_named(data: bytes) -> None:
    assert unnamed(data) == []


@ANYTHING
@given(data=mutations(SGLANG.encode()))
def test_any_garbled_log_is_analysed_or_named(data: bytes) -> None:
    assert unnamed(data) == []


@ANYTHING
@given(data=mutations((STEP * 4).encode()))
def test_any_garbled_trace_is_analysed_or_named(data: bytes) -> None:
    assert unnamed(data) == []
