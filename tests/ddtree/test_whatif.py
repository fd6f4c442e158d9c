"""Predictions of `specdiag whatif` against real runs of the bundled pair at those budgets."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import pair, passages, trace  # noqa: E402
from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.whatif import ask  # noqa: E402

TRACED, BUDGETS, SHALLOW = 32, (10, 12, 16), (2, 4)
PROMPTS, TOGETHER, NEW = 48, 24, 80
CLOSE = 0.02  # as far as a prediction may be off, beside what chance among the prompts explains


@pytest.fixture(scope="module", params=["plain", "hybrid"])
def requests(request):
    """Held-out code, the same for every budget."""
    bundled = pair.bundled(request.param)
    texts = passages.held_out(bundled.tokenizer, "code", PROMPTS, 96, seed=1)
    return bundled, [Request(f"p{at}", text, NEW) for at, text in enumerate(texts)]


@pytest.fixture(scope="module")
def traced(requests):
    """The steps of every budget, by budget."""
    bundled, all_requests = requests
    found = {}
    for budget in (TRACED, *BUDGETS, *SHALLOW):
        options = Options(budget=budget, run=f"ddtree-{budget}")
        found[budget] = steps = []
        for start in range(0, PROMPTS, TOGETHER):
            some = all_requests[start : start + TOGETHER]
            decode(bundled.target, bundled.drafter, some, options, on_step=steps.append)
    return found


@pytest.fixture(scope="module")
def answered(traced, load, tmp_path_factory):
    """What the trace of the largest budget says."""
    path = tmp_path_factory.mktemp("trace") / "steps.jsonl"
    path.write_text("".join(trace.line(step) + "\n" for step in traced[TRACED]))
    (run,) = ask(load(path)).runs
    return run


def commit_len(steps, rows=TRACED):
    """Accepted rows up to a budget, the root included, over steps."""
    return sum(sum(row <= rows for row in step.accepted) for step in steps) / len(steps)


def error(predicted, real, rows):
    """The standard error of predicted / real, from how the prompts differ in it."""
    means = commit_len(predicted, rows), commit_len(real)
    apart = dict.fromkeys({step.request for step in real}, 0.0)
    for steps, mean, sign, most in ((predicted, means[0], 1, rows), (real, means[1], -1, TRACED)):
        for step in steps:
            kept = sum(row <= most for row in step.accepted)
            apart[step.request] += sign * (kept / mean - 1) / len(steps)
    return math.sqrt(sum(one**2 for one in apart.values()))


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_real_run_commits_what_the_trace_of_a_larger_budget_says(traced, answered, budget):
    assert not answered.budgets[budget - 1].shallow
    predicted = answered.budgets[budget - 1].commit_len.value
    assert predicted == pytest.approx(commit_len(traced[TRACED], budget))
    chance = error(traced[TRACED], traced[budget], budget)
    assert chance < 0.015
    assert abs(predicted / commit_len(traced[budget]) - 1) < CLOSE + chance


@pytest.mark.parametrize("budget", SHALLOW)
def test_a_budget_that_cannot_hold_the_longest_path_is_marked(traced, answered, budget):
    """Its run starts more often inside of easy text, which the trace's own starts are behind of."""
    one = answered.budgets[budget - 1]
    assert one.shallow and one.budget < answered.deepest
    assert one.commit_len.value < commit_len(traced[budget]) < 1.1 * one.commit_len.value


def test_every_step_is_walked_again_as_it_was_recorded(traced, answered):
    assert answered.order == "scores" and answered.walk == "target"
    assert answered.budgets[-1].commit_len.value == pytest.approx(commit_len(traced[TRACED]))


def test_the_chain_is_close_to_a_run_of_the_chain(requests, answered):
    bundled, all_requests = requests
    steps = []
    options = Options(mode="linear")
    decode(bundled.target, bundled.drafter, all_requests, options, on_step=steps.append)
    assert answered.chain.exact
    # The starts behind a tree are easier for the chain than its own.
    assert answered.chain.commit_len.value == pytest.approx(commit_len(steps), rel=0.1)
    assert answered.chain.gain.value > 0
