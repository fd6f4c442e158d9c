"""PyTorch profiler traces (Chrome trace events): when the device worked, and what it waited for.

Only the events that matter are kept, a few numbers each, so that a trace of any size takes little
memory. A gap is the host's where the work that ends it was launched after the device had run dry;
one that was launched before waits for the device itself: a copy, another stream, another rank.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable
from typing import Any

import polars as pl

from specdiag.chrome import Events
from specdiag.parser import Parsed, Parser

LONGEST_NAME = 200
MOST_DEVICES = 64
PAUSE = 3.0  # steps without work: nobody asked for any
PAUSE_MS = 50.0  # the same where no step is marked
SHORTEST_MS = 10.0  # and never shorter than this
CITED = 4  # gaps of a device that are kept, the longest
WORK = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "concurrent_kernel"}
RUNTIME = {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "xpu_runtime"}
MARKS = {"user_annotation", "gpu_user_annotation"}
LAUNCH = re.compile(r"launch|enqueue", re.IGNORECASE)
GRAPH = re.compile(r"graph\w*launch", re.IGNORECASE)
WAIT = re.compile(r"synchronize|streamwait|eventquery", re.IGNORECASE)
LAUNCHES, GRAPHS, WAITS, OTHER = 1, 2, 3, 0  # kinds of calls
TYPES = {
    "steps": pl.Int64, "host_gap_ms": pl.Float64, "pause_ms": pl.Float64, "step_ms": pl.Float64,
}  # fmt: skip
STEPS = ("verify", "decode", "step")  # what counts the steps, the first that is marked


class Reader:
    """One trace, as its bytes come."""

    def __init__(self, parser: Parser) -> None:
        self.stages = [(stage, re.compile(text)) for stage, text in parser.stages.items()]
        self.parsed = Parsed()
        self.events = Events(self.parsed)
        self.counted = False  # events are counted instead of lines, of which there are too few
        self.quotes: dict[int, str] = {}  # what these events say
        self._names: dict[str, int] = {}
        self._stacks = False
        self._work = _columns("line", "nth", "device", "stream", "call", "name")
        self._calls = _columns("call", "thread", "kind")
        self._marks = _columns("line", "nth", "stage", "place", "lane", "own", "name")

    def feed(self, data: bytes, last: bool = False) -> None:
        """More bytes of the file."""
        for event in self.events.feed(data, last):
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        kind = str(event.get("cat", "")).lower()
        if kind == "python_function":
            self._stacks = True
        if event.get("ph") != "X" or kind not in WORK | RUNTIME | MARKS:
            return
        start, length = _number(event.get("ts")), _number(event.get("dur", 0))
        if start is None or length is None or length < 0:
            return
        details = event.get("args")
        details = details if isinstance(details, dict) else {}
        place, lane, name = event.get("pid"), event.get("tid"), str(event.get("name", ""))
        call = details.get("correlation")
        call = call if isinstance(call, int) and 0 <= call < 1 << 62 else -1
        when = {"start": start, "length": length}
        where = {"line": self.events.at, "nth": self.parsed.lines, "name": self._id(name)}
        if kind in WORK:
            device = self._id(details.get("device", place))
            stream = self._id(details.get("stream", lane))
            _put(self._work, **where, device=device, stream=stream, call=call, **when)
        elif kind in RUNTIME:
            _put(self._calls, call=call, thread=self._id(lane), kind=_kind(name), **when)
        elif (stage := self._stage(name)) is not None:
            own = int(kind.startswith("gpu"))
            where |= {"stage": self._id(stage), "place": self._id(place), "lane": self._id(lane)}
            _put(self._marks, **where, own=own, **when)

    def _stage(self, name: str) -> str | None:
        return next((stage for stage, pattern in self.stages if pattern.search(name)), None)

    def _id(self, value: Any) -> int:
        return self._names.setdefault(str(value)[:LONGEST_NAME], len(self._names))

    def finish(self) -> Parsed:
        """The rows of the whole trace."""
        self.feed(b"", last=True)
        self._texts = dict(enumerate(self._names))
        work, calls, marks = map(_frame, (self._work, self._calls, self._marks))
        self.counted = self.events.line * 2 < self.parsed.lines
        if self.counted:
            work = work.with_columns(line=pl.col("nth"))
            marks = marks.with_columns(line=pl.col("nth"))
        for device in work.get_column("device").unique(maintain_order=True)[:MOST_DEVICES]:
            mine = work.filter(pl.col("device") == device).sort("start")
            self._device(device, mine, calls, marks)
        return self.parsed

    def _device(
        self, device: int, work: pl.DataFrame, calls: pl.DataFrame, marks: pl.DataFrame
    ) -> None:
        """The rows of one device; `work` is sorted by time."""
        name = pl.lit(self._texts[device]).alias("device")
        work = _launched(work, calls)
        stages = self._stages_of(device, work, marks)
        steps, step_ms = _steps(stages, marks, self._texts)
        pause = 1000 * (max(SHORTEST_MS, PAUSE * step_ms) if step_ms else PAUSE_MS)
        waits = work.with_columns(gap=pl.col("start") - pl.col("free")).filter(pl.col("gap") > 0)
        waits = waits.with_columns(host=pl.col("launched_at") >= pl.col("free"))
        idle, gaps = waits.filter(pl.col("gap") > pause), waits.filter(pl.col("gap") <= pause)
        first = work.get_column("start")[0]
        last = work.select((pl.col("start") + pl.col("length")).max()).item()
        window, gap_ms = last - first - _sum(idle, "gap"), _sum(gaps, "gap")
        mine = work.get_column("thread").drop_nulls().unique().to_list()
        here = calls.filter(
            pl.col("thread").is_in(mine), pl.col("start").is_between(first - 1e4, last)
        )
        known = work.get_column("launched_at").count() * 2 > work.height
        row = {
            "line": work.get_column("line")[0],
            "window_ms": window / 1000,
            "busy_ms": (window - gap_ms) / 1000,
            "gap_ms": gap_ms / 1000,
            "host_gap_ms": _sum(gaps.filter("host"), "gap") / 1000 if known else None,
            "pause_ms": _sum(idle, "gap") / 1000,
            "kernels": work.height,
            "launches": here.filter(pl.col("kind").is_in([LAUNCHES, GRAPHS])).height,
            "graph_launches": here.filter(pl.col("kind") == GRAPHS).height,
            "wait_ms": _sum(here.filter(pl.col("kind") == WAITS), "length") / 1000,
            "steps": steps or None,
            "step_ms": step_ms,
            "stacks": self._stacks,
        }
        self._add("profile", pl.DataFrame([row], schema_overrides=TYPES).with_columns(name))
        self._quote(work.head(1))
        longest = gaps.sort("gap", descending=True).head(CITED).sort("line")
        cited = longest.select(
            "line",
            "host",
            at_ms=(pl.col("free") - first) / 1000,
            gap_ms=pl.col("gap") / 1000,
            before=self._named(longest, "before"),
            after=self._named(longest, "name"),
        )
        self._add("profile_gap", cited.with_columns(name))
        self._quote(longest)
        self._add("profile_stage", stages.with_columns(name))

    def _add(self, table: str, rows: pl.DataFrame) -> None:
        self.parsed.add(table, rows.with_columns(pl.selectors.float().round(6)))

    def _named(self, rows: pl.DataFrame, column: str) -> pl.Series:
        texts = [self._texts.get(number) for number in rows.get_column(column)]
        return pl.Series(texts, dtype=pl.String)

    def _stages_of(self, device: int, work: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
        """What each stage took: its ranges on the device, or those of the host that launched it."""
        own = marks.filter(pl.col("own") == 1, pl.col("place") == device)
        on_device = own.height > 0
        by, lane = ("start", "stream") if on_device else ("launched_at", "thread")
        work = work.drop_nulls(by).sort(by)
        rows = []
        for (stage,), ranges in (own if on_device else marks.filter(pl.col("own") == 0)).group_by(
            "stage", maintain_order=True
        ):
            ranges = ranges.sort("start")
            until = (pl.col("start") + pl.col("length")).alias("until")
            bounds = ranges.select(pl.col("start").alias("begin"), until, "lane")
            inside = work.join_asof(
                bounds, left_on=by, right_on="begin", by_left=lane, by_right="lane",
                check_sortedness=False,
            ).filter(pl.col(by) < pl.col("until"))  # fmt: skip
            rows.append({
                "line": ranges.get_column("line")[0], "stage": self._texts[int(str(stage))],
                "name": self._texts[ranges.get_column("name")[0]], "ranges": ranges.height,
                "range_ms": _sum(ranges, "length") / 1000,
                "kernel_ms": _sum(inside, "length") / 1000, "kernels": inside.height,
                "on_device": on_device,
            })  # fmt: skip
            self._quote(ranges.head(1))
        return pl.DataFrame(rows, schema_overrides=TYPES) if rows else pl.DataFrame()

    def _quote(self, rows: pl.DataFrame) -> None:
        for row in rows.iter_rows(named=True):
            said = {"name": self._texts[row["name"]], "ts": row["start"], "dur": row["length"]}
            gap = f"  after {row['gap'] / 1000:.3f} ms without work" if "gap" in row else ""
            self.quotes[row["line"]] = json.dumps(said) + gap


def _launched(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Work with who launched it and when, and since when the device was free before it."""
    launched = calls.filter(pl.col("call") >= 0).unique("call", keep="first")
    launched = launched.select("call", "thread", launched_at="start")
    return work.join(launched, on="call", how="left", maintain_order="left").with_columns(
        free=(pl.col("start") + pl.col("length")).cum_max().shift(1),
        before=pl.col("name").shift(1),
    )


def _sum(rows: pl.DataFrame, column: str) -> float:
    return float(rows.get_column(column).sum())


def _kind(name: str) -> int:
    if GRAPH.search(name):
        return GRAPHS
    return LAUNCHES if LAUNCH.search(name) else WAITS if WAIT.search(name) else OTHER


def _columns(*whole: str) -> dict[str, array[Any]]:
    numbers: dict[str, array[Any]] = {name: array("q") for name in whole}
    return numbers | {"start": array("d"), "length": array("d")}


def _put(columns: dict[str, array[Any]], **values: float) -> None:
    for column, value in values.items():
        columns[column].append(value)


def _frame(columns: dict[str, array[Any]]) -> pl.DataFrame:
    types = {n: pl.Float64 if one.typecode == "d" else pl.Int64 for n, one in columns.items()}
    return pl.DataFrame({name: list(one) for name, one in columns.items()}, schema=types)


def _steps(
    stages: pl.DataFrame, marks: pl.DataFrame, texts: dict[int, str]
) -> tuple[int, float | None]:
    """How many steps the marks count, and the median time from one to the next."""
    if not stages.height:
        return 0, None
    named = {text: number for number, text in texts.items()}
    stage = next((one for one in STEPS if one in set(stages.get_column("stage"))), None)
    if stage is None:
        return 0, None
    mine = marks.filter(pl.col("stage") == named[stage])
    own = mine.filter(pl.col("own") == 1)
    starts = (
        (own if own.height else mine).unique(["place", "start"]).sort("start").get_column("start")
    )
    median = starts.diff().drop_nulls().median()
    return starts.len(), float(median) / 1000 if isinstance(median, float) else None


def _number(value: Any) -> float | None:
    """A time of an event: some writers quote it."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < 1e18 else None


def read(parser: Parser, pieces: Iterable[bytes]) -> Parsed:
    """The rows of a whole trace."""
    reader = Reader(parser)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()
