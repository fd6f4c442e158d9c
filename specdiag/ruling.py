"""All rules on one store: side by side where to plan a query takes longer than to answer it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import duckdb

from specdiag import rule, space
from specdiag.errors import SpecdiagError
from specdiag.means import Means, workers
from specdiag.rule import Asked, Decision, Hit, Rule
from specdiag.store import Store

FEW = 200_000  # lines; rules on more use all cores by themselves, and memory

Result = tuple[Rule, list[Hit], list[Decision]] | SpecdiagError  # of a rule that does not run


def apply(rules: list[Rule], store: Store, means: Means) -> Iterator[Result]:
    """What each rule finds and decides, in the order of the rules."""
    with means.timings.part("needs of rules"):
        asked = rule.ask(rules, store.db)
    few = sum(reading.lines for reading in store.readings) <= FEW
    threads = workers(means.threads)
    if few and threads > 1 and not means.timings.on:  # that wants to know what each takes alone
        yield from _side_by_side(rules, store.db, asked, threads)
        return
    for one in rules:
        with means.timings.part("rule", one.name):
            result = _applied(one, store.db, asked)
        yield result


def _side_by_side(
    rules: list[Rule], db: duckdb.DuckDBPyConnection, asked: Asked, threads: int
) -> Iterator[Result]:
    free: queue.SimpleQueue[duckdb.DuckDBPyConnection] = queue.SimpleQueue()
    for _ in range(threads):  # here, as a connection answers one thread at a time
        free.put(space.beside(db))

    def applied(one: Rule) -> Result:
        connection = free.get()
        try:
            return _applied(one, connection, asked)
        finally:
            free.put(connection)

    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(applied, rules)
    finally:
        pool.shutdown(cancel_futures=True)


def _applied(one: Rule, db: duckdb.DuckDBPyConnection, asked: Asked) -> Result:
    try:
        return one, *rule.apply(one, db, one.params, asked)
    except SpecdiagError as error:
        return error
