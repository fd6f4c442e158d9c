"""A benchmark's logs as tests: pytest test_benchmark.py, with the logs in logs/ or $BENCHMARK_LOGS.

Settings come from specdiag.toml in the working directory, as for `specdiag check`.
"""

import os

import pytest

from specdiag import Diagnosis, diagnose


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    return diagnose(os.environ.get("BENCHMARK_LOGS", "logs"))


def test_nothing_is_wrong(found: Diagnosis) -> None:
    assert found.ok, str(found)  # the findings, with the lines that prove them


def test_counters_agree(found: Diagnosis) -> None:
    contradiction = found.finding("depth_contradicts_commit")
    assert contradiction is None, contradiction.message


def test_every_step_commits_more_than_two_tokens(found: Diagnosis) -> None:
    lengths = {
        run: facts["accept_len"] for run, facts in found.facts.items() if facts.get("speculates")
    }
    assert lengths and min(lengths.values()) > 2, lengths


def test_no_request_waits(found: Diagnosis) -> None:
    (queued,) = found.store.execute("SELECT max(queued) FROM decode").fetchone()
    assert queued == 0
