"""`specdiag ledger` shows what two sources count, and what does not balance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specdiag import cli

SAMPLES = Path(__file__).parents[1] / "sample_logs"


def record(number: int, **change: object) -> dict[str, object]:
    """A response record whose counters agree: 20 steps, 40 accepted of 100 drafts."""
    info = {
        "id": f"r{number}", "prompt_tokens": 50, "completion_tokens": 61, "cached_tokens": 0,
        "spec_verify_ct": 20, "spec_accept_length": 3.05, "spec_accept_rate": 0.4,
        "spec_accept_token_num": 40, "spec_draft_token_num": 100,
        "finish_reason": {"type": "stop"}, "e2e_latency": 1.5,
    }  # fmt: skip
    return {"text": "an answer", "meta_info": info | change}


@pytest.fixture
def ledger(tmp_path):
    def ledger(*records: dict[str, object]) -> str:
        path = tmp_path / "records.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        result = CliRunner().invoke(cli.app, ["ledger", str(path)])
        assert result.exit_code == 0, result.output
        return result.stdout

    return ledger


def test_records_that_agree_balance(ledger):
    said = ledger(*map(record, range(3)))
    first = said.splitlines()[0]
    assert first.startswith("records: ") and "!" not in said
    balanced, _, entries = first.removeprefix("records: ").split()[:3]
    assert balanced == entries != "0"


def test_a_record_that_does_not_is_shown_with_both_sides(ledger):
    said = ledger(record(0), record(1, spec_accept_length=2.05), record(2))
    (off,) = [line for line in said.splitlines() if line.startswith("  !  ")]
    assert "accept length x steps 41" in off and "completion tokens 61" in off
    assert "-20" in off and off.endswith("records.jsonl:2")
    assert "! does not balance" in said


def test_of_many_that_are_off_a_few_are_shown(ledger):
    said = ledger(*(record(number, spec_accept_length=2.05) for number in range(9)))
    assert "and 4 more records" in said


def test_runs_with_several_sources_have_accounts_of_their_own():
    result = CliRunner().invoke(cli.app, ["ledger", str(SAMPLES / "sources_disagree")])
    assert "context growth" in result.stdout and "not judged" in result.stdout


def test_files_that_count_nothing_twice_are_told_so():
    log = SAMPLES / "healthy-no-speculation.log"
    result = CliRunner().invoke(cli.app, ["ledger", str(log)])
    assert result.exit_code != 0 and "counted in two places" in str(result.exception)
