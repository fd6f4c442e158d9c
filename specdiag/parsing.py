"""What the stretches of a file give: from the cache, by parsing, or the one and then the other."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from specdiag import content, stretches
from specdiag import source as sources
from specdiag.cache import Cache, Kept, Writer
from specdiag.parser import Parsed
from specdiag.recognition import Form
from specdiag.source import Source


def parsed(
    file: Source, form: Form, workers: ThreadPoolExecutor, threads: int, cache: Cache | None
) -> Generator[Parsed, None, None]:
    """What the blocks of a file give, in order; `threads` of them are parsed at once by workers.

    What the cache has of the file is not parsed again, and what it has not is kept there.
    """
    key = cache.key(file, form) if cache and file.magic() != content.PARQUET else ""
    if cache and key:
        yield from _kept(file, form, workers, threads, cache, key)
    else:
        file.hearing = sources.Hearing() if file.hashed else None
        for _, one in stretches.parsed(file, form, workers, threads):
            yield one
    if file.hearing:
        file.sha256 = file.hearing.bytes, file.hearing.hexdigest()
    file.start, file.hearing = (0, 1), None


def _kept(
    file: Source, form: Form, workers: ThreadPoolExecutor, threads: int, cache: Cache, key: str
) -> Iterator[Parsed]:
    """What the cache has of a file, and what it has not, which is kept from now on."""
    found = cache.find(file, key)
    file.hearing = found.hearing if found else sources.Hearing()
    if found and not found.grown:
        yield from _again(file, found, None)
        return
    with closing(Writer(cache, key)) as writer:
        if found:
            yield from _again(file, found, writer)
            file.start = found.meta.offset, found.meta.line
            file.hearing.known = found.meta.bytes - found.meta.offset
        yield from _written(file, form, workers, threads, writer)


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


def _written(
    file: Source, form: Form, workers: ThreadPoolExecutor, threads: int, writer: Writer
) -> Iterator[Parsed]:
    """What the stretches of a file give, which is also kept."""
    offset, line = file.start
    before = len(file.notices)
    end = whole = offset
    for stretch, parsed in stretches.parsed(file, form, workers, threads):
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
