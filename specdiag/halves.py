"""Rows that are copied in their order, by two at once: each takes one half.

DuckDB packs rows on one core where their order comes from a window.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import duckdb

from specdiag import means, space

FEW = 250_000  # rows, two of the groups that tables are packed by
SWAPS = "join_order,build_side_probe_side"  # a join that hashes its larger side loses the order
FIRST, END = "$first", "$end"  # the rows from one number up to before the other


def apply(db: duckdb.DuckDBPyConnection, sql: str, rows: int, threads: int | None) -> None:
    """Execute a statement that takes `rows` numbered rows from `$first` up to before `$end`.

    It sees the tables and views of the database, but not the temporary ones of the connection, and
    gives the same rows in the same order whether it is executed once or for each half. Raises what
    DuckDB raises, and nothing has been done then.
    """
    db.execute(f"SET disabled_optimizers = '{SWAPS}'")
    try:
        if rows < FEW or means.workers(threads) < 2:
            db.execute(_between(sql, 0, rows))
        else:
            _side_by_side(db, sql, (0, rows // 2, rows))
    finally:
        db.execute("RESET disabled_optimizers")


def _side_by_side(db: duckdb.DuckDBPyConnection, sql: str, ends: tuple[int, ...]) -> None:
    both = [space.beside(db) for _ in ends[1:]]
    for one in both:
        one.begin()
    with ThreadPoolExecutor(len(both)) as pool:
        done = [
            pool.submit(one.execute, _between(sql, first, end))
            for one, first, end in zip(both, ends[:-1], ends[1:], strict=True)
        ]
        wait(done)
    failed = [error for one in done if (error := one.exception())]
    for one in both:  # in the order of their rows
        one.rollback() if failed else one.commit()
        one.close()
    if failed:
        raise failed[0]


def _between(sql: str, first: int, end: int) -> str:
    return sql.replace(FIRST, str(first)).replace(END, str(end))
