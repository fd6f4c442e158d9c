"""Files in their turn: recognised, and the first of them parsed before the one ahead is done."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

from specdiag import (
    boxed,
    content,
    export,
    means,
    own,
    parsing,
    pickles,
    recognition,
    reference,
    streams,
)
from specdiag.cache import Cache
from specdiag.parser import Parsed, Parser
from specdiag.recognition import Form, Head
from specdiag.source import Source

SMALL = content.BLOCK  # bytes of a file that is parsed as a whole before its turn

DATABASE = b"DUCK"  # from byte 8 on

# Pages, and what people note of their logs: they quote lines, and are none.
_PAGE = re.compile(rb"\s*<(?:!doctype\b|html\b|\?xml\b)", re.IGNORECASE)
_NOTES = (".md", ".markdown", ".rst", ".adoc")


@dataclass
class Opened:
    """A file whose turn it is: how it is read, and what its stretches give."""

    file: Source
    form: Form | None = None  # of a file that nobody knows there is none
    first: list[Parsed] = field(default_factory=list)  # what was parsed before its turn
    rest: Generator[Parsed, None, None] | None = None

    def __iter__(self) -> Iterator[Parsed]:
        while self.first:  # which is gone then: it takes as much memory as all that follows
            yield self.first.pop()
        if self.rest:
            yield from self.rest

    def close(self) -> None:
        if self.rest:
            self.rest.close()


def in_turn(
    files: Iterable[Source], parsers: list[Parser], threads: int | None = None,
    cache: Cache | None = None,
) -> Generator[Opened, None, None]:  # fmt: skip
    """Every file, in order: those behind it are begun while one is read.

    So many blocks are parsed at once as there are threads, of all files together. Of a small file
    that is all of it; with one thread nothing is begun before its turn.
    """
    threads = means.workers(threads)
    workers, openers = ThreadPoolExecutor(threads), ThreadPoolExecutor(threads)
    begun: deque[Future[Opened]] = deque()
    try:
        for file in files:
            begun.append(openers.submit(_open, file, parsers, workers, threads, cache))
            # What the first stretch of a large file gives takes as much memory as some small files.
            beside = threads if file.size() <= SMALL else 1
            while len(begun) > (beside if threads > 1 else 0):
                yield from _turn(begun)
        while begun:
            yield from _turn(begun)
    finally:  # who interrupts waits for no more than what is parsed right now
        workers.shutdown(wait=False, cancel_futures=True)
        openers.shutdown(cancel_futures=True)
        for one in begun:
            if not one.cancelled() and not one.exception():
                one.result().close()


def _turn(begun: deque[Future[Opened]]) -> Iterator[Opened]:
    with closing(begun.popleft().result()) as opened:
        yield opened


def _open(
    file: Source, parsers: list[Parser], workers: ThreadPoolExecutor, threads: int,
    cache: Cache | None,
) -> Opened:  # fmt: skip
    form = recognise(file, parsers)
    if form is None:
        return Opened(file)
    file.taken = 0
    found = parsing.parsed(file, form, workers, threads, cache)
    first = next(found, None)
    return Opened(file, form, [first] if first else [], found)


def recognise(file: Source, parsers: list[Parser]) -> Form | None:
    """How a file is read, if it is; why not becomes a notice of it."""
    if pickles.is_pickle(file.magic()):
        file.records = reference.records(file)
        chosen, _ = recognition.choose(parsers, Head.of(file.records[: content.HEAD]))
        return Form(chosen) if chosen else None
    head = file.own.head if file.own else boxed.head(file)
    if head.startswith(content.PARQUET):
        from specdiag import parquet

        chosen = parquet.recognise(file, parsers)
        return Form(chosen) if chosen else None
    if _holds_others(file, head):
        return None
    head = head.replace(b"\0", b"")  # what a rotated log leaves behind
    if _is_none(file, head):
        return None
    if streams.begins(head):
        return _stream(file, parsers)
    form, all_best = recognition.look(parsers, head)
    if form is None or (form.parser.format == "lines" and not form.inside):
        exported = export.opened(file, head, parsers)
        if exported:
            form, all_best = exported, [exported.parser]
    if form and form.when:
        export.turn(file, form, head)
    if form and file.own:
        form = replace(form, own=file.own)
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


def _holds_others(file: Source, head: bytes) -> bool:
    """Whether this is a database or an archive, which is said."""
    if head[8:].startswith(DATABASE):
        if not file.given and own.saved(file.path):
            return True
        file.warn(
            "this is a DuckDB file, and no log",
            "if specdiag wrote it, make reports from it with `specdiag report`",
        )
        return True
    if head[257:262] == b"ustar":
        file.warn("this is a tar archive", "unpack it; a whole one called .tar is opened")
        return True
    return False


def _is_none(file: Source, head: bytes) -> bool:
    """Whether there is no log or record in a file, which is said where it is not specdiag's own."""
    if not head.strip():
        for _ in content.blocks(Source(file.name, file.path, notices=file.notices)):
            break
        if not file.notices:
            file.warn("the file is empty", "look whether its writer died, or give another file")
        return True
    if own.wrote(head):
        return True
    if _PAGE.match(head) or (not file.given and file.path.suffix.lower() in _NOTES):
        file.warn(
            "this may quote a log, and is none",
            "name it to have it read all the same"
            if not _PAGE.match(head)
            else "give the log itself",
        )
        return True
    if _is_binary(head):
        file.warn(
            "this is a binary file, and none that specdiag reads", "give it text or JSON logs"
        )
        return True
    return False


def _stream(file: Source, parsers: list[Parser]) -> Form | None:
    file.records = streams.records(file)
    if not file.records:
        return None
    answers = b"\n".join(filter(None, file.records.split(b"\n")))
    of_records = [one for one in parsers if one.format == "json"]
    chosen, _ = recognition.choose(of_records, Head.of(answers[: content.HEAD]))
    if chosen is None:
        file.warn(
            "no parser knows the answers in this stream",
            "ask the server for counters, as with stream_options = {include_usage: true}",
        )
    return Form(chosen) if chosen else None


def _is_binary(head: bytes) -> bool:
    """Whether more than a tenth of the first bytes are no text; zero bytes do not count."""
    text = head[:4096].decode("utf-8", "replace")
    odd = sum(1 for sign in text if sign == "\ufffd" or (sign < " " and sign not in "\t\n\r\f\x1b"))
    return odd > len(text) / 10
