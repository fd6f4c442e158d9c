"""Every optional part of a step record is what it says, and none of them changes what is decoded."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import trace  # noqa: E402
from specdiag.ddtree.clock import Clock, times  # noqa: E402
from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.verify import Sampling  # noqa: E402
from specdiag.ddtree.writer import TraceWriter  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

ALL = frozenset(trace.DETAILS)
GREEDY, SAMPLED = Sampling(), Sampling(temperature=0.8, top_p=0.9, seed=5)
WINDOW, DRAFT_WINDOW = 6, 5  # of the sliding layers in conftest
KINDS = ("full", "sliding", "hybrid")
OF_DETAIL = {
    "candidate_tokens", "candidate_log_probs", "lse", "visible", "past_visible", "mask_bytes",
    "ids_read", "positions_read", "tap_layers_read", "draft_turns", "checksums", "target_probs",
    "draws", "oracle_tokens", "oracle_gaps",
}  # fmt: skip


class Lucky:
    """Makes a drafter's logits favour the text, so that paths and branches are accepted."""

    def __init__(self, drafter, texts):
        self.drafter, self.texts = drafter, texts

    def __enter__(self):
        self.hook = self.drafter.register_forward_hook(self.favour)

    def __exit__(self, *error):
        self.hook.remove()

    def favour(self, module, args, logits):
        for row, start in enumerate(args[1].known_lengths.tolist()):
            ahead = self.texts[row][start + 1 : start + 1 + logits.shape[1]]
            for depth, token in enumerate(ahead):
                logits[row, depth, token] = logits[row, depth].max() + (-0.1, 0.1)[(start + depth) % 3 > 0]  # fmt: skip
        return logits


@pytest.fixture
def run(make_target, make_drafter, autoregressive, tokens):
    """`run(kind, ...)`: the results, the records, and the target."""

    def run(kind, mode="ddtree", sampling=GREEDY, batch=3, detail=ALL, recorded=True, **more):
        target = make_target(kind)
        taps = {"hybrid": (0, 2), "full": (0, 2), "sliding": (0, 2)}[kind]
        layers = len(target.architecture.layer_types)
        drafter = make_drafter(num_target_layers=layers, target_layer_ids=taps)
        requests = [
            Request(f"r{row}", tokens(9 + 5 * row, row), 14 + 6 * row, (None, 4, None)[row], sampling)
            for row in range(batch)
        ]  # fmt: skip
        plain = autoregressive(kind, requests)
        texts = [[*one.request.prompt, *one.tokens] for one in plain]
        options = Options(mode=mode, budget=12, top_k=4, run="d", detail=detail, **more)
        steps = []
        with Lucky(drafter, texts):
            results = decode(
                target, drafter, requests, options, on_step=steps.append if recorded else None
            )
        assert [one.tokens for one in results] == [one.tokens for one in plain]
        return results, steps, target

    return run


def ancestors(step, row):
    rows = []
    while row >= 0:
        rows.append(row)
        row = step.parents[row]
    return rows


def by_request(steps):
    """Neighbouring steps of every request."""
    for name in sorted({step.request for step in steps}):
        yield from itertools.pairwise([step for step in steps if step.request == name])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_a_trace_with_everything_decodes_the_same(run, kind, sampling):
    with_it, steps, _ = run(kind, sampling=sampling)
    without, nothing, _ = run(kind, sampling=sampling, detail=frozenset(), recorded=False)
    assert [one.tokens for one in with_it] == [one.tokens for one in without]
    assert [one.steps for one in with_it] == [one.steps for one in without]
    assert nothing == [] and len(steps) == sum(one.steps for one in with_it)
    branched = [s for s in steps if s.accepted != list(range(len(s.accepted)))]
    assert branched, "no branch was taken"


@pytest.mark.parametrize("part", [None, *trace.DETAILS])
def test_only_the_parts_that_are_asked_for_are_there(run, part):
    _, steps, _ = run("hybrid", detail=frozenset({part} - {None}))
    filled = {name for name in OF_DETAIL if getattr(steps[1], name) is not None}
    assert (
        filled
        == {
            None: set(),
            "candidates": {"candidate_tokens", "candidate_log_probs", "lse"},
            "mask": {"visible", "past_visible", "mask_bytes"},
            "inputs": {"ids_read", "positions_read", "tap_layers_read", "draft_turns"},
            "checksums": {"checksums"},
            "law": {"target_probs", "draws"},
            "oracle": {"oracle_tokens", "oracle_gaps"},
        }[part]
    )


def test_an_unknown_part_is_named(make_target):
    options = Options(mode="autoregressive", detail=frozenset({"masks"}))
    with pytest.raises(SpecdiagError, match=r"(?s)no such part.*masks.*candidates, mask"):
        decode(make_target(), None, [Request("r", [1], 4)], options)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_read_is_every_rows_path_and_its_past(run, kind):
    _, steps, _ = run(kind)
    for step in steps:
        sees = [
            [at for at in range(step.width) if int(bits, 16) >> at & 1] for bits in step.visible
        ]
        assert sees == [sorted(ancestors(step, row)) for row in range(step.nodes + 1)]
        assert step.past_visible == [step.ctx_len] * (step.nodes + 1)
        assert step.mask_bytes % step.width == 0 and step.mask_bytes > step.width * step.ctx_len


def test_of_a_target_that_only_slides_the_mask_is_the_windows(make_target, make_drafter, tokens):
    of = {"layer_types": ("sliding_attention",) * 3}
    target, drafter, steps = make_target("sliding", **of), make_drafter(), []
    decode(target, drafter, [Request("r", tokens(20), 12)], Options(budget=9, detail=ALL),
           on_step=steps.append)  # fmt: skip
    for step in steps:
        past = [min(WINDOW - 1 - depth, step.ctx_len) for depth in step.depths]
        assert step.past_visible == [max(0, count) for count in past]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_read_is_what_was_meant(run, kind):
    _, steps, _ = run(kind)
    for step in steps:
        assert step.ids_read == step.node_tokens
        assert step.positions_read == [step.ctx_len + depth for depth in step.depths]
        assert step.slots == list(range(step.ctx_len, step.ctx_len + step.nodes + 1))
        recurrent = kind == "hybrid"
        assert step.state_sources == (step.parents if recurrent else None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_lowest_position_read_is_where_the_window_begins(run, kind):
    _, steps, _ = run(kind)
    for step in steps:
        draft = max(0, step.ctx_len - DRAFT_WINDOW + 1)
        sliding = [max(0, step.ctx_len - WINDOW + 1)] if kind != "full" else []
        assert step.window_low == [draft, draft, 0, 0, *sliding]  # layers, then full and sliding


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_gaps_are_those_of_the_raw_logits(run, monkeypatch, sampling):
    from specdiag.ddtree import passes

    seen, verify = [], passes.verify
    monkeypatch.setattr(
        passes, "verify", lambda *given: [seen.append(out := verify(*given)), out][1]
    )
    _, steps, _ = run("full", sampling=sampling, batch=1)
    for step, out in zip(steps, seen[-len(steps) :], strict=True):
        best = out.logits[0, : step.nodes + 1].topk(2).values
        assert step.gaps == pytest.approx((best[:, 0] - best[:, 1]).tolist(), abs=1e-6)
        if sampling is GREEDY:
            assert step.target_tokens == out.logits[0, : step.nodes + 1].argmax(-1).tolist()


def test_candidates_are_the_whole_table_and_normalised(run):
    for mode in ("ddtree", "shadow_linear"):
        _, steps, _ = run("full", mode=mode)
        for step in steps:
            table, terms = step.candidate_tokens, step.candidate_log_probs
            assert [len(row) for row in table] == [4] * 6 == [len(row) for row in terms]
            assert [row[0] for row in table] == step.spine_tokens
            assert all(sum(map(math.exp, row)) <= 1 + 1e-6 for row in terms)
            assert len(step.lse) == 6
            for node in range(1, step.nodes + 1):
                at, rank = step.depths[node] - 1, step.ranks[node]
                assert step.node_tokens[node] == table[at][rank]
    _, steps, _ = run("full", mode="linear")
    assert steps[0].candidate_tokens is None and steps[0].lse is None


@pytest.mark.parametrize("kind", KINDS)
def test_checksums_follow_every_row_through_the_commit(run, kind):
    _, steps, _ = run(kind)
    for step in steps:
        sums = step.checksums
        assert set(sums) <= set(trace.CHECKSUMS)
        assert all(-(2**63) <= one < 2**63 for part in sums.values() for one in part)
        assert sums["kv_after"] == [sums["kv_node"][row] for row in step.accepted]
        assert len(sums["feature_in"]) == step.context_rows
        assert len(set(sums["kv_node"])) == step.nodes + 1 == len(sums["feature_node"])
        if kind == "hybrid":
            assert sums["state_after"] == [sums["state_node"][step.accepted[-1]]]
            assert len(set(sums["state_node"])) == step.nodes + 1
        else:
            assert "state_node" not in sums
    for one, after in by_request(steps):
        node = one.checksums["feature_node"]
        assert after.checksums["feature_in"] == [node[row] for row in one.accepted]
        if kind == "hybrid":
            assert after.checksums["state_before"] == one.checksums["state_after"]


def test_equal_bytes_have_equal_checksums_and_others_do_not():
    from specdiag.ddtree.detail import checksums

    rows = torch.tensor([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [0.0, 0.0], [-0.0, 0.0]])
    one, same, other, zero, minus = checksums(rows)
    assert one == same and len({one, other, zero, minus}) == 4
    assert checksums(rows.to(torch.bfloat16))[:2] == [checksums(rows[:1].to(torch.bfloat16))[0]] * 2
    assert checksums(rows[:0]) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("mode", ["ddtree", "linear"])
def test_the_oracle_says_the_emitted_text(run, kind, sampling, mode):
    _, steps, _ = run(kind, mode=mode, sampling=sampling)
    for step in steps:
        assert len(step.oracle_gaps) == len(step.emitted)
        for emitted, token, gap in zip(
            step.emitted, step.oracle_tokens, step.oracle_gaps, strict=True
        ):
            assert emitted == token or gap < 1e-4
        assert min(step.oracle_gaps) >= 0


def test_the_oracle_contradicts_a_text_that_is_not_the_targets(make_target, tokens):
    from specdiag.ddtree.detail import oracle

    target, prompt = make_target("hybrid"), tokens(30)
    (result,) = decode(target, None, [Request("r", prompt, 9)], Options(mode="autoregressive"))
    text = [*prompt, *result.tokens]
    right, _ = oracle(target, text, len(prompt), GREEDY)
    assert right == result.tokens[1:]
    text[len(prompt) + 4] = (text[len(prompt) + 4] + 1) % 50
    wrong, gaps = oracle(target, text, len(prompt), GREEDY)
    assert wrong[:4] == right[:4] and wrong[3] != text[len(prompt) + 4] and gaps[3] > 1e-3


def test_a_long_prompt_is_no_different_for_the_oracle(make_target, tokens, monkeypatch):
    from specdiag.ddtree import detail

    target, text = make_target("sliding"), tokens(60)
    whole = detail.oracle(target, text, 35, GREEDY)
    monkeypatch.setattr(detail, "PREFILL_ROWS", 16)
    parts = detail.oracle(target, text, 35, GREEDY)
    assert whole[0] == parts[0] and whole[1] == pytest.approx(parts[1], abs=1e-4)


def test_an_interrupted_request_leaves_its_records_without_oracle(run):
    steps, heard = [], 0

    def on_tokens(request, tokens):
        nonlocal heard
        heard += 1
        if heard == 12:
            raise KeyboardInterrupt

    _, _, target = run("full")
    with pytest.raises(KeyboardInterrupt):
        decode(target, None, [Request("r", [1, 2], 60)],
               Options(mode="autoregressive", detail=ALL), on_tokens, steps.append)  # fmt: skip
    assert [step.step for step in steps] == list(range(10))
    assert steps[0].oracle_tokens is None and steps[0].ids_read is not None


def test_nothing_of_a_record_stays_on_the_models(run):
    _, _, target = run("hybrid")
    modules = [target, *target.modules()]
    assert not any(module._forward_pre_hooks for module in modules)


def test_stages_sum_to_the_step_and_idle_is_outside(run):
    _, steps, _ = run("full", detail=frozenset())
    for step in steps:
        stages = [getattr(step, f"{name}_ms") for name in
                  ("draft", "topk", "build", "compile", "verify", "walk", "commit")]  # fmt: skip
        assert sum(stages) == pytest.approx(step.step_ms) and min(stages) >= 0
        assert step.idle_ms > 0 and not step.warmup


def test_a_clock_that_does_not_run_keeps_nothing():
    clock = Clock(torch.device("cpu"), running=False)
    clock.start()
    clock.lap("draft")
    assert times(clock.marks) == {}


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.zst", "steps.parquet"])
@pytest.mark.parametrize("mode", ["ddtree", "shadow_linear"])
def test_every_column_is_read_back(run, tmp_path, analyze, name, mode):
    _, steps, _ = run("hybrid", mode=mode)
    path = tmp_path / name
    with TraceWriter(path) as writer:
        writer.write(trace.RunRecord(run="d", target="tiny", budget=12, top_k=4, block=7))
        for step in steps:
            writer.write(step)
    found, store = analyze(path)
    assert not found.notices
    assert [source["parsed"] for run in found.runs for source in run.sources] == [1.0]
    assert [one.rule.name for one in found.findings if one.severity in ("critical", "high")] == []
    rows = store.rows("SELECT * FROM step ORDER BY line")
    assert len(rows) == len(steps)
    for row, step in zip(rows, steps, strict=True):
        assert row["extra"] is None and row["other_ms"] is None
        for column in dataclasses.fields(trace.StepRecord):
            if column.name not in ("run", "checksums"):
                assert row[column.name] == getattr(step, column.name), column.name
        kept = row["checksums"]
        assert (kept if isinstance(kept, dict) else json.loads(kept)) == step.checksums
