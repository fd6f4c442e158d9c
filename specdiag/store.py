"""Files into DuckDB: parsed blocks become rows, rows become runs, and the door is locked."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from specdiag import baseline as baselines
from specdiag import bundled, halves, mixed, opening, reading, replay, rotation, runs, space
from specdiag.cache import Cache
from specdiag.errors import Notice
from specdiag.parser import Parser
from specdiag.reading import Progress, Reading
from specdiag.source import Source
from specdiag.staging import DATA, WAITING, Staging
from specdiag.timings import OFF, Timings

DECODED = (  # the columns of table decode that derive/ fills
    "complete", "commit_len", "steps", "after_prefill", "idle", "usable", "steady",
)  # fmt: skip
NARROW = ("decode", "prefill")
_USED = {"03_decode": ("decode", "prefill")}  # raw rows, by the last reader
_FROM = {  # files of derive/ that do nothing where no parser gave rows for any of these tables
    "02_steps": ("step",),
    "04_requests": ("request",),
    "05_metrics": ("metric", "acceptance"),
    "06_benchmarks": ("benchmark",),
}
_BETWEEN = ("12_peers", "13_pairs")  # the same where there is one run
DERIVED = ("decode", "step", "request", "problem", "metric")  # by derive/; the rest are copied

# Events that only a server which really starts prints, and where a part names its algorithm.
_START_KINDS = ("weights", "capacity", "capture_begin", "ready", "hook")
_KNOWN = {
    "config": "false",
    "event": f"bool_or(coalesce(kind, '') IN {_START_KINDS})",
}
_ALGORITHM = {
    "config": "CASE WHEN key IN ('speculative_algorithm', 'method') THEN value END",
    "benchmark": "algorithm",
    "step": "algorithm",
}
# Of a server its arguments, of a trace the target; a client may call a model by another name. In a
# cache of downloads the last folder is a revision.
_MODEL = r"""CASE WHEN key IN ('model_path', 'model', 'target') THEN coalesce(
    nullif(regexp_extract(value, 'models--[^/\\]*--([^/\\]+)', 1), ''),
    regexp_extract(rtrim(value, '/\'), '[^/\\]+$')) END"""

# Ranks and nodes of one server were started alike, two servers with logs side by side were not.
_LAYOUT = (("tp_size", "tensor_parallel_size"), ("dp_size", "data_parallel_size"))


@dataclass
class Store:
    """The tables of schema.sql, filled and locked, with what happened on the way."""

    db: duckdb.DuckDBPyConnection
    readings: list[Reading]
    notices: list[Notice]

    def __deepcopy__(self, memo: dict[int, Any]) -> Store:
        """The same one: a connection cannot be copied, and copies of a diagnosis share it."""
        return self

    def seal(self) -> duckdb.DuckDBPyConnection:
        """The connection, in which nothing can be set any more: for SQL that may be any."""
        ((locked,),) = self.db.execute("SELECT current_setting('lock_configuration')").fetchall()
        if not locked:
            self.db.execute("SET lock_configuration = true")
        return self.db

    def rows(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """The result of a query as dicts."""
        cursor = self.db.execute(sql, parameters)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def open_empty(memory: str = "", threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A database with every table of schema.sql, empty; see `space.connect`."""
    db = space.connect(memory, threads)
    db.execute(bundled.SCHEMA.read_text(encoding="utf-8"))
    return db


def lock(db: duckdb.DuckDBPyConnection, saved: Sequence[Path] = ()) -> None:
    """No file, no network, no extension, and no way to change that: for SQL from rule files.

    What else can be set, a SELECT cannot set, and rules are nothing else. `saved` are databases
    that may be written all the same.
    """
    # DuckDB asks for each of the files that it keeps beside a database.
    beside = ("", ".wal", ".wal.checkpoint", ".wal.recovery")
    if saved:
        allowed = [f"{path}{end}" for path in saved for end in beside]
        db.execute("SET allowed_paths = ?", [allowed])
    db.execute("SET enable_external_access = false")


def load(
    files: list[Source], parsers: list[Parser], progress: Progress | None = None,
    baseline: str = "", saved: Sequence[Path] = (), threads: int | None = None, memory: str = "",
    cache: Cache | None = None, timings: Timings = OFF,
) -> Store:  # fmt: skip
    """Read all files into a locked store.

    `baseline` names a run that the others are compared with, beside those of the files marked as
    such; `saved` are the databases that it will be copied to. `threads` and `memory` bound what
    DuckDB takes, as in "1GB"; no answer depends on them, but with little memory for many rows there
    may be none: then a rule says so. Raises SpecdiagError when there is no such run.
    """
    db = open_empty(memory, threads)
    with contextlib.ExitStack() as failed:
        failed.callback(space.leave, db)
        readings = _fill(db, files, parsers, progress, baseline, threads, cache, timings)
        with timings.part("replay"):
            doubts = space.patiently(db, partial(replay.prove, db)) + baselines.incomparable(db)
        lock(db, saved)
        failed.pop_all()
    notes = list(dict.fromkeys(note for one in readings for note in one.source.notices))
    return Store(db, readings, notes + doubts)


def _fill(
    db: duckdb.DuckDBPyConnection, files: list[Source], parsers: list[Parser],
    progress: Progress | None, baseline: str, threads: int | None, cache: Cache | None,
    timings: Timings,
) -> list[Reading]:  # fmt: skip
    """Read all files into the tables."""
    staging = Staging(db)
    readings = []
    files = [one for file in files for one in mixed.parted(file, parsers)]
    files = rotation.oldest_first(files)
    last: dict[tuple[str, str], Reading] = {}  # what was read of each log
    with contextlib.closing(opening.in_turn(files, parsers, threads, cache)) as turns:
        for number, file in enumerate(files):
            told = progress if progress and not file.again else (lambda done: None)
            with timings.part("reading", file.name) as part:
                before = last.get(rotation.log(file))
                one = reading.read(staging, number, next(turns), told, before)
                part.done(one.format, one.source.size(), one.lines)
            readings.append(one)
            last[rotation.log(file)] = one
    staging.finish()
    space.have_read(db)
    staging.narrow("decode", *DECODED)
    staging.narrow("prefill")
    _assign(db, readings, [table for table in DATA if staging.rows[table]])
    baselines.state(db, readings, baseline)
    _fill_sources(db, readings)
    _derive(db, staging, threads, timings)
    db.execute(
        "INSERT INTO published SELECT * FROM read_csv(?, header = true, auto_detect = true)",
        [str(bundled.PUBLISHED)],
    )
    return readings


def _assign(db: duckdb.DuckDBPyConnection, readings: list[Reading], tables: list[str]) -> None:
    """Table part: the run, and the place in it, of every (source, life, arm) in these tables."""
    files = [
        runs.File(
            number,
            reading.source.name,
            reading.format,
            reading.source.given,
            reading.source.baseline,
            reading.source.own.name if reading.source.own else "",
        )
        for number, reading in enumerate(readings)
        if reading.format
    ]
    servers = {file.source for file in files if file.format.endswith("_server")}
    # Table by table, in few columns: texts of all rows side by side would take a second a gigabyte.
    union = " UNION ALL ".join(
        f"""SELECT source, life, coalesce(arm, '') AS arm, {_KNOWN.get(table, "true")} AS known,
                max(upper({_ALGORITHM.get(table, "NULL")})) AS algorithm,
                max(lower({_MODEL if table == "config" else "NULL"})) AS model,
                {_layout(table)} AS layout,
                min({time}) AS started, max({time}) AS ended
            FROM raw.{table} GROUP BY source, life, coalesce(arm, '')"""
        for table in tables or DATA
        for time in ["NULL::TIMESTAMP" if table == "step" else "time"]
    )
    rows = db.execute(
        f"""SELECT source, life, arm, NOT bool_or(known), max(algorithm), max(model), max(layout),
                min(started), max(ended)
            FROM ({union}) GROUP BY source, life, arm ORDER BY source, life, arm"""
    ).fetchall()
    parts = [
        runs.Part(source, life, arm, source in servers, empty, algorithm, model, start, end, layout)
        for source, life, arm, empty, algorithm, model, layout, start, end in rows
    ]
    db.execute(
        "CREATE TABLE part (source INTEGER, life INTEGER, arm VARCHAR, run VARCHAR, place INTEGER)"
    )
    assigned = [
        (part.source, part.life, part.arm, run, place)
        for part, run, place in runs.assign(files, parts)
    ]
    if assigned:  # at once: thousands of rows one by one take seconds
        columns = [list(column) for column in zip(*assigned, strict=True)]
        db.execute("INSERT INTO part SELECT " + ", ".join(["unnest(?)"] * 5), columns)


def _layout(table: str) -> str:
    """The expression of a part's sizes in parallel, one entry each."""
    if table != "config":
        return "NULL::VARCHAR[]"
    values = (f"max(CASE WHEN key IN {names} THEN value END)" for names in _LAYOUT)
    return f"[{', '.join(values)}]"


def _derive(
    db: duckdb.DuckDBPyConnection, staging: Staging, threads: int | None, timings: Timings
) -> None:
    """From schema raw to the tables, the rows of each let go as soon as they are used."""
    for table in DATA:
        if table not in DERIVED and staging.rows[table]:
            computed = f"getvariable('computed_{table}_columns')" if table in NARROW else "[]"
            db.execute(
                f"""INSERT INTO {table} BY NAME
                    SELECT COLUMNS(lambda name: name NOT IN {computed}) FROM (
                        SELECT p.run, d.* EXCLUDE (number, life, arm) FROM raw.{table} d
                        JOIN part p ON p.source = d.source AND p.life = d.life
                            AND p.arm = coalesce(d.arm, '')
                    )"""
            )
    # Frames come without a row count, and for few rows DuckDB would compare every pair.
    db.execute("SET asof_loop_join_threshold = 0")
    for path in sorted(bundled.DERIVE.glob("*.sql")):
        tables = _FROM.get(path.stem)
        if tables and not any(staging.rows[table] for table in tables):
            continue
        if path.stem in _BETWEEN and len(db.execute("FROM run LIMIT 2").fetchall()) < 2:
            continue
        with timings.part("derived tables", path.name):
            for one in db.extract_statements(path.read_text(encoding="utf-8")):
                space.patiently(db, partial(_execute, db, one, staging.rows["decode"], threads))
        for table in _USED.get(path.stem, ()):
            staging.release(table)
    db.execute("DROP SCHEMA raw CASCADE")
    for table in WAITING:
        staging.release(table)


def _execute(
    db: duckdb.DuckDBPyConnection, one: duckdb.Statement, decoded: int, threads: int | None
) -> None:
    if halves.FIRST in one.query:
        halves.apply(db, one.query, decoded, threads)
    else:
        db.execute(one)


def _fill_sources(db: duckdb.DuckDBPyConnection, readings: list[Reading]) -> None:
    for number, one in enumerate(readings):
        db.execute(
            "INSERT INTO source VALUES (?, ?, ?, ?, ?, ?)",
            [number, one.source.name, one.format or None, one.lines,
             round(one.parsed, 4), one.source.size()],
        )  # fmt: skip
        for (table, name), count in sorted(one.unread.items()):
            db.execute("INSERT INTO unread VALUES (?, ?, ?, ?)", [number, table, name, count])
