"""Why steps stopped, against a plain loop over the same steps; and how it is printed."""

from __future__ import annotations

import copy
import math
from collections import Counter

import correct
import pytest
from typer.testing import CliRunner

from specdiag import bundled, cli, definition, diagnosis, source
from specdiag.report import stops as report
from specdiag.stops import stops

PARSERS = [definition.load(path) for path in sorted(bundled.PARSERS.glob("*.toml"))]


def asked(folder, records):
    path = folder / "steps.jsonl"
    path.write_text(correct.lines(records))
    return stops(diagnosis.fill(source.find([str(path)]), PARSERS))


def reason(step):
    """One step by the definition."""
    depth, last = len(step["accepted"]) - 1, step["accepted"][-1]
    chosen = step["target_tokens"][last]
    if step["finish"] or step["cut"]:
        return "end"
    if depth == correct.DEPTHS:
        return "depth"
    if chosen not in step["candidate_tokens"][depth]:
        return "top_k"
    place = step["candidate_tokens"][depth].index(chosen)
    score = step["log_probs"][last] + step["candidate_log_probs"][depth][place]
    assert score <= step["log_probs"][-1] + 1e-6
    return "budget"


@pytest.mark.parametrize("budget", [1, 4, 12])
@pytest.mark.parametrize("seed", range(4))
def test_every_step_has_its_reason(tmp_path, seed, budget):
    records = correct.trace(seed, budget=budget, top_k=4, length=80)
    (found,) = asked(tmp_path, records)
    steps = [one for one in records if one["record"] == "step"]
    assert found.reasons == Counter(map(reason, steps)) and found.steps == len(steps)


def test_drafted_probabilities_stand_beside_what_was_accepted(tmp_path):
    records = correct.trace(3, budget=12, top_k=4, length=80)
    (found,) = asked(tmp_path, records)
    expected, nodes, taken = Counter(), Counter(), Counter()
    for step in (one for one in records if one["record"] == "step"):
        for row in range(1, len(step["parents"])):
            parent = step["parents"][row]
            if parent in step["accepted"]:
                key = step["depths"][row], step["ranks"][row] > 0
                nodes[key] += 1
                taken[key] += row in step["accepted"]
                expected[key] += math.exp(step["log_probs"][row] - step["log_probs"][parent])
    assert {(one.depth, one.sibling): one.nodes for one in found.depths} == nodes
    for one in found.depths:
        assert one.accepted == taken[one.depth, one.sibling]
        assert one.expected == pytest.approx(expected[one.depth, one.sibling])


def test_faults_are_no_reasons_to_turn_a_knob(tmp_path):
    records = correct.trace(9, budget=8, length=80)
    step = next(
        one for one in records
        if one["record"] == "step" and len(one["accepted"]) >= 3 and not one["finish"]
    )  # fmt: skip
    early = copy.deepcopy(step)
    early["accepted"] = early["accepted"][:2]
    records[records.index(step)] = early
    assert asked(tmp_path, records)[0].reasons["walk"] == 1


def test_without_candidates_the_tree_is_all_that_is_known(tmp_path):
    records = correct.trace(5, length=80)
    for one in records:
        one.pop("candidate_tokens", None), one.pop("candidate_log_probs", None)
    assert {*asked(tmp_path, records)[0].reasons} <= {"end", "depth", "tree"}


def test_the_command_prints_shares_and_depths():
    sample = bundled.RULES.parent / "sample_logs" / "healthy-complete-trace.jsonl"
    result = CliRunner().invoke(cli.app, ["stops", str(sample)])
    assert result.exit_code == 0
    assert "healthy-complete-trace: why" in result.stdout and "budget" in result.stdout
    assert "first choice" in result.stdout


def test_a_trace_without_choices_is_an_error_of_three_lines(tmp_path):
    path = tmp_path / "flat.jsonl"
    path.write_text('{"step": 1, "rid": "a", "accepted_depth": 2, "commit_len": 3}\n' * 3)
    result = CliRunner().invoke(cli.app, ["stops", str(path)])
    assert result.exit_code != 0 and not result.stdout
    assert "target" in str(result.exception)


def test_too_few_nodes_have_no_rate(tmp_path):
    (found,) = asked(tmp_path, correct.trace(1, budget=3, length=4, requests=1))
    assert "–" in report.render([found])
