"""What a run measured, as units that can be compared: requests, repeats, or rows in their order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdiag.compare.change import Unit
from specdiag.store import Store

TABLE = Path(__file__).with_name("samples.sql")
ROWS = 1000  # of a kind without units: more are put together, neighbours with neighbours
KINDS = ("step", "request", "decode", "acceptance", "benchmark")  # the closest look first

# A metric is y over x, times a factor; of those that have no unit of their own see `_PARTS`.
METRICS = {
    "tokens_per_s": ("seconds", "tokens", 1.0),
    "commit_len": ("steps", "committed", 1.0),
    "step_ms": ("timed", "ms", 1.0),
    "ttft_ms": ("firsts", "first_ms", 1.0),
    "itl_ms": ("gaps", "gap_ms", 1.0),
}
_NUMBERS = itertools.count()
Series = dict[str, Unit]  # unit -> (x, y)


@dataclass(frozen=True)
class Asked:
    """A request, as far as it can be told apart: what it is paired by."""

    unit: str
    name: str | None
    prompt: str | None
    length: int | None
    end: int | None  # positions that its steps cover


class Samples:
    """The rows of one run. `window` cuts the answers of traced requests to a common length."""

    def __init__(self, store: Store, run: str) -> None:
        self.store, self.run = store, run
        # A name of its own for each: two arms of one store stand side by side.
        self.table = f"compared_{next(_NUMBERS)}"
        self.store.db.execute(self._about(TABLE.read_text(encoding="utf-8")))

    def _about(self, sql: str) -> str:
        return sql.replace("compared", self.table).replace("$run", _text(self.run))

    def kinds(self) -> dict[str, bool]:
        """Kinds of rows, and whether their rows say what they belong to."""
        return {
            row["kind"]: row["named"]
            for row in self.store.rows(
                self._about(
                    "SELECT kind, bool_and(unit IS NOT NULL) AS named FROM compared GROUP BY kind"
                )
            )
        }

    def asked(self, kind: str) -> list[Asked]:
        """The requests of a kind in their order."""
        return [
            Asked(**row)
            for row in self.store.rows(
                self._about("""SELECT unit, any_value(name) AS name, any_value(prompt) AS prompt,
                    any_value(length)::BIGINT AS length, max(pos + committed)::BIGINT AS "end"
                FROM compared WHERE kind = ? AND unit IS NOT NULL GROUP BY unit
                ORDER BY min(nth)"""),
                [kind],
            )
        ]

    def contexts(self, kind: str) -> tuple[float, float] | None:
        """The shortest and the longest context of a kind."""
        row = self.store.rows(
            self._about("SELECT min(ctx) AS low, max(ctx) AS high FROM compared WHERE kind = ?"),
            [kind],
        )[0]
        return None if row["low"] is None else (row["low"], row["high"])

    def measured(self, kind: str, cut: Cut) -> dict[str, Series]:
        """Every metric of a kind, by unit; of rows without units their number stands for one."""
        found: dict[str, Series] = {}
        columns = ", ".join(
            f"sum({x}) FILTER ({x} > 0 AND {y} IS NOT NULL)::DOUBLE, "
            f"sum({y}) FILTER ({x} > 0)::DOUBLE"
            for x, y, _ in METRICS.values()
        )
        cursor = self.store.db.execute(
            self._about(f"SELECT key, {columns} FROM ({_CUT}) GROUP BY key ORDER BY min(nth)"),
            _given(kind, cut),
        )
        for key, *sums in cursor.fetchall():
            for name, x, y in zip(METRICS, sums[::2], sums[1::2], strict=True):
                _take(found, name, key, x, y)
        for sql in (_POSITIONS, _RANGES, _STAGES):
            cursor = self.store.db.execute(self._about(sql), _given(kind, cut))
            for row in cursor.fetchall():
                _take(found, *row)
        return found

    def steps(self, kind: str) -> float:
        """How many steps stand behind the rows of a kind."""
        sql = self._about("SELECT sum(steps) AS n FROM compared WHERE kind = ?")
        row = self.store.rows(sql, [kind])[0]
        return float(row["n"] or 0)

    def starts(self, ends: Mapping[str, int]) -> dict[str, dict[int, float]]:
        """unit -> position -> tokens that the step which starts there commits."""
        found: dict[str, dict[int, float]] = {}
        for unit, pos, committed in self.store.db.execute(
            self._about(
                """SELECT unit, pos::BIGINT, committed FROM compared
                WHERE kind = 'step' AND committed > 0 AND pos IS NOT NULL AND unit IS NOT NULL
                ORDER BY nth"""
            )
        ).fetchall():
            if unit in ends and pos < ends[unit]:
                found.setdefault(unit, {}).setdefault(pos, committed)
        return found

    def texts(self) -> dict[str, list[int]]:
        """The tokens that each traced request emitted, where its trace has no gap."""
        return {
            row["request"]: row["tokens"]
            for row in self.store.rows(
                """SELECT request, flatten(list(emitted ORDER BY source, line)) AS tokens FROM step
                WHERE run = ? AND request IS NOT NULL AND NOT coalesce(warmup, false)
                GROUP BY request HAVING count(*) = count(emitted)""",
                [self.run],
            )
        }

    def early(self, kind: str) -> tuple[float, float] | None:
        """Median step time of the first tenth of the rows, and of the rest."""
        row = self.store.rows(
            self._about(
                """SELECT median(ms / timed) FILTER (nth <= n / 10) AS first,
                    median(ms / timed) FILTER (nth > n / 10) AS rest
                FROM (SELECT *, count(*) OVER () AS n FROM compared WHERE kind = ? AND timed > 0)
                WHERE n >= 30"""
            ),
            [kind],
        )[0]
        return None if row["first"] is None or row["rest"] is None else (row["first"], row["rest"])


@dataclass(frozen=True)
class Cut:
    """What of the rows is compared: requests up to a position, contexts within bounds."""

    ends: Mapping[str, int] | None = None  # unit -> positions; None: all requests, whole
    most: int | None = None  # positions of every request
    low: float | None = None
    high: float | None = None


def _take(found: dict[str, Series], name: str, unit: str, x: float | None, y: float | None) -> None:
    """Keep the sums of a unit, if they are sums."""
    if x is not None and y is not None and math.isfinite(x) and math.isfinite(y):
        found.setdefault(name, {})[unit] = (x, y)


def _given(kind: str, cut: Cut) -> dict[str, Any]:
    ends = sorted((cut.ends or {}).items())
    return {
        "kind": kind, "whole": cut.ends is None, "units": [unit for unit, _ in ends],
        "ends": [end for _, end in ends], "most": cut.most, "low": cut.low, "high": cut.high,
        "rows": ROWS,
    }  # fmt: skip


_CUT = """
SELECT c.*, coalesce(unit, lpad((floor((row_number() OVER (ORDER BY nth) - 1)
        * least($rows, count(*) OVER ()) / count(*) OVER ()))::BIGINT::VARCHAR, 6, '0')) AS key
FROM compared c
LEFT JOIN (SELECT unnest($units::VARCHAR[]) AS unit, unnest($ends::BIGINT[]) AS "end") w
    USING (unit)
WHERE kind = $kind AND ($whole OR w."end" IS NOT NULL)
    AND coalesce(pos < w."end", true) AND coalesce(pos < $most, true)
    AND coalesce(ctx >= $low, true) AND coalesce(ctx <= $high, true)
"""
_POSITIONS = f"""
SELECT 'accept_' || k AS metric, key, sum(steps)::DOUBLE AS x, sum(reached)::DOUBLE AS y
FROM (SELECT key, nth, steps, unnest(range(1, len(reach) + 1)) AS k, unnest(reach) AS reached
      FROM ({_CUT}) WHERE reach IS NOT NULL AND steps > 0)
WHERE reached IS NOT NULL GROUP BY k, key ORDER BY k, min(nth)
"""
_RANGES = f"""
SELECT 'commit_len_at_' || (2 ** range)::BIGINT AS metric, key, sum(steps)::DOUBLE AS x, sum(committed)::DOUBLE AS y
FROM (SELECT *, floor(log2(ctx)) AS range FROM ({_CUT}) WHERE ctx >= 1 AND steps > 0 AND committed IS NOT NULL)
GROUP BY range, key ORDER BY range, min(nth)
"""  # noqa: E501
_STAGES = f"""
SELECT 'stage_' || s.stage AS metric, key, count(*)::DOUBLE AS x, sum(s.ms)::DOUBLE AS y
FROM ({_CUT}) c JOIN time_sample s ON s.source = c.source AND s.line = c.line AND s.kind = c.kind
WHERE s.run = $run AND s.stage <> 'step' AND s.measured
GROUP BY s.stage, key ORDER BY s.stage, min(nth)
"""


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
