"""One line on a terminal that says what is being done, how fast, and how long it will take."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from specdiag.report.visible import visible

PATIENCE = 2.0  # seconds without a line
EVERY = 0.2  # seconds between two drawings
ERASE = "\r\x1b[K"
READING = "reading"


class Line:
    """Drawn again and again while it is entered, if that takes longer than two seconds.

    Without a stream nothing is drawn.
    """

    def __init__(
        self, stream: TextIO | None, clock: Callable[[], float] = time.monotonic
    ) -> None:  # fmt: skip
        self.stream = stream
        self.clock = clock
        self.started = clock()
        self.reading = 0.0  # when the first byte was read
        self.what = ""
        self.bytes = 0, 0
        self.drawn = False
        self.left = threading.Event()
        self.drawer: threading.Thread | None = None

    def tell(self, kind: str, name: str = "") -> None:
        """What is being done from now on."""
        self.what = f"{kind} {visible(name)}".rstrip()
        if kind == READING and not self.reading:
            self.reading = self.clock()

    def count(self, done: int, total: int) -> None:
        """How many bytes of the files were read."""
        self.bytes = done, total

    def text(self) -> str:
        """Of what is read also the rate, and the time left at this rate."""
        done, total = self.bytes
        seconds = self.clock() - self.reading
        if not self.what.startswith(READING) or not done or seconds <= 0:
            return self.what
        rate = done / seconds
        return (
            f"{self.what}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB, {rate / 1e6:,.0f} MB/s, "
            f"{(total - done) / rate:,.0f} s left"
        )

    def draw(self) -> None:
        if self.stream and self.what and self.clock() - self.started >= PATIENCE:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write(ERASE + self.text()[:width])
            self.stream.flush()
            self.drawn = True

    def __enter__(self) -> Line:
        if self.stream:
            self.left.clear()
            self.drawer = threading.Thread(target=self._keep_drawing, daemon=True)
            self.drawer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.left.set()
        if self.drawer:
            self.drawer.join()
            self.drawer = None
        if self.stream and self.drawn:
            self.stream.write(ERASE)
            self.stream.flush()
            self.drawn = False

    def _keep_drawing(self) -> None:
        while not self.left.wait(EVERY):
            self.draw()


def on_terminal(quiet: bool = False) -> Line:
    """The line on standard error, where that is a terminal and nobody wants quiet."""
    seen = not quiet and sys.stderr is not None and sys.stderr.isatty()
    return Line(sys.stderr if seen else None)
