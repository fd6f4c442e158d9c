"""A file in stretches: its blocks are parsed side by side, and handed out in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from specdiag import content, cuts, document, lines, parser, sheets
from specdiag.content import Block
from specdiag.parser import Parsed, Parser
from specdiag.recognition import Form
from specdiag.source import Source

BUNDLE = 8  # blocks that are finished together
LEFT = 50_000  # lines that are too many for that
SPARE = 2  # blocks that are begun beyond those: there is work while rows are put on disk

One = TypeVar("One")
Done = TypeVar("Done")


@dataclass(frozen=True)
class Stretch:
    """Blocks that follow each other and are read together."""

    size: int = 0  # bytes
    after: int = 1  # the number of the line behind them
    open: bool = False  # at the end of the file: its last record may go on once it grows

    def and_then(self, block: Block) -> Stretch:
        return Stretch(self.size + len(block.data), block.after, block.open)


def parsed(
    file: Source, form: Form, workers: ThreadPoolExecutor, threads: int
) -> Iterator[tuple[Stretch, Parsed]]:
    """The stretches of a file and what they gave, in order; workers parse some blocks at a time."""
    chosen = form.parser
    if file.magic() == content.PARQUET:
        from specdiag import parquet

        yield Stretch(), parquet.read(file, chosen)
        return
    if chosen.format == "trace":
        yield from _trace(file, chosen)
        return
    if file.records:
        found = _records(file.records)
    elif chosen.format == "lines":
        found = content.blocks(file, chosen.boundary.encode())
    elif form.document:
        found = _document(file)
    else:
        found = content.blocks(file, longest=content.LONGEST_RECORD)
        found = sheets.whole(found) if form.sheet else found
    heading = form.heading.encode()
    how = form.wrapper, form.inside, form.own, form.when

    def begin(block: Block) -> lines.Begun:
        return lines.begin(chosen, block.data, block.line, *how)

    def whole(block: Block) -> Parsed:
        data, line = block.data, block.line
        if heading and line > 1:
            data, line = heading + b"\n" + data, line - 1
        if form.sheet:
            data = sheets.records(form.sheet, data, line, chosen)
        return parser.read(chosen, data, line, *how)

    if chosen.format == "lines" and any(map(cuts.serves, chosen.events)):
        begun = _bundled(_ahead(workers, begin, found, threads + SPARE))
        for bundle, done in _ahead(workers, lambda one: lines.finish(chosen, one[1]), begun, 1):
            yield bundle[0], done
    else:
        for block, done in _ahead(workers, whole, found, threads):
            yield Stretch().and_then(block), done


def _ahead(
    workers: ThreadPoolExecutor, work: Callable[[One], Done], found: Iterable[One], most: int
) -> Iterator[tuple[One, Done]]:
    """What the work makes of each, in order; at most so many are worked on beside the first."""
    waiting: deque[tuple[One, Future[Done]]] = deque()
    for one in found:
        waiting.append((one, workers.submit(work, one)))
        if len(waiting) > most:
            first, result = waiting.popleft()
            yield first, result.result()
    while waiting:
        first, result = waiting.popleft()
        yield first, result.result()


def _bundled(
    found: Iterable[tuple[Block, lines.Begun]],
) -> Iterator[tuple[Stretch, list[lines.Begun]]]:
    """Blocks of which little is left together: to read that has a price, however little it is."""
    bundle: list[lines.Begun] = []
    stretch, left = Stretch(), 0
    for block, begun in found:
        # The last lines alone, since they are read again once the file grows; but what little of
        # a file there is is read again as a whole.
        if block.open and stretch.size > content.BLOCK:
            yield stretch, bundle
            stretch, bundle, left = Stretch(), [], 0
        stretch = stretch.and_then(block)
        bundle.append(begun)
        left += begun.left.height
        if len(bundle) == BUNDLE or left > LEFT:
            yield stretch, bundle
            stretch, bundle, left = Stretch(), [], 0
    if bundle:
        yield stretch, bundle


def _trace(file: Source, chosen: Parser) -> Iterator[tuple[Stretch, Parsed]]:
    from specdiag import timeline

    reader = timeline.Reader(chosen)
    for data in content.chunks(file, content.BLOCK):
        reader.feed(data)
        yield Stretch(), Parsed()
    done = reader.finish()
    if reader.counted:
        file.quoted = lambda wanted: {n: reader.quotes[n] for n in wanted if n in reader.quotes}
    yield Stretch(), done


def _records(data: bytes) -> Iterator[Block]:
    line = 1
    for start, end in _cuts(data):
        yield Block(data[start:end], line)
        line += data.count(b"\n", start, end)


def _cuts(data: bytes) -> Iterator[tuple[int, int]]:
    """From where to where whole lines are about as long as a block."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + content.BLOCK) + 1 or len(data)
        yield start, end
        start = end


def _document(file: Source) -> Iterator[Block]:
    file.document = True
    data = content.whole(file)
    if data is None:
        most = f"{content.WHOLE >> 20} MB"
        file.warn(f"a JSON value of more than {most} is not read", "write one record a line")
        return
    yield Block(document.split(data), 1)
