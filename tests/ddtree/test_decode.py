"""Every mode emits the target's own text, whatever is drafted, and records what it did."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import trace  # noqa: E402
from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.verify import Sampling  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

VOCAB, BLOCK = 53, 7  # of the models in conftest
GREEDY = Sampling()


def prompts(batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(VOCAB - 1, (5 + 3 * row,), generator=generator).tolist()
        for row in range(batch)
    ]


def plain(target, requests, **more):
    return decode(target, None, requests, Options(mode="autoregressive", **more))


@pytest.fixture
def run(make_target, make_knowing, autoregressive):
    """`run(kind, batch, options, ...)`: plain results, results in the mode, records of its steps"""

    def run(kind, batch, options, sampling=GREEDY, stop=frozenset(), budgets=None, seed=0):
        target = make_target(kind)
        requests = [
            Request(f"r{row}", prompt, 20 + 7 * row, (budgets or {}).get(row), sampling)
            for row, prompt in enumerate(prompts(batch, seed))
        ]
        expected = autoregressive(kind, requests, stop_ids=stop)
        texts = [[*one.request.prompt, *one.tokens] for one in expected]
        steps = []
        options = dataclasses.replace(options, stop_ids=stop)
        found = decode(target, make_knowing(texts), requests, options, on_step=steps.append)
        return expected, found, steps

    return run


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("mode", "budget", "top_k"),
    [("linear", 0, 1), ("shadow_linear", 9, 3), ("ddtree", 0, 1), ("ddtree", 1, 2)]
    + [("ddtree", budget, top_k) for budget in (4, 9, 24) for top_k in (1, 3, 8)],
)
def test_greedy_text_is_that_of_plain_decoding(run, kind, batch, mode, budget, top_k):
    expected, found, steps = run(kind, batch, Options(mode=mode, budget=budget, top_k=top_k))
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.finish for one in found] == ["length"] * batch
    if budget != 0 or mode == "linear":
        assert len(steps) < sum(len(one.tokens) for one in found) - batch, "nothing was accepted"


@pytest.mark.parametrize("mode", ["linear", "ddtree", "shadow_linear"])
def test_sampled_text_is_that_of_plain_sampling(run, kind, mode):
    sampling = Sampling(temperature=0.8, top_p=0.9, seed=7)
    expected, found, _ = run(kind, 2, Options(mode=mode, budget=12, top_k=4), sampling)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    greedy, _, _ = run(kind, 2, Options(mode=mode))
    assert [one.tokens for one in greedy] != [one.tokens for one in expected]


@pytest.mark.parametrize("mode", ["linear", "ddtree"])
def test_a_stop_token_inside_the_path_ends_the_text(run, mode):
    expected, _, _ = run("full", 1, Options(mode=mode))
    stop = frozenset({expected[0].tokens[9]})
    ended, found, steps = run("full", 1, Options(mode=mode, budget=12), stop=stop)
    assert found[0].tokens == ended[0].tokens and found[0].tokens[-1] in stop
    assert found[0].finish == "stop" and steps[-1].finish == "stop"


def test_one_candidate_is_the_linear_mode_step_for_step(run):
    _, _, linear = run("hybrid", 2, Options(mode="linear"))
    _, _, tree = run("hybrid", 2, Options(mode="ddtree", budget=BLOCK - 1, top_k=1))
    same = ("request", "step", "ctx_len", "root", "accepted", "bonus", "emitted", "kv_after",
            "node_tokens", "parents", "target_tokens", "context_source")  # fmt: skip
    assert len(linear) == len(tree) > 10
    for one, other in zip(linear, tree, strict=True):
        assert all(getattr(one, name) == getattr(other, name) for name in same)


def test_shadow_linear_is_linear_in_every_column_that_both_have(run):
    _, _, linear = run("hybrid", 2, Options(mode="linear"))
    _, _, shadow = run("hybrid", 2, Options(mode="shadow_linear", budget=20, top_k=5))
    apart = {"mode", "algorithm", "algorithm_requested", "budget", "budget_requested", "top_k",
             "candidate_tokens", "candidate_log_probs"}  # fmt: skip
    for one, other in zip(linear, shadow, strict=True):
        assert other.candidate_tokens is not None
        for column in dataclasses.fields(trace.StepRecord):
            if column.name not in apart and not column.name.endswith("_ms"):
                assert getattr(one, column.name) == getattr(other, column.name), column.name


def test_every_step_obeys_the_identities(run, kind):
    """I1 to I6 and I11 of the specification, from the records alone."""
    _, found, steps = run(kind, 3, Options(mode="ddtree", budget=12, top_k=4), budgets={1: 3})
    for result in found:
        mine = [step for step in steps if step.request == result.request.name]
        assert [step.step for step in mine] == list(range(len(mine)))
        emitted = [token for step in mine for token in step.emitted]
        assert result.tokens[1:] == emitted
        for step, after in zip(mine, [*mine[1:], None], strict=True):
            accepted, tgt = step.accepted, step.target_tokens
            path = list(itertools.pairwise(accepted))
            assert accepted[0] == 0 and all(step.parents[b] == a for a, b in path)
            assert all(step.node_tokens[b] == tgt[a] for a, b in path)
            assert step.bonus == tgt[accepted[-1]] and step.bonus_row == accepted[-1]
            children = [n for n, p in enumerate(step.parents) if p == accepted[-1]]
            assert step.bonus not in [step.node_tokens[n] for n in children]
            assert step.commit_len == step.accepted_depth + 1 == len(accepted)
            assert step.kv_after == step.ctx_len + len(accepted)
            assert step.positions == [step.ctx_len + d for d in step.depths]
            assert step.draft_kv_after == step.ctx_len == step.context_start + step.context_rows
            if after is not None:
                assert (after.root, after.ctx_len) == (step.bonus, step.kv_after)
                assert after.context_source == accepted and step.cut is None
    budgets = {step.request: step.budget for step in steps}
    assert budgets == {"r0": 12, "r1": 3, "r2": 12}
    assert any(step.accepted != list(range(len(step.accepted))) for step in steps), (
        "no branch taken"
    )


def test_nothing_is_recorded_that_nobody_asked_for(make_target, monkeypatch):
    def never(*given):
        raise AssertionError("recorded")

    monkeypatch.setattr("specdiag.ddtree.decode.Recorder", never)
    monkeypatch.setattr("specdiag.ddtree.clock.time.perf_counter", never)
    (result,) = plain(make_target("hybrid"), [Request("r", [1, 2, 3], 5)])
    assert len(result.tokens) == 5


def test_plain_decoding_records_no_draft(make_target):
    steps = []
    options = Options(mode="autoregressive")
    decode(
        make_target("sliding"), None, [Request("r", [1, 2, 3], 5)], options, on_step=steps.append
    )
    assert [step.ctx_len for step in steps] == [3, 4, 5, 6]
    for step in steps:
        drafted = (step.draft_kv_before, step.draft_kv_after, step.context_rows, step.block_start)
        assert drafted == (None,) * 4 and step.block_tokens == []
        assert step.window_low == [0, max(0, step.ctx_len - 5)]
        assert step.state_sources is None and len(step.gaps) == 1


def test_text_is_streamed_as_it_is_committed(make_target):
    target = make_target("full")
    requests = [Request("a", [1, 2, 3], 9), Request("b", [4, 5], 5)]
    heard = {"a": [], "b": []}
    found = decode(
        target, None, requests, Options(mode="autoregressive"),
        on_tokens=lambda request, tokens: heard[request.name].extend(tokens),
    )  # fmt: skip
    assert heard == {one.request.name: one.tokens for one in found}
    assert [len(one.tokens) for one in found] == [9, 5]


def test_a_trace_of_the_loop_is_silent_under_analysis(run, tmp_path, diagnose):
    """What a correct runtime writes is what a correct trace looks like."""
    _, _, steps = run("hybrid", 3, Options(mode="ddtree", budget=12, top_k=4, run="b12"))
    head = trace.line(trace.RunRecord(run="b12", target="tiny", budget=12, top_k=4, block=BLOCK))
    log = tmp_path / "steps.jsonl"
    log.write_text("\n".join([head, *map(trace.line, steps)]) + "\n")
    found = diagnose(log)
    assert not found.notices
    assert [one.rule.name for one in found.findings if one.severity in ("critical", "high")] == []
    assert found.runs[0].facts["accept_len"] > 1.5


@pytest.mark.parametrize(
    ("options", "request_", "words"),
    [
        (Options(mode="tree"), Request("r", [1], 4), "no mode"),
        (Options(mode="ddtree"), Request("r", [1], 4), "nothing to draft with"),
        (Options(mode="autoregressive"), Request("r", [1], 600), "positions"),
        (Options(mode="autoregressive"), Request("r", [], 4), "no prompt"),
        (Options(mode="autoregressive", budget=-1), Request("r", [1], 4), "drafts nothing"),
    ],
)
def test_what_cannot_be_decoded_is_said_in_three_lines(make_target, options, request_, words):
    with pytest.raises(SpecdiagError, match=words):
        decode(make_target("full"), None, [request_], options)
