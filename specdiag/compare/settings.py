"""In what two arms differ before anything is measured, and what speaks against comparing them.

The tables `pairing`, `hindrance` and `difference` are made for both runs together, by the same SQL
as for runs that are read together, whatever stores they come from.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import polars as pl

from specdiag import bundled, store
from specdiag.compare.arms import Arm
from specdiag.shapes import Handover
from specdiag.store import Store

OFFSET = 1 << 20  # between the numbers of the sources of both arms
PAIRS = bundled.DERIVE / "13_pairs.sql"

# What the tables of pairs read: whole rows, or as little of them as they need.
_COPIED = {
    "source": "SELECT DISTINCT s.* FROM source s JOIN part p USING (source) WHERE p.run = $run",
    "run": "SELECT * FROM run WHERE run = $run",
    "config": "SELECT * FROM config WHERE run = $run",
    "event": "SELECT * FROM event WHERE run = $run AND kind = 'arguments'",
    "prefill": "SELECT run, source, line, new_requests, new_tokens, cached_tokens FROM prefill "
    "WHERE run = $run",
    "request": "SELECT run, source, line, prompt_tokens, completion_tokens, prompt FROM request "
    "WHERE run = $run",
    "benchmark": "SELECT run, source, line, dataset, input_tokens, output_tokens, completed, "
    "version FROM benchmark WHERE run = $run",
    "step": "SELECT run, min(source) AS source, min(line) AS line, request, min(ctx_len) AS "
    "ctx_len FROM step WHERE run = $run AND request IS NOT NULL AND NOT coalesce(warmup, false) "
    "GROUP BY run, request",
}


@dataclass(frozen=True)
class Hindrance:
    """Why two arms cannot be compared."""

    what: str
    a: str | None = None
    b: str | None = None


@dataclass(frozen=True)
class Difference:
    """A setting in which the arms differ."""

    key: str
    a: str | None
    b: str | None
    kind: str


@dataclass(frozen=True)
class Settings:
    """What is known of both arms before anything is measured."""

    differences: list[Difference]
    hindrances: list[Hindrance]
    same_prompts: bool | None


def settings(a: Arm, b: Arm) -> Settings:
    """B against A, which is taken for the baseline."""
    if a.store is b.store and a.run == b.run:
        return Settings([], [], True)
    db = store.open_empty()
    db.execute("CREATE TABLE part (source INTEGER, run VARCHAR)")
    for number, (arm, name) in enumerate(((a, "a"), (b, "b"))):
        for table, sql in _COPIED.items():
            _copy(db, arm, table, sql, name, number * OFFSET)
        db.execute("INSERT INTO part SELECT source, ? FROM source WHERE source // ? = ?",
                   [name, OFFSET, number])  # fmt: skip
    db.execute("CREATE TEMP TABLE stated AS SELECT 'a' AS run")
    db.execute("CREATE TEMP TABLE alike AS SELECT 'b' AS run, 'a' AS against")
    db.execute(PAIRS.read_text(encoding="utf-8"))
    both = Store(db, [], [])
    differences = [
        Difference(row["key"], row["other"], row["value"], row["kind"])
        for row in both.rows("FROM difference WHERE run = 'b' ORDER BY kind, key")
    ]
    hindrances = [
        Hindrance(row["what"], *(_bare(row[side]) for side in ("other", "value")))
        for row in both.rows("FROM hindrance WHERE run = 'b' ORDER BY what")
    ]
    prompts = both.rows("SELECT same_prompts FROM pairing WHERE run = 'b'")
    hindrances += _sampling(a, b, differences) + _thinking(a, b)
    return Settings(differences, hindrances, prompts[0]["same_prompts"] if prompts else None)


def _bare(value: str | None) -> str | None:
    """A length without its unit, which only one of the two has."""
    return value.removesuffix(" tokens an answer") if value else value


def _copy(
    db: duckdb.DuckDBPyConnection, arm: Arm, table: str, sql: str, name: str, offset: int
) -> None:
    frame = pl.DataFrame(arm.store.db.sql(sql.replace("$run", _text(arm.run))))
    if not len(frame):
        return
    db.register("copied", Handover(frame))
    renamed = [] if table == "source" else [f"'{name}' AS run"]
    if "source" in frame.columns:
        renamed.append(f"source + {offset} AS source")
    changed = f" REPLACE ({', '.join(renamed)})" if renamed else ""
    db.execute(f"INSERT INTO {table} BY NAME SELECT *{changed} FROM copied")
    db.unregister("copied")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_HEAT = "SELECT avg(temperature) AS found FROM request WHERE run = ? AND temperature IS NOT NULL"
_SAMPLING = ("temperature", "temp", "top_p", "min_p", "accept_rule", "sampling_params")


def _sampling(a: Arm, b: Arm, differences: list[Difference]) -> list[Hindrance]:
    """Another temperature, of the requests or of the server: other tokens are accepted."""
    one, other = (arm.store.rows(_HEAT, [arm.run])[0]["found"] for arm in (a, b))
    if one is not None and other is not None and abs(one - other) > 0.05:
        return [Hindrance("sampling", f"temperature {one:.2g}", f"temperature {other:.2g}")]
    return [
        Hindrance("sampling", f"{one.key} {one.a or 'unset'}", f"{one.key} {one.b or 'unset'}")
        for one in differences
        if one.key.lower().rpartition(".")[2] in _SAMPLING
    ]


# By the settings, by what was sent with the requests, or by the answers' own marks.
_MODE = """
WITH said AS (
    SELECT lower(value) AS value FROM config WHERE run = $run AND key ILIKE '%thinking%' AND key NOT ILIKE '%budget%'
    UNION ALL
    SELECT lower(regexp_extract(extra::VARCHAR, '(?i)enable_thinking[^a-z]{1,8}(true|false)', 1)) FROM request WHERE run = $run AND extra::VARCHAR ILIKE '%enable_thinking%'
    UNION ALL
    SELECT lower(regexp_extract(extra::VARCHAR, '(?i)enable_thinking[^a-z]{1,8}(true|false)', 1)) FROM benchmark WHERE run = $run AND extra::VARCHAR ILIKE '%enable_thinking%'
),
marked AS (
    SELECT avg((regexp_matches(text, '(?s)^\\s*<think>\\s*[^\\s<]') OR (text LIKE '%</think>%' AND NOT regexp_matches(text, '^\\s*<think>\\s*</think>')))::INTEGER) AS share, count(*) AS texts
    FROM request WHERE run = $run AND text IS NOT NULL
)
SELECT coalesce((SELECT CASE WHEN bool_and(value IN ('true', '1', 'on')) THEN 'on' WHEN bool_and(value IN ('false', '0', 'off')) THEN 'off' END FROM said WHERE value <> ''),
    (SELECT CASE WHEN texts >= 3 AND share >= 0.5 THEN 'on' WHEN texts >= 3 AND share <= 0.1 THEN 'off' END FROM marked)) AS found
"""  # noqa: E501


def _thinking(a: Arm, b: Arm) -> list[Hindrance]:
    one, other = (
        arm.store.rows(_MODE.replace("$run", _text(arm.run)))[0]["found"] for arm in (a, b)
    )
    return [Hindrance("thinking mode", one, other)] if one and other and one != other else []
