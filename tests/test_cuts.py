"""Lines that are cut at their commas give what the patterns give, whatever has happened to them."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import bundled, cuts, lines, parser

PARSERS = [parser.load(path) for path in bundled.definitions(bundled.PARSERS, [], suffix=".toml")]
LABELLED = [one for one in PARSERS if any(cuts.serves(event) for event in one.events)]
LOGS = sorted((Path(__file__).parents[1] / "sample_logs").glob("*.log"))

each_parser = pytest.mark.parametrize("one", LABELLED, ids=lambda one: one.name)


def read(one, text, cut):
    """Rows by table, and what else a block tells; `cut`: at commas from the first line on."""
    fewest = 1 if cut else 10**9
    with patch.object(cuts, "FEWEST", fewest):
        parsed = lines.read(one, text.encode(), 1)
    tables = {
        table: sorted(map(str, pl.concat(frames, how="diagonal_relaxed").to_dicts()))
        for table, frames in parsed.frames.items()
    }
    rows = {table: [filled(row) for row in found] for table, found in tables.items()}
    return rows, parsed.lines, parsed.understood, parsed.unread, sorted(parsed.strangers)


def filled(row):
    """A row without the columns that have no value: which of them exist depends on its company."""
    pairs = re.findall(r"'(\w+)': ((?:datetime\.datetime\([^)]*\)|\[[^\]]*\]|'[^']*'|[^,}]+))", row)
    return sorted(pair for pair in pairs if pair[1] != "None")


def mutated(draw, line):
    """The line as another server, a terminal or a second writer leaves it behind."""
    kind = draw(st.sampled_from(
        ("same", "number", "torn", "colour", "return", "comma", "doubled", "word", "sign", "gone")
    ))  # fmt: skip
    at = draw(st.integers(0, len(line)))
    figures = [found.span() for found in re.finditer(r"[0-9]+(?:\.[0-9]+)?", line)]
    first, last = draw(st.sampled_from(figures or [(0, 0)]))
    match kind:
        case "number":
            return (
                line[:first]
                + draw(st.from_regex(r"[0-9]{1,9}(\.[0-9]{1,3})?", fullmatch=True))
                + line[last:]
            )
        case "torn":
            return line[:at]
        case "colour":
            return line[:at] + "\x1b[32m" + line[at:]
        case "return":
            return line + "\r"
        case "comma":
            return line + draw(st.sampled_from((",", ", ", ", ,")))
        case "doubled":
            return line[:at] + line
        case "word":
            return (
                line[:first]
                + draw(st.sampled_from(("nan", "inf", "None", "1,234", "1e5", "-", "")))
                + line[last:]
            )
        case "sign":
            return line.replace(", ", ",", 1)
        case "gone":
            pieces = line.split(", ")
            return ", ".join(pieces[:1] + pieces[2:])
        case _:
            return line


@each_parser
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_line_is_read_the_same_however_it_is_taken_apart(one, data):
    samples = [
        line for event in one.events if cuts.serves(event) for sample in event.samples
        for line in sample.text.strip("\n").splitlines()
    ]  # fmt: skip
    chosen = data.draw(st.lists(st.sampled_from(samples), min_size=1, max_size=8))
    text = "".join(mutated(data.draw, line) + "\n" for line in chosen)
    assert read(one, text, cut=True) == read(one, text, cut=False)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_is_read_the_same_however_its_lines_are_taken_apart(path):
    text = path.read_text(encoding="utf-8", errors="replace")
    one, _ = parser.recognise(PARSERS, text.encode()[: 256 << 10])
    if one in LABELLED:
        assert read(one, text, cut=True) == read(one, text, cut=False)


@each_parser
def test_the_lines_of_a_healthy_server_are_cut(one):
    for event in one.events:
        line = event.samples[0].text.strip("\n").splitlines()[0]
        if cuts.serves(event) and event.table in ("decode", "prefill"):
            frame = pl.DataFrame({"line": range(1, 101), "text": [line] * 100})
            assert cuts.read(one, event, frame, parser.Parsed()).is_empty(), line


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
