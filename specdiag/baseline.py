"""What the user compares with: the runs of --baseline, and what speaks against a comparison."""

from __future__ import annotations

import duckdb

from specdiag.errors import Notice, SpecdiagError
from specdiag.reading import Reading

_HINDRANCES = {
    "hardware": "other hardware", "length": "other lengths of answers", "prompts": "other prompts",
}  # fmt: skip


def state(db: duckdb.DuckDBPyConnection, readings: list[Reading], baseline: str) -> None:
    """Table stated: the runs that the user named as the baseline."""
    marked = [number for number, reading in enumerate(readings) if reading.source.baseline]
    db.execute(
        """CREATE TEMP TABLE stated AS
        SELECT DISTINCT run FROM part WHERE run = ? OR list_contains(?::INTEGER[], source)""",
        [baseline, marked],
    )
    if not (baseline or marked):
        return
    names = [row[0] for row in db.execute("SELECT DISTINCT run FROM part ORDER BY run").fetchall()]
    stated = db.execute("SELECT run FROM stated").fetchall()
    where = baseline or ", ".join(readings[number].source.name for number in marked[:3])
    if not stated and names:
        raise SpecdiagError(
            "no such run, file or folder" if baseline else "there is no run in the baseline",
            f"--baseline {where}", f"runs: {', '.join(names[:10])}",
        )  # fmt: skip
    if names and len(stated) == len(names):
        raise SpecdiagError(
            "there is nothing to compare with the baseline", f"--baseline {where}",
            "give other logs, too",
        )  # fmt: skip


def incomparable(db: duckdb.DuckDBPyConnection) -> list[Notice]:
    """Pairs that the user asked for and that mean little."""
    rows = db.execute(
        """SELECT p.run, p.against, list([h.what, h.value, h.other] ORDER BY h.what)
        FROM pairing p JOIN hindrance h USING (run, against)
        WHERE p.declared GROUP BY ALL ORDER BY ALL"""
    ).fetchall()
    return [
        Notice(
            f"{run} cannot be compared with {against}: {'; '.join(_hindered(*one) for one in why)}",
            "--baseline",
            "rules on pairs give no verdict on them; compare runs of one model, card and workload",
        )
        for run, against, why in rows
    ]


def _hindered(what: str, value: str | None, other: str | None) -> str:
    named = _HINDRANCES.get(what, f"another {what}")
    return f"{named} ({value} against {other})" if value and other else named
