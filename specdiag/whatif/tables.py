"""The answers as tables, for pictures: budgets, what a tree adds to its chain, break-even.

A long trace is asked by stretches of its steps, so that a page does not wait for it.
"""

from __future__ import annotations

from typing import Any

from specdiag.estimate import Estimate
from specdiag.store import Store
from specdiag.whatif.answers import Answers, Traced
from specdiag.whatif.ask import ask
from specdiag.whatif.plain import break_even

STEPS = 5_000  # of a trace that are walked again

_EMPTY = """
CREATE OR REPLACE TEMP TABLE what_budget (  -- a smaller budget of a traced run
    run VARCHAR, budget INTEGER,
    commit_len DOUBLE, commit_low DOUBLE, commit_high DOUBLE,
    tokens_per_s DOUBLE, speed_low DOUBLE, speed_high DOUBLE,  -- NULL where no cost is known
    bound BOOLEAN,           -- only a wider verification was measured: at least so many
    best BOOLEAN,            -- the most tokens per second
    measured DOUBLE, measured_low DOUBLE, measured_high DOUBLE  -- commit length of a run at it
);
CREATE OR REPLACE TEMP TABLE what_gain (  -- a budget of a traced tree against a run of its chain
    run VARCHAR, against VARCHAR, budget INTEGER,
    drafts DOUBLE, ms DOUBLE  -- more accepted drafts, and more time, a step
);
CREATE OR REPLACE TEMP TABLE what_needed (  -- break-even
    run VARCHAR, against VARCHAR, low INTEGER, high INTEGER,  -- context
    batch INTEGER,
    commit_len DOUBLE        -- that a step needs to be worth the plain steps of its time
);
"""


def fill(filled: Store) -> None:
    """Tables what_budget, what_gain and what_needed; empty where there is nothing to say."""
    filled.db.execute(_EMPTY)
    steps = filled.rows(
        "SELECT count(*) AS steps FROM step WHERE accepted IS NOT NULL OR parents IS NOT NULL"
    )[0]["steps"]
    paired = filled.rows("SELECT 1 FROM baseline LIMIT 1")
    answers = Answers([], [])
    if steps:
        answers = ask(filled, every=-(-steps // STEPS), budgets_only=True)
    elif paired:
        answers = Answers([], break_even(filled))
    _insert(filled, "what_budget", [row for run in answers.runs for row in _budgets(run)])
    _insert(filled, "what_gain", [row for run in answers.runs for row in _gains(run)])
    _insert(
        filled, "what_needed",
        [(one.run, one.against, one.low, one.high, one.batch, one.needed)
         for one in answers.break_even],
    )  # fmt: skip


def _insert(filled: Store, table: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        values = ", ".join(["unnest(?)"] * len(columns))
        filled.db.execute(f"INSERT INTO {table} SELECT {values}", columns)


def _budgets(run: Traced) -> list[tuple[Any, ...]]:
    return [
        (run.run, one.budget, *_spread(one.commit_len), *_spread(one.tokens_per_s), one.bound,
         run.best is not None and run.best.budget == one.budget, *_spread(one.measured))
        for one in run.budgets
    ]  # fmt: skip


def _gains(run: Traced) -> list[tuple[Any, ...]]:
    chain = run.chain
    if chain is None or chain.measured is None or not chain.rate:
        return []
    chain_ms = chain.measured.value / chain.rate
    return [
        (run.run, chain.against, one.budget, one.commit_len.value - chain.measured.value,
         one.step_ms / run.batch - chain_ms)
        for one in run.budgets if one.step_ms is not None and not one.bound
    ]  # fmt: skip


def _spread(one: Estimate | None) -> tuple[float | None, float | None, float | None]:
    """Value and interval."""
    if one is None:
        return None, None, None
    low, high = one.interval or (None, None)
    return one.value, low, high
