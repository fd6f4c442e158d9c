"""A fact: one figure of a run, with its unit, its interval and where it comes from.

Every metric is a SQL file of facts/ whose leading comment is TOML and whose rows are samples:

    run, value
    kind             what the row was read from; of a run only the most direct kind counts
    weight           what a sample stands for in a pooled mean: steps, tokens, time (1 if not told)
    steps            how many steps it stands for, as far as known
    unit_id          what it belongs to: samples of one request resemble each other. Where no row
                     has one, stretches of neighbouring rows are the units
    stat             the aggregate that the source gives of samples it does not show; of several
                     rows the last counts
    source, line     its place in a file

The header:

    title, tells     its name, and its definition
    unit, better     "higher" or "lower"
    kinds            the most direct first
    aggregates       those that make sense, the usual one first:
                     pooled     sum of weight x value / sum of weights, each step or token once
                     mean       over units, each once
                     median, p90, p99, min, max, sum, last    of samples, each once

A pooled value and a mean have Student's interval over units, quantiles Woodruff's. What is counted
(min, max, sum, last) is a statement about the run itself and needs none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import duckdb

from specdiag import bundled, space
from specdiag.estimate import Estimate, places, ratio
from specdiag.staging import LARGEST
from specdiag.store import Store

QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}
EXACT = {
    "min": "min(value)", "max": "max(value)", "sum": "sum(value)",
    "last": "arg_max(value, (source, line))",
}  # fmt: skip
AGGREGATES = ("pooled", "mean", *QUANTILES, *EXACT)
STRETCHES = 30  # of neighbouring rows, at most

_COLUMNS = {
    "run": "VARCHAR", "kind": "VARCHAR", "stat": "VARCHAR", "value": "DOUBLE", "weight": "DOUBLE",
    "steps": "DOUBLE", "unit_id": "VARCHAR", "source": "INTEGER", "line": "BIGINT",
}  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """A file of facts/; `name` is its stem."""

    name: str
    sql: str
    title: str
    tells: str
    unit: str
    better: str  # higher, lower
    kinds: tuple[str, ...]
    aggregates: tuple[str, ...]

    @property
    def aggregate(self) -> str:
        """The usual one."""
        return self.aggregates[0]


@dataclass(frozen=True)
class Fact:
    """A metric of a run."""

    run: str
    metric: str
    aggregate: str
    value: float
    unit: str
    kind: str  # what it was read from
    interval: tuple[float, float] | None = None  # 95 %
    units: int = 0  # independent ones: requests, or stretches of neighbouring rows
    by: str = "row"  # request, stretch, row
    rows: int = 0
    steps: float | None = None  # that it stands for, as far as known

    @property
    def exact(self) -> bool:
        """Counted of the run itself, so that it needs no interval."""
        return self.aggregate in EXACT


@cache
def metrics() -> dict[str, Metric]:
    """Every file of facts/ by its name."""
    found = {}
    for path in sorted(bundled.FACTS.glob("*.sql")):
        sql = path.read_text(encoding="utf-8")
        data = bundled.header(sql)
        lists: dict[str, Any] = {key: tuple(data.pop(key)) for key in ("kinds", "aggregates")}
        found[path.stem] = Metric(path.stem, sql, **lists, **data)
    return found


def facts(store: Store) -> list[Fact]:
    """All facts of all runs, by run and metric, each with the usual aggregate.

    Where a source gives only another aggregate of what it measured, that one is told.
    """
    found: list[Fact] = []
    for metric in metrics().values():
        found += space.patiently(store.db, partial(_usual, store.db, metric))
    return sorted(found, key=lambda one: (one.run, one.metric))


def _usual(db: duckdb.DuckDBPyConnection, metric: Metric) -> list[Fact]:
    """A metric of every run, each with the first aggregate that can be told."""
    sample = collect(db, metric)
    found: list[Fact] = []
    told: set[str] = set()
    for aggregate in metric.aggregates:
        if told >= sample.runs:
            break
        more = [one for one in aggregated(db, sample, aggregate) if one.run not in told]
        told |= {one.run for one in more}
        found += more
    return found


def measure(store: Store, metric: Metric, aggregate: str) -> list[Fact]:
    """One metric of every run that has samples of it."""
    sample = collect(store.db, metric)
    return aggregated(store.db, sample, aggregate) if sample.runs else []


@dataclass(frozen=True)
class Sample:
    """What table fact_sample holds: the samples of a metric, with the columns above."""

    metric: Metric
    runs: set[str]
    mixed: bool  # some run has several kinds, or aggregates of samples that are not shown


def collect(db: duckdb.DuckDBPyConnection, metric: Metric) -> Sample:
    """Fill table fact_sample."""
    empty = ", ".join(f"NULL::{type} AS {name}" for name, type in _COLUMNS.items())
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE fact_sample AS
        SELECT run, kind, stat, value, coalesce(weight, 1) AS weight, steps, unit_id, source, line
        FROM (SELECT {empty} WHERE false UNION ALL BY NAME ({metric.sql}))
        WHERE abs(value) <= {LARGEST} AND coalesce(weight > 0 AND weight <= {LARGEST}, true)"""
    )
    kinds = db.execute("SELECT run, kind, stat FROM fact_sample GROUP BY ALL").fetchall()
    runs = {run for run, _, _ in kinds}
    return Sample(metric, runs, len(kinds) > len(runs) or any(stat for _, _, stat in kinds))


def aggregated(db: duckdb.DuckDBPyConnection, sample: Sample, aggregate: str) -> list[Fact]:
    """The metric of every run, of the samples that `collect` left."""
    metric = sample.metric
    if sample.mixed:
        _keep(db, metric.kinds, aggregate)
    table = "fact_kept" if sample.mixed else "fact_sample"
    rows = _dicts(
        db.execute(
            f"""SELECT run, any_value(kind) AS kind, count(*) AS rows, sum(steps) AS steps,
                count(stat) > 0 AS given, count(unit_id) > 0 AS requests,
                {EXACT.get(aggregate, EXACT["last"])} AS value
            FROM {table} GROUP BY run ORDER BY run"""
        )
    )
    estimates: dict[str, tuple[Estimate, tuple[float, float] | None]] = {}
    sampled = not all(row["given"] for row in rows)
    if sampled and aggregate in QUANTILES:
        estimates = _quantiles(db, table, QUANTILES[aggregate])
    elif sampled and aggregate not in EXACT:
        estimates = _means(db, table, aggregate)
    found = []
    for row in rows:
        estimate, interval = estimates.get(row["run"], (None, None))
        if row["given"] or estimate is None:
            estimate, interval = Estimate(row["value"], None, row["rows"]), None
        by = "row" if row["given"] or aggregate in EXACT else "stretch"
        found.append(
            Fact(
                row["run"], metric.name, aggregate, estimate.value, metric.unit, row["kind"],
                interval, estimate.units, "request" if row["requests"] else by,
                row["rows"], row["steps"],
            )
        )  # fmt: skip
    return found


def _keep(db: duckdb.DuckDBPyConnection, kinds: Sequence[str], aggregate: str) -> None:
    """Table fact_kept: of each run the samples of its most direct kind that has the aggregate."""
    db.execute(
        """CREATE OR REPLACE TEMP TABLE fact_kept AS
        SELECT s.* FROM fact_sample s JOIN (
            SELECT run, arg_min(kind, list_position($kinds, kind)) AS kind,
                arg_max((source, line), (source, line)) FILTER (stat IS NOT NULL) AS last
            FROM fact_sample WHERE stat IS NULL OR stat = $aggregate GROUP BY run
        ) best ON best.run = s.run AND best.kind = s.kind
        WHERE s.stat IS NULL OR (s.stat = $aggregate AND (s.source, s.line) = best.last)""",
        {"kinds": list(kinds), "aggregate": aggregate},
    )


# Rows of a request, or of a stretch of neighbouring rows: as many stretches as the root of the
# number of rows, so that they grow with it and so does their number.
_UNITS = f"""
WITH extent AS (
    SELECT run, source, min(line) AS low, max(line) - min(line) + 1 AS lines, count(*) AS rows
    FROM {{table}} WHERE unit_id IS NULL GROUP BY run, source
),
cut AS (
    SELECT *, greatest(1, round(rows / sum(rows) OVER all_of
        * least({STRETCHES}, greatest(5, floor(sqrt(sum(rows) OVER all_of)))))) AS parts
    FROM extent WINDOW all_of AS (PARTITION BY run)
),
unit AS (
    SELECT k.run, k.unit_id, c.source, floor((k.line - c.low) * c.parts / c.lines) AS part,
        sum({{x}})::DOUBLE AS x, sum({{y}})::DOUBLE AS y
    FROM {{table}} k
    LEFT JOIN cut c ON c.run = k.run AND c.source = k.source AND k.unit_id IS NULL
    {{join}} GROUP BY ALL
)
"""
_SUMS = """SELECT run, sum(x) AS x, sum(y) AS y, sum(x * x) AS xx, sum(x * y) AS xy,
    sum(y * y) AS yy, count(*) AS units, avg(y / x) AS mean, stddev_samp(y / x) AS spread
FROM unit GROUP BY run"""


def _means(
    db: duckdb.DuckDBPyConnection, table: str, aggregate: str
) -> dict[str, tuple[Estimate, tuple[float, float] | None]]:
    sql = _UNITS.format(table=table, x="weight", y="weight * value", join="") + _SUMS
    found = {}
    for row in _dicts(db.execute(sql)):
        one = ratio(row)
        if one is None:
            continue
        if aggregate == "mean":
            units = row["units"]
            error = None if one.error is None else row["spread"] / math.sqrt(units)
            one = Estimate(row["mean"], error, units)
        found[row["run"]] = one, one.interval
    return found


def _quantiles(
    db: duckdb.DuckDBPyConnection, table: str, p: float
) -> dict[str, tuple[Estimate, tuple[float, float] | None]]:
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE fact_quantile AS
        SELECT run, quantile_cont(value, {p:f}) AS value, count(*) AS rows
        FROM {table} GROUP BY run"""
    )
    below = "(k.value <= q.value)::INTEGER"
    sql = _UNITS.format(table=table, x="1", y=below, join="JOIN fact_quantile q ON q.run = k.run")
    values = dict(db.execute("SELECT run, (value, rows) FROM fact_quantile").fetchall())
    found: dict[str, tuple[Estimate, tuple[float, float] | None]] = {}
    wanted: dict[str, tuple[float, float]] = {}
    for row in _dicts(db.execute(sql + _SUMS)):
        share = ratio(row)
        value, rows = values[row["run"]]
        found[row["run"]] = Estimate(value, None, row["units"]), None
        if share is not None and (ends := places(p, share, rows)) is not None:
            wanted[row["run"]] = ends
    for run, low, high in _at(db, table, wanted):
        found[run] = found[run][0], (low, high)
    return found


def _at(
    db: duckdb.DuckDBPyConnection, table: str, wanted: dict[str, tuple[float, float]]
) -> list[tuple[str, float, float]]:
    """Two quantiles of each run; every run has its own, so they are read off its sorted values."""
    if not wanted:
        return []
    return db.execute(
        f"""SELECT run, sorted[floor((len(sorted) - 1) * low)::BIGINT + 1],
            sorted[ceil((len(sorted) - 1) * high)::BIGINT + 1]
        FROM (SELECT run, list_sort(list(value)) AS sorted FROM {table} GROUP BY run)
        JOIN (SELECT unnest(?) AS run, unnest(?) AS low, unnest(?) AS high) USING (run)""",
        [list(wanted), [low for low, _ in wanted.values()], [high for _, high in wanted.values()]],
    ).fetchall()


def _dicts(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
