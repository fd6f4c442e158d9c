"""Every traced step proved again from its own record.

`replay.sql` prepares the steps and the nodes of their trees; each file of `identities/` is a query
for what violates one identity of a correct step (ddtree, section 8), and table `replay` takes what
comes back. Its header is TOML, as that of a rule:

    identity  the name of the identity, as in the specification
    needs     columns of table step, without which nothing can be said; `a | b` is either of them
    follows   identities that are read first: where a foreign trace breaks one of them in most of
              its steps, it numbers its rows in another way, and this one cannot be judged
    sure      true if it can be judged wherever those hold, even if most steps break it

A query returns the step's `id`, the `field` that differs, the `entry` of its list, and the
values `expected` and `observed`. No query loops: trees are checked row against parent row, so a
hundred thousand steps take as long as DuckDB needs to read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from specdiag import bundled
from specdiag.errors import Notice

OWN = "steps"  # the format whose columns are defined by this project
CHOSEN = ("I2", "I3", "I12", "oracle")  # nobody claims these where acceptance is simulated
MOST = 0.5  # share of a foreign trace's steps that break an identity by another convention

# Columns of table node, and the lists of table step that they come from.
_NODE = {
    "parent": "parents", "depth": "depths", "token": "node_tokens", "target": "target_tokens",
    '"rank"': "ranks", "log_prob": "log_probs", "position": "positions",
    "state_source": "state_sources", "visible": "visible", "past_visible": "past_visible",
    "id_read": "ids_read", "position_read": "positions_read",
}  # fmt: skip
_FEW = {"parents", "node_tokens", "target_tokens"}  # all that many traces have of their trees
_AT_PARENT = {
    "parent_depth": "depths", "parent_log_prob": "log_probs", "wanted": "target_tokens",
    "parent_visible": "visible",
}  # fmt: skip


@dataclass(frozen=True)
class Identity:
    """What must hold for a step, as a query for the steps that break it."""

    name: str
    path: Path
    sql: str
    needs: tuple[str, ...]
    follows: tuple[str, ...] = ()
    sure: bool = False

    @property
    def given(self) -> str:
        """A condition: whether a step has what is needed."""
        return " AND ".join(
            "(" + " OR ".join(f"{one.strip()} IS NOT NULL" for one in need.split("|")) + ")"
            for need in self.needs
        )


def identities() -> list[Identity]:
    """All of them, those that others follow first."""
    found = [_identity(path) for path in sorted(bundled.IDENTITIES.glob("*.sql"))]
    return sorted(found, key=lambda one: (len(one.follows), one.name))


def _identity(path: Path) -> Identity:
    sql = path.read_text(encoding="utf-8")
    keys = bundled.header(sql)
    return Identity(
        keys["identity"], path, sql, tuple(keys["needs"]), tuple(keys.get("follows", ())),
        keys.get("sure", False),
    )  # fmt: skip


def prove(db: duckdb.DuckDBPyConnection) -> list[Notice]:
    """Fill table `replay` from table `step`, and say what could not be judged."""
    if not db.execute("SELECT count(*) FROM step").fetchall()[0][0]:
        return []
    _clear(db)  # what is left of an attempt with too little memory
    known = identities()
    bits = " + ".join(f"(({one.given})::BIGINT << {bit})" for bit, one in enumerate(known))
    db.execute(
        f"""CREATE TEMP VIEW recorded_step AS
            SELECT *, rowid AS id, {bits} AS given FROM step WHERE warmup IS NOT TRUE"""
    )
    db.execute(bundled.REPLAY.read_text(encoding="utf-8"))
    _unnest(db)
    notices = _malformed(db)
    unlike: set[tuple[str, str]] = set()  # run and identity of another convention
    for identity, given in _decidable(db, known):
        if _find(db, identity):
            notices += _set_aside(db, identity, given, unlike)
            db.execute("INSERT INTO replay BY NAME FROM found")
    db.execute(
        """DELETE FROM replay
           WHERE identity IN ? AND run IN (SELECT run FROM setting WHERE simulated)""",
        [CHOSEN],
    )
    _drop(db)
    return notices


def _clear(db: duckdb.DuckDBPyConnection) -> None:
    db.execute("DELETE FROM replay")
    _drop(db)


def _drop(db: duckdb.DuckDBPyConnection) -> None:
    for view in ("node", "traced", "recorded_step"):
        db.execute(f"DROP VIEW IF EXISTS {view}")
    for table in (
        "found",
        "tree_row",
        "odd_move",
        "run_setting",
        "link",
        "twice",
        "aside",
        "shape",
        "odd_row",
        "asker",
    ):
        db.execute(f"DROP TABLE IF EXISTS {table}")


def _decidable(
    db: duckdb.DuckDBPyConnection, known: list[Identity]
) -> list[tuple[Identity, dict[str, int]]]:
    """The identities that some steps have the columns for: by run, how many steps."""
    counts = ", ".join(f"sum(steps * (given >> {bit} & 1))::BIGINT" for bit in range(len(known)))
    rows = db.execute(
        f"""SELECT run, {counts} FROM (
                SELECT asker, given, count(*) AS steps FROM shape WHERE broken IS NULL GROUP BY ALL
            ) JOIN asker USING (asker) GROUP BY run"""
    ).fetchall()
    if not rows:
        return []
    by_identity = zip(known, zip(*(row[1:] for row in rows), strict=True), strict=True)
    given = [
        (one, {row[0]: count for row, count in zip(rows, found, strict=True) if count})
        for one, found in by_identity
    ]
    return [(one, runs) for one, runs in given if runs]


def _unnest(db: duckdb.DuckDBPyConnection) -> None:
    """View node: every row of every tree with what stands at its parent.

    Lists that no step has cost nothing, and where there are few the rows are made as they are read.
    """
    lists = sorted({*_NODE.values(), *_AT_PARENT.values()})
    counts = db.execute(f"SELECT {', '.join(f'count({one})' for one in lists)} FROM traced")
    (found,) = counts.fetchall()
    given = {one for one, count in zip(lists, found, strict=True) if count}
    if "parents" not in given:
        given = set()  # and there are no rows at all

    above = {name: f"all_{of}[parent + 1]" for name, of in _AT_PARENT.items() if of in given}
    own = {name: f"unnest({of})" for name, of in _NODE.items() if of in given}
    kept = "".join(f", {of} AS all_{of}" for of in {*_AT_PARENT.values()} & given)
    rows = f"""SELECT id, ctx_len, "row"::INTEGER AS "row",
                   {_as({name: name for name in own} | above)}
               FROM (SELECT id, ctx_len, unnest(range(len(parents))) AS "row", {_as(own)}{kept}
                     FROM traced WHERE len(parents) > 0)"""
    if given - _FEW:
        db.execute(f"CREATE TEMP TABLE tree_row AS {rows}")
        rows = "FROM tree_row"
    missing = {
        name: f"NULL::{'VARCHAR' if of == 'visible' else 'BIGINT'}"
        for name, of in (_NODE | _AT_PARENT).items()
        if of not in given
    }
    db.execute(
        f"""CREATE TEMP VIEW node AS
            SELECT *{"".join(f", {null} AS {name}" for name, null in missing.items())}
            FROM ({rows})"""
    )


def _as(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in columns.items())


def _find(db: duckdb.DuckDBPyConnection, identity: Identity) -> int:
    """Table found: what breaks the identity, one row for each step and field; how many."""
    first = "coalesce(entry, 0)"
    ((rows,),) = db.execute(
        f"""CREATE OR REPLACE TEMP TABLE found AS
            SELECT s.run, s.request, s.step, s.source, s.line, '{identity.name}' AS identity,
                v.* EXCLUDE (id)
            FROM (
                SELECT id, field, min(entry) AS entry, count(*) AS entries,
                    arg_min(expected::VARCHAR, {first}) AS expected,
                    arg_min(observed::VARCHAR, {first}) AS observed
                FROM ({identity.sql}) GROUP BY id, field
            ) v JOIN step s ON s.rowid = v.id"""
    ).fetchall()
    return int(rows)


def _set_aside(
    db: duckdb.DuckDBPyConnection, identity: Identity, given: Mapping[str, int],
    unlike: set[tuple[str, str]],
) -> list[Notice]:  # fmt: skip
    """Drop what most steps of a foreign trace break: they mean something else by these columns.

    A trace of the project's own format means what it says, and all of it is kept.
    """
    rows = db.execute(
        """SELECT r.run, r.field, count(*), any_value(s.path), min(r.line)
           FROM found r JOIN source s USING (source)
           WHERE s.format <> ? GROUP BY r.run, r.field ORDER BY ALL""",
        [OWN],
    ).fetchall()
    notices = []
    for run, field, steps, path, line in rows:
        follows_from = any((run, one) in unlike for one in identity.follows)
        common = steps > MOST * given.get(run, 0) and not identity.sure
        if not common and not follows_from:
            continue
        db.execute("DELETE FROM found WHERE run = ? AND field = ?", [run, field])
        unlike.add((run, identity.name))
        if not follows_from:
            notices.append(
                Notice(
                    f"{field} of {_steps(steps)} is not what {identity.name} says: taken for "
                    "another convention, and not judged",
                    f"{path}:{line}",
                    "compare one step with `specdiag tree`; specdiag/ddtree/trace.py says what "
                    "columns mean",
                )
            )  # fmt: skip
    return notices


def _malformed(db: duckdb.DuckDBPyConnection) -> list[Notice]:
    """What is wrong with steps that take no part, and with the order of the others."""
    broken = db.execute(
        """SELECT h.broken, count(*), arg_min(s.path, t.line), min(t.line)
           FROM shape h JOIN step t ON t.rowid = h.id JOIN source s USING (source)
           WHERE h.broken IS NOT NULL GROUP BY s.source, h.broken ORDER BY ALL"""
    ).fetchall()
    notices = [
        Notice(
            f"{column} of {_steps(count)} does not fit the tree of its step: not replayed",
            f"{path}:{line}",
            "lists of rows have one entry for the root and one for each node",
        )
        for column, count, path, line in broken
    ]
    twice = db.execute(
        """SELECT count(*), s.path, min(t.line)
           FROM shape h JOIN twice USING (asker, step) JOIN step t ON t.rowid = h.id
           JOIN source s USING (source) GROUP BY s.source, s.path ORDER BY ALL"""
    ).fetchall()
    notices += [
        Notice(
            f"{_steps(count)} have the request and number of another: their order is not judged",
            f"{path}:{line}",
            "give each run a name, and each request one of its own",
        )
        for count, path, line in twice
    ]
    return notices


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count:,} steps"
