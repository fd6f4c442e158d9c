"""Traces on disk, written beside the decoding loop: it waits only when the disk falls far behind.

JSON lines, plain or `.zst`, end at a whole record whenever the run is interrupted. The same columns
as Parquet are one file at the end, so an interrupted run leaves none.
"""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

from specdiag.ddtree.trace import RequestRecord, RunRecord, StepRecord, line
from specdiag.errors import SpecdiagError, reason

WAITING = 4096  # records between the loop and the disk
FLUSHED = 256  # records after which a compressed file can be read up to here

Record = RunRecord | RequestRecord | StepRecord


class TraceWriter:
    """A trace file that is being written; use it in a `with` block.

    Raises SpecdiagError when the file cannot be made or the disk is full; in the latter case at
    the next record, or at the end. What was written until then stays readable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.queue: queue.Queue[Record | None] = queue.Queue(WAITING)
        self.problem: OSError | None = None
        try:
            self.sink = _sink(path)
        except OSError as error:
            raise SpecdiagError(f"no trace: {reason(error)}", str(path)) from None
        self.thread = threading.Thread(target=self._drain, name="trace", daemon=True)

    def __enter__(self) -> TraceWriter:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.queue.put(None)
        self.thread.join()
        try:
            self.sink.close()
        except OSError as failed:
            self.problem = self.problem or failed
        if kind is None:
            self._raise()

    def write(self, record: Record) -> None:
        """Hand over a record."""
        self._raise()
        self.queue.put(record)

    def _raise(self) -> None:
        if self.problem is not None:
            raise SpecdiagError(
                f"the trace broke off: {reason(self.problem)}", str(self.path),
                "free some space; what was written is readable",
            )  # fmt: skip

    def _drain(self) -> None:
        while (record := self.queue.get()) is not None:
            if self.problem is None:
                try:
                    self.sink.write(record)
                except OSError as error:
                    self.problem = error


class _Lines:
    """JSON lines, plain or compressed."""

    def __init__(self, path: Path) -> None:
        self.raw = open(path, "wb")  # noqa: SIM115 (closed by close)
        self.out: IO[bytes] = self.raw
        self.count = 0
        self.packed = path.suffix == ".zst"
        if self.packed:
            import zstandard

            self.out = cast(IO[bytes], zstandard.ZstdCompressor(3).stream_writer(self.raw))

    def write(self, record: Record) -> None:
        self.out.write(line(record).encode() + b"\n")
        self.count += 1
        if self.count % FLUSHED == 0:
            self.out.flush()

    def close(self) -> None:
        self.out.close()
        self.raw.close()


class _Table:
    """The steps as Parquet. Run and request records have other columns and are left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        with open(path, "wb"):
            pass  # a folder that is missing or closed is named before the run, not after it
        path.unlink()

    def write(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            self.rows.append(json.loads(line(record)))

    def close(self) -> None:
        import polars as pl

        if self.rows:
            pl.DataFrame(self.rows, infer_schema_length=None).write_parquet(self.path)


def _sink(path: Path) -> _Lines | _Table:
    return _Table(path) if path.suffix == ".parquet" else _Lines(path)
