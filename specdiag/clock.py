"""When a collector took a line: the time in its record, for lines that print none or no year.

A line's own time is that of its server; one that a line has not is put on the same clock. Where the
lines print no year, all of them take the records' time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import polars as pl

from specdiag import envelope
from specdiag.parser import Parsed, Parser

# Docker, CloudWatch, Google Cloud, Loki, Fluent Bit, Elastic, journald, Datadog, Python's loggers,
# Azure.
PATHS = (
    "time", "timestamp", "ts", "@timestamp", "__REALTIME_TIMESTAMP", "_source.@timestamp",
    "_source.timestamp", "content.timestamp", "attributes.timestamp", "date", "datetime", "asctime",
    "jsonPayload.time", "jsonPayload.timestamp", "TimeGenerated",
)  # fmt: skip
WRAPPER = "^"  # instead of a path: it stands in what is put before the lines
DAYLESS = "["  # instead of a path: the lines have a clock, but somebody cut the date off
CLOCK = r"^\[([0-9]{2}:[0-9]{2}:[0-9]{2})([ \].,])"  # as in such lines
NO_DAY = "2000-01-01"  # stands for the date that nobody knows; no report prints it
SOME_DAY = f"[{NO_DAY} ${{1}}${{2}}"  # what such lines read like then
FALLS = 5  # of so many lines tell that a file has its newest line first
BESIDE = (
    100  # lines with a time of their own in a table of a block, by which the clocks are compared
)
LATE = 60 * 1_000_000  # microseconds that a collector may take longer for one line than for another
_ISO = (
    r"(?P<day>20[0-9]{2}-[0-9]{2}-[0-9]{2})[T ](?P<second>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,](?P<part>[0-9]{1,9}))?(?P<zone>Z| ?[+-][0-9]{2}:?[0-9]{2})?"
)
_UNITS = ((17, 1e-3), (14, 1), (11, 1e3), (8, 1e6))  # digits of an epoch time, microseconds of one
_ZONES = 15 * 60 * 1_000_000  # microseconds that clocks of different zones differ by


def of(lines: Sequence[str], parser: Parser, inside: str, wrapper: str) -> str:
    """Where the time is in most of the records or wrappers of a file's first lines, if anywhere."""
    whole = pl.DataFrame({"text": [line for line in lines if line.strip()]})
    frame = whole.head(envelope.LOOKED_AT)
    timed = "(?P<time>" in parser.prefix
    if not inside and timed and "%Y" in parser.time_format and _dayless(whole, parser, wrapper):
        return DAYLESS
    paths = PATHS if inside else (WRAPPER,) if wrapper and not timed else ()
    for path in paths:
        found = frame.select(time(path, wrapper)).to_series()
        if frame.height and 2 * found.count() > frame.height:
            return path
    return ""


def time(path: str, wrapper: str = "") -> pl.Expr:
    """The time of each record in column text, in UTC and microseconds; of what is none, null."""
    text = pl.col("text")
    if path == WRAPPER:
        return _iso(text.str.extract(f"({wrapper})", 1))
    value = text.str.json_path_match(envelope.place(path))
    number = value.cast(pl.Float64, strict=False)
    since = pl.coalesce(
        pl.when(number >= 10.0**digits).then(number * unit) for digits, unit in _UNITS
    )
    epoch = since.cast(pl.Int64, strict=False).cast(pl.Datetime("us"))
    return pl.coalesce(epoch, _iso(value))


def _dayless(frame: pl.DataFrame, parser: Parser, wrapper: str) -> bool:
    """Whether a clock without a date is all that lines have, and none of them is after midnight.

    Other programs print such a clock among a server's lines, which have a date.
    """
    text = pl.col("text").str.replace(wrapper, "") if wrapper else pl.col("text")
    clocks = frame.select(text.str.extract(CLOCK, 1)).to_series().drop_nulls()
    if clocks.len() < FALLS:
        return False
    steps = clocks.str.to_time("%H:%M:%S", strict=False).cast(pl.Duration("us")).diff()
    if int((steps < -timedelta(hours=1)).sum()):
        return False
    dated = frame.select(text.str.extract_groups(parser.prefix).struct.field("time"))
    return not dated.to_series().count()


def newest_first(lines: Sequence[str], path: str, wrapper: str) -> bool:
    """Whether the times of a file's first lines nearly all fall."""
    found = pl.DataFrame({"text": lines}, {"text": pl.String}).select(time(path, wrapper))
    steps = found.to_series().drop_nulls().diff().dt.total_microseconds()
    falls = int((steps < 0).sum())
    return falls >= FALLS and falls > 9 * int((steps > 0).sum())


def _iso(value: pl.Expr) -> pl.Expr:
    groups = value.str.extract_groups(_ISO)
    part, zone = groups.struct.field("part"), groups.struct.field("zone")
    second = pl.concat_str(
        groups.struct.field("day"), pl.lit(" "), groups.struct.field("second")
    ).str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us")
    micros = part.str.pad_end(6, "0").str.head(6).cast(pl.Int64, strict=False).fill_null(0)
    hours = zone.str.extract(r"([+-][0-9]{2})", 1).cast(pl.Int64, strict=False).fill_null(0)
    minutes = zone.str.extract(r"([0-9]{2})$", 1).cast(pl.Int64, strict=False).fill_null(0)
    east = hours * 60 + pl.when(zone.str.contains("-")).then(-minutes).otherwise(minutes)
    return second + pl.duration(microseconds=micros) - pl.duration(minutes=east)


def times(
    parser: Parser, parsed: Parsed, left: pl.DataFrame, outer: pl.DataFrame, path: str, wrapper: str
) -> pl.DataFrame:
    """(line, at) of a block: of all lines, or of those that are left where the others have a time,
    and of some of the others.

    `outer` is (line, outer): what each was taken out of.
    """
    done = [one for frames in parsed.frames.values() for one in frames]
    if "%Y" in parser.time_format and all(map(_timed, done)):
        line = pl.col("line").cast(left.schema["line"])
        beside = [one.select(line).gather_every(one.height // BESIDE + 1) for one in done]
        wanted = pl.concat([left.select("line"), *beside]).unique()
        outer = outer.join(wanted, on="line", how="semi")
    outer = outer.unique("line", keep="first").rename({"outer": "text"})
    return outer.select("line", at=time(path, wrapper))


def told(parser: Parser, parsed: Parsed, times: pl.DataFrame) -> None:
    """Give the rows that have no time that of their record; `times` is (line, at).

    Unless the records' times are no clock that goes as the server's does: those of an import later.
    """
    yearless = "%Y" not in parser.time_format
    joined = {
        table: [one.join(times, on="line", how="left", maintain_order="left") for one in frames]
        for table, frames in parsed.frames.items()
    }
    apart = [
        one.select((pl.col("time") - pl.col("at")).dt.total_microseconds().drop_nulls())
        for frames in joined.values() for one in frames
        if not yearless and _timed(one)
    ]  # fmt: skip
    zone = 0
    if apart and (ahead := pl.concat(apart).to_series().sort()).len():
        low, middle, high = (ahead[round(share * (ahead.len() - 1))] for share in (0.1, 0.5, 0.9))
        if high - low > LATE:
            return
        zone = round(middle / _ZONES) * _ZONES
    at = pl.col("at") + pl.duration(microseconds=zone)
    for table, frames in joined.items():
        parsed.frames[table] = [
            one.with_columns(
                time=pl.coalesce("time", at) if _timed(one) and not yearless else at
            ).drop("at")
            for one in frames
        ]


def _timed(frame: pl.DataFrame) -> bool:
    return "time" in frame.columns and frame.schema["time"] == pl.Datetime("us")
