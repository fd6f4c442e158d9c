"""Break-even: the commit length at which a step with speculation is worth plain steps."""

from __future__ import annotations

from specdiag.store import Store
from specdiag.whatif.answers import BreakEven

FEWEST = 5  # times of each side


def break_even(filled: Store) -> list[BreakEven]:
    """Every speculating run against every baseline, by context range and batch.

    Times of the same kind are compared: measured ones, or those computed from throughput.
    """
    return [
        BreakEven(
            row["run"], row["against"],
            None if row["range"] is None else 2 ** row["range"],
            None if row["range"] is None else 2 ** (row["range"] + 1) - 1,
            row["batch"], row["step_ms"], row["plain_ms"], row["measured"], row["commit_len"],
        )
        for row in filled.rows(_CELLS, {"fewest": FEWEST})
    ]  # fmt: skip


_CELLS = """
WITH compared AS (SELECT run FROM baseline UNION SELECT against FROM baseline),
timed AS (
    SELECT run, CASE WHEN ctx_len > 0 THEN floor(log2(ctx_len))::INTEGER END AS range, round(running)::BIGINT AS batch,
        median(ms) AS ms, bool_and(measured) AS measured, count(*) AS times
    FROM (SELECT *, max(measured::INTEGER) OVER (PARTITION BY run) AS best FROM time_sample WHERE stage = 'step' AND run IN (FROM compared))
    WHERE measured::INTEGER = best GROUP BY ALL HAVING count(*) >= $fewest
),
kind AS (
    SELECT run, kind, row_number() OVER (PARTITION BY run ORDER BY list_position(['step', 'decode', 'acceptance', 'request', 'benchmark'], kind)) AS nth
    FROM (SELECT DISTINCT run, kind FROM commit_sample WHERE run IN (FROM compared))
),
committed AS (
    SELECT c.run, CASE WHEN ctx_len > 0 THEN floor(log2(ctx_len))::INTEGER END AS range, round(running)::BIGINT AS batch,
        sum(commit_len * coalesce(steps, 1)) / sum(coalesce(steps, 1)) AS commit_len
    FROM commit_sample c JOIN kind k ON k.run = c.run AND k.kind = c.kind AND k.nth = 1 GROUP BY ALL
)
SELECT b.run, b.against, s.range, s.batch, s.ms AS step_ms, p.ms AS plain_ms, s.measured AND p.measured AS measured, c.commit_len
FROM baseline b JOIN run r ON r.run = b.run AND r.speculates
JOIN timed s ON s.run = b.run
JOIN timed p ON p.run = b.against AND p.range IS NOT DISTINCT FROM s.range AND p.batch IS NOT DISTINCT FROM s.batch
LEFT JOIN committed c ON c.run = s.run AND c.range IS NOT DISTINCT FROM s.range AND c.batch IS NOT DISTINCT FROM s.batch
ORDER BY b.run, b.against, s.range, s.batch
"""  # noqa: E501
