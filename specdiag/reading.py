"""One file into frames: its format is recognised, its blocks are parsed, the rest is told."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

import polars as pl

from specdiag import content, pickles, recognition, records, reference, stretches
from specdiag import source as sources
from specdiag.cache import Cache, Kept, Writer
from specdiag.parser import Parsed, Parser
from specdiag.recognition import Form, Head
from specdiag.source import Source
from specdiag.staging import Staging

MOST_ARMS = 100  # runs that one file can name; every run is compared with every other
NAMED = 10  # fields that no parser knows; more are counted
UNREAD = "see them with `specdiag query 'FROM unread' PATH`; more names with --parsers"

DATABASE = b"DUCK"  # from byte 8 on

# What specdiag itself wrote, as beside the traces of `ddtree bench`: results, and no evidence.
_OWN = re.compile(rb'\s*\{\s*"schema":\s*\d+,\s*"specdiag":')

Progress = Callable[[int], None]


@dataclass
class Reading:
    """What became of one file."""

    source: Source
    format: str = ""
    lines: int = 0
    understood: int = 0
    unread: Counter[tuple[str, str]] = field(default_factory=Counter)
    strangers: list[tuple[int, str]] = field(default_factory=list)
    arms: set[str] = field(default_factory=set)

    @property
    def parsed(self) -> float:
        return self.understood / self.lines if self.lines else 0.0


def read(
    staging: Staging, number: int, file: Source, parsers: list[Parser],
    progress: Progress, threads: int | None = None, cache: Cache | None = None,
) -> Reading:  # fmt: skip
    """Put all rows of a file into the staging area; `number` is the file's.

    So many blocks are parsed at once as there are threads. What the cache has of the file is not
    parsed again, and what it has not is kept there.
    """
    reading = Reading(file)
    form = _recognise(file, parsers)
    if form is None:
        progress(file.size())
        return reading
    reading.format = form.parser.name
    starts: list[int] = []
    file.taken = told = 0
    with closing(_kept(file, form, threads or stretches.WORKERS, cache)) as found:
        for parsed in found:
            if parsed.refused:
                why = f"not read: {parsed.refused}"
                file.warn(why, "update specdiag, or write the older version")
                break
            starts += sorted(parsed.starts)
            for table, frames in parsed.frames.items():
                for frame in frames:
                    staging.add(table, _placed(_armed(reading, frame), number, starts))
            reading.lines += parsed.lines
            reading.understood += parsed.understood
            reading.unread += parsed.unread
            reading.strangers += parsed.strangers[: max(0, records.SHOWN - len(reading.strangers))]
            progress(max(0, file.taken - told))
            told = max(told, file.taken)
    progress(max(0, file.size() - told))
    _report(reading)
    return reading


def _recognise(file: Source, parsers: list[Parser]) -> Form | None:
    if pickles.is_pickle(file.magic()):
        file.records = reference.records(file)
        chosen, _ = recognition.choose(parsers, Head.of(file.records[: content.HEAD]))
        return Form(chosen) if chosen else None
    head = content.head(file)
    if head.startswith(content.PARQUET):
        from specdiag import parquet

        chosen = parquet.recognise(file, parsers)
        return Form(chosen) if chosen else None
    if head[8:].startswith(DATABASE):
        file.warn(
            "this is a DuckDB file, and no log",
            "if specdiag wrote it, make reports from it with `specdiag report`",
        )
        return None
    if head[257:262] == b"ustar":
        file.warn("this is a tar archive", "unpack it, and give the files in it")
        return None
    head = head.replace(b"\0", b"")  # what a rotated log leaves behind
    if not head.strip():
        for _ in content.blocks(Source(file.name, file.path, notices=file.notices)):
            break
        if not file.notices:
            file.warn("the file is empty", "look whether its writer died, or give another file")
        return None
    if _OWN.match(head):
        return None
    if _is_binary(head):
        file.warn(
            "this is a binary file, and none that specdiag reads", "give it text or JSON logs"
        )
        return None
    form, all_best = recognition.look(parsers, head)
    if form is None:
        file.warn(
            "no parser knows this file",
            "see what is known with `specdiag parsers`; more with --parsers",
        )
    elif len(all_best) > 1:
        names = " and ".join(one.name for one in all_best)
        file.warn(
            f"{names} both claim this file; it is read as {form.parser.name}",
            "make `recognise` of one of them narrower",
        )
    return form


def _is_binary(head: bytes) -> bool:
    """Whether more than a tenth of the first bytes are no text; zero bytes do not count."""
    text = head[:4096].decode("utf-8", "replace")
    odd = sum(1 for sign in text if sign == "\ufffd" or (sign < " " and sign not in "\t\n\r\f\x1b"))
    return odd > len(text) / 10


def _kept(
    file: Source, form: Form, threads: int, cache: Cache | None
) -> Generator[Parsed, None, None]:
    """What the blocks of a file give: from the cache, by parsing, or the one and then the other."""
    key = cache.key(file, form) if cache and file.magic() != content.PARQUET else ""
    if cache is None or not key:
        for _, parsed in stretches.parsed(file, form, threads):
            yield parsed
        return
    found = cache.find(file, key)
    file.hearing = found.hearing if found else sources.Hearing()
    if found and not found.grown:
        yield from _again(file, found, None)
    else:
        with closing(Writer(cache, key)) as writer:
            if found:
                yield from _again(file, found, writer)
                file.start = found.meta.offset, found.meta.line
                file.hearing.known = found.meta.bytes - found.meta.offset
            yield from _written(file, form, threads, writer)
    file.sha256 = file.hearing.bytes, file.hearing.hexdigest()
    file.start, file.hearing = (0, 1), None


def _again(file: Source, found: Kept, writer: Writer | None) -> Iterator[Parsed]:
    """What was kept of a file, with what was said on the way; also into a new entry."""
    with closing(found.archive):
        for facts, parsed in found.blocks():
            if writer:
                writer.add(parsed, facts["size"], facts["open"])
            file.taken += facts["size"]
            yield parsed
    file.document = found.meta.document
    file.marks = [(line, at) for line, at in found.meta.marks]
    for notice in found.notices():
        if notice not in file.notices:
            file.notices.append(replace(notice, where=notice.where.replace("\0", file.name, 1)))


def _written(file: Source, form: Form, threads: int, writer: Writer) -> Iterator[Parsed]:
    """What the stretches of a file give, which is also kept."""
    offset, line = file.start
    before = len(file.notices)
    end = whole = offset
    for stretch, parsed in stretches.parsed(file, form, threads):
        if parsed.refused:
            yield parsed
            return
        writer.add(parsed, stretch.size, stretch.open)
        end += stretch.size
        if not stretch.open:
            whole, line = end, stretch.after
        yield parsed
    heard = file.hearing
    if heard is None:
        return
    # Where lines were left out, or unpacked, bytes of blocks are no places in the file.
    one = form.parser
    plain = end == heard.bytes and (bool(one.boundary) or one.format == "json")
    writer.finish(
        bytes=heard.bytes, sha256=heard.hexdigest(), document=file.document, line=line,
        marks=file.marks,
        offset=whole if plain and not file.document else 0,
        notices=[
            {"what": one.what, "where": one.where.replace(file.name, "\0", 1), "help": one.help}
            for one in file.notices[before:]
        ],
    )  # fmt: skip


def _armed(reading: Reading, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with their arms, unless these are so many that they name no runs."""
    if "arm" not in frame.columns:
        return frame
    few = len(reading.arms) <= MOST_ARMS
    reading.arms.update(frame.get_column("arm").drop_nulls().unique())
    if len(reading.arms) <= MOST_ARMS:
        return frame
    if few:
        reading.source.warn(
            f"more than {MOST_ARMS} names of runs in one file: they are read as one run",
            "write one file a run, or leave the key out that differs",
        )
    return frame.drop("arm")


def _placed(frame: pl.DataFrame, number: int, starts: list[int]) -> pl.DataFrame:
    """The rows with the file they come from, and after how many starts in it."""
    if starts:
        life = pl.Series(starts).search_sorted(frame.get_column("line"), side="right")
        frame = frame.with_columns(life.cast(pl.Int32).alias("life"))
    else:
        frame = frame.with_columns(pl.lit(0, pl.Int32).alias("life"))
    return frame.with_columns(pl.lit(number, pl.Int32).alias("source"))


def _report(reading: Reading) -> None:
    file = reading.source
    if reading.strangers:
        missed = reading.lines - reading.understood
        what = (
            "record is not valid JSON"
            if reading.format and _is_json(reading)
            else "line is not understood"
        )
        if missed > 1:
            what = what.replace("record is", "records are").replace("line is", "lines are")
        number, text = reading.strangers[0]
        file.warn(
            f"{missed} {what}, the first: {text.strip()[:80]!r}", "all others are read", number
        )
    unread = sorted(reading.unread.items())
    for (table, name), count in unread[:NAMED]:
        lines = "1 line" if count == 1 else f"{count} lines"
        file.warn(f"field {name!r} of table {table} not understood in {lines}", UNREAD)
    if len(unread) > NAMED:
        file.warn(f"{len(unread) - NAMED} more fields not understood", UNREAD)


def _is_json(reading: Reading) -> bool:
    return reading.strangers[0][1].lstrip().startswith(("{", '["', "[{"))
