"""Traces on disk, written beside the decoding loop: it waits only when the disk falls far behind.

The loop itself makes records lines, between its steps: a second thread would take the interpreter
away from the stages that are being timed. It does so at once, while the processor's caches still
have what a record consists of. Compressing and writing are the thread's.

JSON lines, plain or `.zst`, end at a whole record whenever the run is interrupted. The same columns
as Parquet are one file at the end; until then the steps wait in memory, packed as columns.
"""

from __future__ import annotations

import dataclasses
import io
import queue
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, cast

import orjson

from specdiag.ddtree.trace import CHECKSUMS, RequestRecord, RunRecord, StepRecord, line, values
from specdiag.errors import SpecdiagError, reason

if TYPE_CHECKING:
    import polars as pl

BATCH = 32  # lines that are handed over together
SECONDS = 1.0  # after which fewer are
WAITING = 64  # batches between the loop and the disk

Record = RunRecord | RequestRecord | StepRecord


class TraceWriter:
    """A trace file that is being written; use it in a `with` block.

    Raises SpecdiagError when the file cannot be made or the disk is full; in the latter case soon
    after, or at the end. What was written until then stays readable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[bytes] = []
        self.handed = time.monotonic()
        self.queue: queue.Queue[list[bytes] | None] = queue.Queue(WAITING)
        self.problem: Exception | None = None
        try:
            self.sink = _sink(path)
        except OSError as error:
            raise SpecdiagError(
                f"no trace: {reason(error)}", str(path), "name a file that can be written"
            ) from None
        self.thread = threading.Thread(target=self._drain, name="trace", daemon=True)

    def __enter__(self) -> TraceWriter:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._hand_over()
        self.queue.put(None)
        self.thread.join()
        try:
            self.sink.close()
        except OSError as failed:
            self.problem = self.problem or failed
        if kind is None:
            self._raise()

    def write(self, record: Record) -> None:
        """Encode a record now and hand it over soon."""
        self._raise()
        self.lines.append(encode(record) + b"\n")
        if len(self.lines) >= BATCH or time.monotonic() - self.handed > SECONDS:
            self._hand_over()

    def _hand_over(self) -> None:
        self.queue.put(self.lines)
        self.lines, self.handed = [], time.monotonic()

    def _raise(self) -> None:
        if isinstance(self.problem, OSError):
            raise SpecdiagError(
                f"the trace broke off: {reason(self.problem)}", str(self.path),
                "free some space; what was written is readable",
            )  # fmt: skip
        if self.problem is not None:
            raise self.problem

    def _drain(self) -> None:
        while (lines := self.queue.get()) is not None:
            if self.problem is None:
                try:
                    self.sink.write(lines)
                except Exception as error:  # is raised in the loop; nobody would see it here
                    self.problem = error


def encode(record: Record) -> bytes:
    """The record's line in a tenth of the time that `trace.line` takes, which writes the rest."""
    try:
        text = orjson.dumps(values(record))
    except TypeError:  # half characters, integers beyond 64 bits
        return line(record).encode(errors="replace")
    # What JSON has no number for is null in it, and has another form in a trace.
    return text if b"null" not in text else line(record).encode(errors="replace")


class _Lines:
    """JSON lines, plain or compressed; readable up to the last batch at any time."""

    def __init__(self, path: Path) -> None:
        self.raw = open(path, "wb")  # noqa: SIM115 (closed by close)
        self.out: IO[bytes] = self.raw
        if path.suffix == ".zst":
            import zstandard

            self.out = cast(IO[bytes], zstandard.ZstdCompressor(3).stream_writer(self.raw))

    def write(self, lines: list[bytes]) -> None:
        self.out.write(b"".join(lines))
        self.out.flush()

    def close(self) -> None:
        try:
            self.out.close()
        finally:
            self.raw.close()


class _Table:
    """The steps as Parquet. Run and request records have other columns and are left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.frames: list[pl.DataFrame] = []
        with open(path, "wb"):
            pass  # a folder that is missing or closed is named before the run, not after it
        path.unlink()

    def write(self, lines: list[bytes]) -> None:
        import polars as pl

        steps = b"".join(each for each in lines if each.startswith(b'{"record":"step"'))
        if steps:
            self.frames.append(pl.read_ndjson(io.BytesIO(steps), schema=_schema()))

    def close(self) -> None:
        import polars as pl

        if not self.frames:
            return
        part = self.path.with_name(self.path.name + ".part")
        packed = io.BytesIO()  # where the disk is full, the system says so and polars may not
        try:
            pl.concat(self.frames).write_parquet(packed)
            part.write_bytes(packed.getbuffer())
            part.replace(self.path)
        except pl.exceptions.PolarsError as error:
            raise OSError(str(error)) from None
        finally:
            part.unlink(missing_ok=True)


def _schema() -> dict[str, Any]:
    """The types of a step's columns, as its record declares them."""
    import polars as pl

    plain: dict[str, Any] = {
        "int": pl.Int64, "float": pl.Float64, "str": pl.String, "bool": pl.Boolean,
        "dict[str, Any]": pl.Struct(dict.fromkeys(CHECKSUMS, pl.List(pl.Int64))),
    }  # fmt: skip

    def typed(text: str) -> Any:
        text = text.removesuffix(" | None")
        if text.startswith("list["):
            return pl.List(typed(text[len("list[") : -1]))
        return plain[text]

    columns = {"record": pl.String, "schema": pl.Int64}
    for each in dataclasses.fields(StepRecord):
        columns[each.name] = typed(str(each.type))
    return columns


def _sink(path: Path) -> _Lines | _Table:
    return _Table(path) if path.suffix == ".parquet" else _Lines(path)
