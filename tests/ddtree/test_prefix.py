"""A prefix cache: output with hits is output without, for all kinds of targets."""

from __future__ import annotations

import dataclasses
import json

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import faults, trials  # noqa: E402
from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.prefix import Prefixes  # noqa: E402
from specdiag.ddtree.trials import Trial  # noqa: E402
from specdiag.ddtree.verify import Sampling  # noqa: E402

GREEDY = Sampling()
EVERY = 4
MODES = [Options("autoregressive"), Options("linear"), Options(budget=9, top_k=3)]

each_mode = pytest.mark.parametrize("options", MODES, ids=lambda one: one.mode)


def named(prompts, sampling=GREEDY, tokens=30):
    return [Request(f"r{n}", prompt, tokens, None, sampling) for n, prompt in enumerate(prompts)]


@pytest.fixture
def run(make_target, make_knowing, autoregressive):
    """`run(kind, options, requests, prefixes)`: results, with drafts that are often right."""

    def run(kind, options, requests, prefixes=None, on_step=None):
        target = make_target(kind)
        plain = autoregressive(kind, requests)
        drafter = make_knowing([[*one.request.prompt, *one.tokens] for one in plain])
        if options.mode == "autoregressive":
            drafter = None
        return decode(target, drafter, requests, options, None, on_step, prefixes)

    return run


def first_prompts(tokens):
    return [tokens(9, 1), tokens(14, 2), tokens(5, 3)]


def later_prompts(results, tokens):
    """Texts that go on, one that leaves an earlier one, one that only begins alike, a new one."""
    one, two, three = ([*r.request.prompt, *r.tokens] for r in results)
    return [one[:-3], [*two[:20], *tokens(6, 4)], [*three[:6], 7], tokens(8, 5), one]


@each_mode
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 0.9, 5)], ids=["greedy", "sampled"])
def test_output_with_hits_is_output_without(run, kind, options, sampling, tokens):
    store = Prefixes(every=EVERY)
    first = named(first_prompts(tokens), sampling)
    results = run(kind, options, first, store)
    assert set(store.hits.values()) == {0}
    later = named(later_prompts(results, tokens), sampling)
    expected = run(kind, options, later)
    found = run(kind, options, later, store)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    hits = [store.hits[one.name] for one in later]
    if kind == "hybrid":
        assert all(hit % EVERY == 0 for hit in hits)
        assert hits[0] >= 24 and hits[1:3] == [20, 4]
    else:
        assert hits[0] >= 30 and hits[1:3] == [20, 6]
    assert hits[3] == 0
    again = run(kind, options, later, store)
    assert [one.tokens for one in again] == [one.tokens for one in expected]
    assert store.hits["r3"] == (4 if kind == "hybrid" else 7)


def test_a_checkpoint_is_the_state_behind_its_tokens(run, make_target, tokens):
    store = Prefixes(every=EVERY)
    run("hybrid", MODES[2], named(first_prompts(tokens)), store)
    target = make_target("hybrid")
    assert len(store.kept) == 3
    for kept in store.kept:
        assert len(kept.states) > 4
        for length, states in kept.states.items():
            cache = target.cache(1, length)
            target.prefill([kept.tokens[:length]], cache)
            for layer, state in states.items():
                torch.testing.assert_close(
                    state.delta, cache.states[layer].delta[0], atol=1e-4, rtol=1e-4
                )
                torch.testing.assert_close(
                    state.conv, cache.states[layer].conv[0], atol=1e-4, rtol=1e-4
                )


def test_what_was_used_last_stays(run, tokens):
    store = Prefixes(texts=2, every=EVERY)
    texts = [tokens(12, seed) for seed in range(4)]
    for text in (texts[0], texts[1], texts[0], texts[2]):
        run("full", MODES[2], named([text], tokens=3), store)
    assert len(store.kept) == 2
    run("full", MODES[2], named([texts[0], texts[1]], tokens=3), store)
    assert store.hits["r0"] > 0 and store.hits["r1"] == 0


def test_a_text_takes_the_place_of_its_beginning(run, tokens):
    store = Prefixes(every=EVERY)
    results = run("hybrid", MODES[2], named([tokens(9, 1)]), store)
    text = [*results[0].request.prompt, *results[0].tokens]
    run("hybrid", MODES[2], named([text]), store)
    assert len(store.kept) == 1 and len(store.kept[0].tokens) > len(text)
    assert {8, 12, 16} < set(store.kept[0].states)


def test_what_was_kept_without_a_drafter_serves_plain_decoding_only(run, tokens):
    store = Prefixes(every=EVERY)
    first = named([tokens(12, 1)])
    run("hybrid", MODES[0], first, store)
    run("hybrid", MODES[2], first, store)
    assert store.hits["r0"] == 0
    run("hybrid", MODES[0], first, store)
    assert store.hits["r0"] == 8


def test_a_record_says_where_a_checkpoint_is_from(run, kind, tokens):
    store, steps = Prefixes(every=EVERY), []
    run(kind, MODES[2], named(first_prompts(tokens)), store, steps.append)
    if kind != "hybrid":
        assert all(one.checkpoint_tokens is None for one in steps)
        return
    for one in steps:
        assert one.checkpoint_tokens == [
            n for n in range(one.ctx_len + 1, one.kv_after + 1) if n % EVERY == 0
        ]
        assert one.checkpoint_rows == [
            one.accepted[n - one.ctx_len - 1] for n in one.checkpoint_tokens
        ]
    assert any(
        row != tokens - one.ctx_len - 1
        for one in steps
        for tokens, row in zip(one.checkpoint_tokens, one.checkpoint_rows, strict=True)
    )


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_trace_has_the_length_of_hits(tmp_path):
    trial = Trial("hybrid", 2, prefix=4, stop=False, detail=frozenset())
    trials.run(trial, tmp_path / "steps.jsonl")
    found = {r["request"]: r for r in records(tmp_path / "steps.jsonl") if r["record"] == "request"}
    assert [found[name]["cached_tokens"] for name in ("r0", "r1")] == [0, 0]
    for name in ("r0-later", "r1-later"):
        assert (
            found[name]["prompt_tokens"] - 20
            < found[name]["cached_tokens"]
            < found[name]["prompt_tokens"]
        )
    steps = [
        r for r in records(tmp_path / "steps.jsonl") if r["record"] == "step" and r["step"] == 0
    ]
    assert [one["draft_kv_before"] for one in steps] == [
        found[one["request"]]["cached_tokens"] for one in steps
    ]


def test_a_state_of_another_row_changes_the_text_of_a_later_request(tmp_path):
    """F66: the request that took the checkpoint is clean, one that begins with it is not."""
    trial = Trial("hybrid", 1, seed=1, prefix=4, max_new_tokens=90, stop=False)
    pair, (request,) = trials.pair_of("hybrid"), trials.requests_of(trials.pair_of("hybrid"), trial)
    options = dataclasses.replace(trials.options_of(pair, trial), detail=frozenset({"oracle"}))
    store, steps = Prefixes(every=4), []
    with faults.inject(faults.all_faults()[66]) as at:
        (result,) = decode(pair.target, pair.drafter, [request], options, None, steps.append, store)
    assert at.first is not None
    assert all(one.oracle_tokens == one.emitted for one in steps)
    wrong = [
        tokens
        for one in steps
        for tokens, row in zip(one.checkpoint_tokens, one.checkpoint_rows, strict=True)
        if row != one.accepted[tokens - one.ctx_len - 1]
    ]
    text = [*request.prompt, *result.tokens]
    left = 0
    for length in wrong:
        later, seen = dataclasses.replace(request, prompt=text[: length + 1], max_new_tokens=30), []
        decode(pair.target, pair.drafter, [later], options, None, seen.append, store)
        assert store.hits[later.name] == length
        store.kept = store.kept[:-1] if len(store.kept) > 1 else store.kept
        left += any(one.oracle_tokens != one.emitted for one in seen)
    assert left
