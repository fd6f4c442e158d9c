"""PyTorch profiler traces (Chrome trace events): when the device worked, and what it waited for.

Only the events that matter are kept, a few numbers each, so that a trace of any size takes little
memory. A gap is the host's where the work that ends it was launched after the device had run dry;
one that was launched before waits for the device itself: a copy, another stream, another rank.
"""

from __future__ import annotations

import codecs
import json
import re
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from specdiag.parser import Parsed, Parser

LONGEST_EVENT = 1 << 20  # characters; a longer one is broken
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
STEPS = ("verify", "decode", "step")  # what counts the steps, the first that is marked


class Reader:
    """The events of one trace, as they come."""

    def __init__(self, parser: Parser) -> None:
        self.stages = [(stage, re.compile(text)) for stage, text in parser.stages.items()]
        self.parsed = Parsed()
        self.counted = False  # events are counted instead of lines, of which there are too few
        self.quotes: dict[int, str] = {}  # what these events say
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._place, self._inside, self._done = "", 0, False, False
        self._line, self._counted, self._at = 1, 0, 1  # of the text so far, and of the event
        self._names: dict[str, int] = {}
        self._stacks = False
        number, real = "q", "d"
        self._work = {"line": array(number), "nth": array(number), "device": array(number),
                      "stream": array(number), "call": array(number), "name": array(number),
                      "start": array(real), "length": array(real)}  # fmt: skip
        self._calls = {"call": array(number), "thread": array(number), "kind": array(number),
                       "start": array(real), "length": array(real)}  # fmt: skip
        self._marks = {"line": array(number), "nth": array(number), "stage": array(number),
                       "place": array(number), "lane": array(number), "own": array(number),
                       "name": array(number), "start": array(real), "length": array(real)}  # fmt: skip

    def feed(self, data: bytes, last: bool = False) -> None:
        """More bytes of the file."""
        if self._done:
            return
        self._text = self._text[self._place :] + self._decoder.decode(data, last)
        self._counted -= self._place
        self._place = 0
        for event in self._events(last):
            self._take(event)

    def _events(self, last: bool) -> Iterator[dict[str, Any]]:
        text = self._text
        if not self._inside:
            found = re.match(r"\s*\[", text) or re.search(r'"traceEvents"\s*:\s*\[', text)
            if not found:
                self._place = max(0, len(text) - 64)
                return
            self._inside, self._place = True, found.end()
        while (start := self._next()) >= 0:
            try:
                event, end = self._scan(text, start)
            except (ValueError, RecursionError):
                if len(text) - start < LONGEST_EVENT and not last:
                    self._place = start  # the rest of it comes with the next bytes
                    return
                self._broken(start)
                self._place = start + 1
                while (at := text.find("{", self._place)) >= 0 and '"ph"' not in text[at : at + 400]:
                    self._place = at + 1
                self._place = at if at >= 0 else len(text)
                continue
            self._place = end
            self._line += text.count("\n", self._counted, start)
            self._counted = start
            # The profiler writes an event's bracket on a line of its own, and its name on the next.
            self._at = self._line + text.startswith(("{\n", "{\r\n"), start)
            self.parsed.lines += 1
            if isinstance(event, dict):
                self.parsed.understood += 1
                yield event

    def _next(self) -> int:
        """Where the next event starts; -1 at the end of the text, or of the list."""
        found = re.compile(r"[\s,]*").match(self._text, self._place)
        start = found.end() if found else self._place
        if self._text[start : start + 1] == "{":
            return start
        self._place = start
        self._done = self._text[start : start + 1] == "]"
        if start < len(self._text) and not self._done:  # not an event
            self._place = at if (at := self._text.find("{", start)) >= 0 else len(self._text)
            return self._next() if at >= 0 else -1
        return -1

    def _broken(self, start: int) -> None:
        self.parsed.lines += 1
        line = self._line + self._text.count("\n", self._counted, start)
        if len(self.parsed.strangers) < 5:
            self.parsed.strangers.append((line, self._text[start : start + 80]))

    def _take(self, event: dict[str, Any]) -> None:
        kind = str(event.get("cat", "")).lower()
        if kind == "python_function":
            self._stacks = True
            return
        if event.get("ph") != "X" or kind not in WORK | RUNTIME | MARKS:
            return
        given = event.get("args")
        details = given if isinstance(given, dict) else {}
        start, length = _number(event.get("ts")), _number(event.get("dur", 0))
        if start is None or length is None or length < 0:
            return
        name = str(event.get("name", ""))
        if kind in WORK:
            device = details.get("device", event.get("pid"))
            stream = details.get("stream", event.get("tid"))
            self._put(
                self._work, line=self._at, nth=self.parsed.lines, device=self._id(device),
                stream=self._id(stream), call=_whole(details.get("correlation")),
                name=self._id(name[:200]), start=start, length=length,
            )  # fmt: skip
        elif kind in RUNTIME:
            what = 2 if GRAPH.search(name) else 1 if LAUNCH.search(name) else 3 if WAIT.search(name) else 0
            self._put(
                self._calls, call=_whole(details.get("correlation")), thread=self._id(event.get("tid")),
                kind=what, start=start, length=length,
            )  # fmt: skip
        elif (stage := self._stage(name)) is not None:
            self._put(
                self._marks, line=self._at, nth=self.parsed.lines, stage=self._id(stage),
                place=self._id(event.get("pid")), lane=self._id(event.get("tid")),
                own=int(kind.startswith("gpu")), name=self._id(name[:200]), start=start, length=length,
            )  # fmt: skip

    def _stage(self, name: str) -> str | None:
        return next((stage for stage, pattern in self.stages if pattern.search(name)), None)

    def _put(self, columns: dict[str, array[Any]], **values: float) -> None:
        for column, value in values.items():
            columns[column].append(value)

    def _id(self, value: Any) -> int:
        return self._names.setdefault(str(value), len(self._names))

    def finish(self) -> Parsed:
        """The rows of the whole trace."""
        self.feed(b"", last=True)
        texts = pl.DataFrame({"text": list(self._names)}, schema={"text": pl.String})
        texts = texts.with_row_index("id").with_columns(pl.col("id").cast(pl.Int64))
        self._texts = dict(texts.iter_rows())
        work, calls, marks = (pl.DataFrame({k: list(v) for k, v in one.items()}, schema=_schema(one))
                              for one in (self._work, self._calls, self._marks))  # fmt: skip
        self.counted = self._line * 2 < self.parsed.lines
        if self.counted:
            work = work.with_columns(line=pl.col("nth"))
            marks = marks.with_columns(line=pl.col("nth"))
        for (device,), mine in work.group_by("device", maintain_order=True):
            self._device(int(str(device)), mine.sort("start"), calls, marks)
        return self.parsed

    def _device(self, device: int, work: pl.DataFrame, calls: pl.DataFrame, marks: pl.DataFrame) -> None:
        end = (pl.col("start") + pl.col("length")).cum_max()
        launched = calls.filter(pl.col("call") >= 0).unique("call", keep="first")
        launched = launched.select("call", "thread", launched_at="start")
        work = work.join(launched, on="call", how="left", maintain_order="left").with_columns(
            free=end.shift(1), before=pl.col("name").shift(1)
        )
        gaps = work.with_columns(gap=pl.col("start") - pl.col("free")).filter(pl.col("gap") > 0)
        gaps = gaps.with_columns(host=pl.col("launched_at") >= pl.col("free"))
        stages = self._stages_of(device, work, marks)
        steps, step_ms = _steps(stages, marks, self._texts)
        pause = max(SHORTEST_MS, PAUSE * step_ms) if step_ms else PAUSE_MS
        idle = gaps.filter(pl.col("gap") > 1000 * pause)
        gaps = gaps.filter(pl.col("gap") <= 1000 * pause)
        first = float(work.get_column("start")[0])
        last = float((work.get_column("start") + work.get_column("length")).max() or first)  # type: ignore[arg-type]
        window = (last - first - float(idle.get_column("gap").sum())) / 1000
        gap_ms = float(gaps.get_column("gap").sum()) / 1000
        mine = set(work.get_column("thread").drop_nulls())
        here = calls.filter(pl.col("thread").is_in(list(mine)), pl.col("start").is_between(first - 1e4, last))
        waits = here.filter(pl.col("kind") == 3)
        known = work.get_column("launched_at").count()
        row = {
            "line": int(work.get_column("line")[0]), "device": self._texts[device], "window_ms": window,
            "busy_ms": window - gap_ms, "gap_ms": gap_ms,
            "host_gap_ms": float(gaps.filter("host").get_column("gap").sum()) / 1000 if known * 2 > work.height else None,
            "pause_ms": float(idle.get_column("gap").sum()) / 1000, "kernels": work.height,
            "launches": here.filter(pl.col("kind").is_in([1, 2])).height,
            "graph_launches": here.filter(pl.col("kind") == 2).height,
            "wait_ms": float(waits.get_column("length").sum()) / 1000,
            "steps": steps or None, "step_ms": step_ms, "stacks": self._stacks,
        }  # fmt: skip
        row = {key: round(one, 6) if isinstance(one, float) else one for key, one in row.items()}
        self.parsed.add("profile", pl.DataFrame([row], schema_overrides=_REAL))
        self._quote(work.head(1), None)
        longest = gaps.sort("gap", descending=True).head(CITED).sort("line")
        self.parsed.add(
            "profile_gap",
            longest.select(
                "line", pl.lit(self._texts[device]).alias("device"),
                at_ms=((pl.col("free") - first) / 1000).round(6),
                gap_ms=(pl.col("gap") / 1000).round(6), host=pl.col("host"),
                before=pl.col("before").replace_strict(self._texts, default=None, return_dtype=pl.String),
                after=pl.col("name").replace_strict(self._texts, default=None, return_dtype=pl.String),
            ),
        )  # fmt: skip
        self._quote(longest, "gap")
        if stages.height:
            self.parsed.add("profile_stage", stages.with_columns(device=pl.lit(self._texts[device])))

    def _stages_of(self, device: int, work: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
        """What each stage took: its ranges on the device, or else those of the host that launched it."""
        own = marks.filter(pl.col("own") == 1, pl.col("place") == device)
        rows = []
        for (stage,), mine in (own if own.height else marks.filter(pl.col("own") == 0)).group_by(
            "stage", maintain_order=True
        ):
            mine = mine.sort("start")
            ranges = mine.select(begin="start", until=pl.col("start") + pl.col("length"), lane="lane")
            by, lane = ("start", "stream") if own.height else ("launched_at", "thread")
            inside = (
                work.drop_nulls(by).sort(by)
                .join_asof(ranges, left_on=by, right_on="begin", by_left=lane, by_right="lane",
                           strategy="backward", check_sortedness=False)
                .filter(pl.col(by) < pl.col("until"))
            )  # fmt: skip
            rows.append({
                "line": int(mine.get_column("line")[0]), "stage": self._texts[int(str(stage))],
                "name": self._texts[int(mine.get_column("name")[0])], "ranges": mine.height,
                "range_ms": float(mine.get_column("length").sum()) / 1000,
                "kernel_ms": float(inside.get_column("length").sum()) / 1000,
                "kernels": inside.height, "on_device": bool(own.height),
            })  # fmt: skip
            self._quote(mine.head(1), None)
        return pl.DataFrame(rows, schema_overrides=_REAL) if rows else pl.DataFrame()

    def _quote(self, rows: pl.DataFrame, gap: str | None) -> None:
        for row in rows.iter_rows(named=True):
            said = {"name": self._texts[row["name"]], "ts": row["start"], "dur": row["length"]}
            text = json.dumps(said)
            if gap:
                text += f"  after {row['gap'] / 1000:.3f} ms without work"
            self.quotes[row["line"]] = text


_REAL = {name: pl.Float64 for name in (
    "window_ms", "busy_ms", "gap_ms", "host_gap_ms", "pause_ms", "wait_ms", "step_ms", "range_ms", "kernel_ms",
)} | {"steps": pl.Int64}  # fmt: skip


def _schema(columns: dict[str, array[Any]]) -> dict[str, Any]:
    return {name: pl.Float64 if one.typecode == "d" else pl.Int64 for name, one in columns.items()}


def _steps(stages: pl.DataFrame, marks: pl.DataFrame, texts: dict[int, str]) -> tuple[int, float | None]:
    """How many steps the marks count, and the median time from one to the next."""
    if not stages.height:
        return 0, None
    named = {text: number for number, text in texts.items()}
    stage = next((one for one in STEPS if one in set(stages.get_column("stage"))), None)
    if stage is None:
        return 0, None
    mine = marks.filter(pl.col("stage") == named[stage])
    own = mine.filter(pl.col("own") == 1)
    starts = (own if own.height else mine).unique(["place", "start"]).sort("start").get_column("start")
    median = starts.diff().drop_nulls().median()
    return starts.len(), float(median) / 1000 if isinstance(median, float) else None


def _number(value: Any) -> float | None:
    """A time of an event: some writers quote it."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < 1e18 else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else -1


def read(parser: Parser, pieces: Iterable[bytes]) -> Parsed:
    """The rows of a whole trace."""
    reader = Reader(parser)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()
