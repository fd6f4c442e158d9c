"""Lines that are cut at their commas give what the patterns give, whatever has happened to them."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import bundled, cuts, definition, lines, parser, recognition, store
from specdiag.recognition import Head
from specdiag.staging import Staging

PARSERS = [
    definition.load(path) for path in bundled.definitions(bundled.PARSERS, [], suffix=".toml")
]
LABELLED = [one for one in PARSERS if any(cuts.serves(event) for event in one.events)]
LOGS = sorted((Path(__file__).parents[1] / "sample_logs").glob("*.log"))

each_parser = pytest.mark.parametrize("one", LABELLED, ids=lambda one: one.name)


def read(one, text, cut):
    """Rows by table, and what else a block tells; `cut`: at commas from the first line on."""
    fewest = 1 if cut else 10**9
    with patch.object(cuts, "FEWEST", fewest):
        parsed = lines.read(one, text.encode(), 1)
    rows = {
        table: sorted(map(filled, pl.concat(frames, how="diagonal_relaxed").to_dicts()))
        for table, frames in parsed.frames.items()
    }
    return rows, parsed.lines, parsed.understood, parsed.unread, sorted(parsed.strangers)


def filled(row):
    """A row without the columns that have no value: which of them exist depends on its company."""
    return sorted(
        f"{column}: {value:.12g}" if isinstance(value, float) else f"{column}: {value}"
        for column, value in row.items() if value is not None
    )  # fmt: skip


NUMBER = r"[0-9]{1,9}(\.[0-9]{1,3})?"
WORDS = ("nan", "inf", "None", "1,234", "1e5", "-", "")


def mutated(line, kind, at, nth, number, word):
    """The line as another server, a terminal or a second writer leaves it behind."""
    at = int(at * len(line))
    figures = [found.span() for found in re.finditer(r"[0-9]+(?:\.[0-9]+)?", line)]
    first, last = figures[int(nth * len(figures))]
    pieces = line.split(", ")
    return {
        "same": line,
        "number": line[:first] + number + line[last:],
        "word": line[:first] + word + line[last:],
        "torn": line[:at],
        "colour": line[:at] + "\x1b[32m" + line[at:],
        "return": line + "\r",
        "comma": line + ",",
        "closed": line + ", ",
        "doubled": line[:at] + line,
        "narrow": line.replace(", ", ",", 1),
        "gone": ", ".join(pieces[:1] + pieces[2:]),
        "twice": ", ".join(pieces[:2] + pieces[1:]),
    }[kind]


KINDS = ("same", "number", "word", "torn", "colour", "return", "comma", "closed", "doubled",
         "narrow", "gone", "twice")  # fmt: skip


def mutations(one):
    samples = [
        line for event in one.events if cuts.serves(event) for sample in event.samples
        for line in sample.text.strip("\n").splitlines()
    ]  # fmt: skip
    place = st.floats(0, 0.99)
    return st.builds(
        mutated, st.sampled_from(samples), st.sampled_from(KINDS), place, place,
        st.from_regex(NUMBER, fullmatch=True), st.sampled_from(WORDS),
    )  # fmt: skip


@each_parser
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_line_is_read_the_same_however_it_is_taken_apart(one, data):
    found = data.draw(st.lists(mutations(one), min_size=1, max_size=4))
    text = "".join(line + "\n" for line in found)
    assert read(one, text, cut=True) == read(one, text, cut=False)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_is_read_the_same_however_its_lines_are_taken_apart(path):
    text = path.read_text(encoding="utf-8", errors="replace")
    one, _ = recognition.choose(PARSERS, Head.of(text.encode()[: 256 << 10]))
    if one in LABELLED:
        assert read(one, text, cut=True) == read(one, text, cut=False)


@each_parser
def test_the_lines_of_a_healthy_server_are_cut(one):
    for event in one.events:
        line = event.samples[0].text.strip("\n").splitlines()[0]
        if cuts.serves(event) and event.table in ("decode", "prefill"):
            frame = pl.DataFrame({"line": range(1, 101), "text": [line] * 100})
            assert cuts.read(one, event, frame, parser.Parsed()).is_empty(), line


def test_what_is_cut_goes_into_the_tables():
    one = next(one for one in LABELLED if one.name == "sglang_server")
    sample = next(event for event in one.events if event.table == "decode").samples[0]
    with store.open_empty() as db:
        staging = Staging(db)
        parsed = lines.read(one, (sample.text + "\n").encode() * 100, 1)
        for frame in parsed.frames["decode"]:
            staging.add("decode", frame.with_columns(source=pl.lit(0), life=pl.lit(0)))
        staging.finish()
        found = db.execute("SELECT count(*), sum(running) FROM raw.decode").fetchone()
    assert found == (100, 100 * sample.gives["running"])


def test_a_torn_line_takes_no_time_from_others():
    one = next(one for one in LABELLED if one.name == "sglang_server")
    sample = next(event for event in one.events if event.table == "decode").samples[0]
    torn = sample.text[sample.text.index("Decode batch") :]
    found, *_ = read(one, f"{torn}\n{sample.text}\n", cut=False)
    told = [any(value.startswith("time: ") for value in row) for row in found["decode"]]
    assert sorted(told) == [False, True]


def test_a_traceback_ends_at_a_line_that_was_cut():
    one = next(one for one in LABELLED if one.name == "sglang_server")
    event = next(event for event in one.events if event.table == "decode")
    decode = event.samples[0].text + "\n"
    stamp = decode[: decode.index("]") + 1]
    text = (
        f"{stamp} Scheduler hit an exception: Traceback (most recent call last):\n"
        "what stands in it is part of it\n" + 60 * decode + "this is nothing that anybody knows\n"
    )
    parsed = lines.read(one, text.encode(), 1)
    assert [line for line, _ in parsed.strangers] == [63]
