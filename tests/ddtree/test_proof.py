"""Proof of correctness: whatever is drafted, the target's own greedy text comes out.

Covered are, for a full, a sliding and a hybrid target in float32: 200 distinct random prompts;
every pair of a budget 0..64 and a top-k 1..8 at batch 4, where the four rows have budgets of their
own, and every second pair at batch 1; linear, shadow-linear and one-candidate trees over all 200
prompts at batch 4 and over every eighth one at batch 1. The pairs are dealt out over the prompts,
and all prompts are used. The tests assert this coverage, and that drafts were accepted and
branches taken, so that they cannot pass emptily.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from torch.testing import assert_close  # noqa: E402

from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.trace import StepRecord  # noqa: E402
from specdiag.ddtree.tree import build, candidates  # noqa: E402
from specdiag.ddtree.verify import compile, verify  # noqa: E402

PROMPTS, BUDGETS, TOP_KS = 200, range(65), range(1, 9)
DEPTHS = 6  # the drafter's block without its root
# Passes of other shapes round otherwise: logits, which are of size 6 here, differ by up to 1e-4 or
# 0.1. Below these gaps between the target's first and second logit either is its own choice.
NEAR_TIE = {torch.float32: 1e-3, torch.bfloat16: 0.25}


def groups(items, size):
    """The items, `size` at a time; the last group is filled up with the first items."""
    filled = [*items, *items[: -len(items) % size]]
    return [filled[at : at + size] for at in range(0, len(filled), size)]


def texts_of(target, requests, batch):
    """What autoregressive decoding emits, by request name."""
    found = {}
    for group in groups(requests, batch):
        results = decode(target, None, group, Options(mode="autoregressive"))
        found |= {one.request.name: one.tokens for one in results}
    return found


def near_ties(target, results, expected):
    """How many texts left the plain one at a near tie; a failure if one left it elsewhere."""
    count = 0
    for one in results:
        wanted = expected[one.request.name]
        if one.tokens == wanted:
            continue
        pairs = zip(one.tokens, wanted, strict=False)
        at = next((at for at, (ours, plain) in enumerate(pairs) if ours != plain), None)
        assert at is not None, f"{one.request.name} has {len(one.tokens)} tokens"
        text = torch.tensor([[*one.request.prompt, *wanted[:at]]])
        logits = target(text, torch.arange(text.shape[1])[None]).logits[0, -1]
        first, second = logits.topk(2).values.tolist()
        assert first - second < NEAR_TIE[target.dtype], (
            f"{one.request.name} leaves the plain text at token {at}, gap {first - second:.4f}"
        )
        count += 1
    return count


@pytest.fixture(scope="module")
def known():
    """What is computed once for each kind of target."""
    return {}


@pytest.fixture
def plain(kind, known, make_target):
    """A target, its 200 requests, and their texts by autoregressive decoding, four at a time."""
    if kind not in known:
        target, draw = make_target(kind), random.Random(kind)
        requests = [
            Request(f"r{at}", [draw.randrange(52) for _ in range(2 + at % 19)], 6 + at % 5)
            for at in range(PROMPTS)
        ]
        assert len({tuple(request.prompt) for request in requests}) == PROMPTS
        texts = texts_of(target, requests, 4)
        assert len({tuple(text) for text in texts.values()}) > 0.95 * PROMPTS
        known[kind] = SimpleNamespace(target=target, requests=requests, texts=texts)
    return known[kind]


@pytest.fixture
def run(plain, make_knowing):
    """`run(requests, **options)`: results and step records, with a drafter that knows much."""
    drafter = make_knowing([])
    assert drafter.depths == DEPTHS

    def run(requests, **options):
        steps = []
        drafter.texts = [[*each.prompt, *plain.texts[each.name]] for each in requests]
        results = decode(plain.target, drafter, requests, Options(**options), on_step=steps.append)
        return results, steps

    return run


def most_nodes(budget, top_k):
    """How many nodes the tree of a budget has if no candidate is masked."""
    return min(budget, sum(top_k**depth for depth in range(1, DEPTHS + 1)))


def dealt(batch):
    """The pairs of budget and top-k that are tried at a batch size."""
    pairs = itertools.product(BUDGETS, TOP_KS)
    return {(budget, top_k) for budget, top_k in pairs if batch > 1 or (budget + top_k) % 2}


def deal(requests, batch):
    """(top-k, requests with budgets): the pairs over the prompts, in a random order."""
    draw = random.Random(batch)
    hands = []
    for top_k in TOP_KS:
        budgets = sorted(budget for budget, each in dealt(batch) if each == top_k)
        draw.shuffle(budgets)
        hands += [(top_k, group) for group in groups(budgets, batch)]
    draw.shuffle(hands)
    order = list(requests)
    draw.shuffle(order)
    supply = itertools.cycle(order)
    for top_k, budgets in hands:
        rows = [dataclasses.replace(next(supply), budget=budget) for budget in budgets]
        yield top_k, rows


@pytest.mark.parametrize("batch", [1, 4])
def test_trees_of_every_budget_and_top_k_emit_the_plain_text(plain, run, batch):
    pairs, used, ties = set(), set(), 0
    accepted, branches, rows = 0, 0, 0
    for top_k, requests in deal(plain.requests, batch):
        results, steps = run(requests, mode="ddtree", budget=0, top_k=top_k)
        ties += near_ties(plain.target, results, plain.texts)
        used |= {request.name for request in requests}
        for step in steps:
            assert step.nodes == most_nodes(step.budget, step.top_k)
            pairs.add((step.budget, step.top_k))
            accepted += len(step.accepted) - 1
            branches += step.accepted != list(range(len(step.accepted)))
            rows = max(rows, step.batch)
    assert pairs == dealt(batch)
    assert {budget for budget, _ in pairs} == {*BUDGETS} and {k for _, k in pairs} == {*TOP_KS}
    assert len(used) == PROMPTS and rows == batch
    assert accepted > 2 * len(pairs) and branches > len(pairs) / 3
    print(ties, "near ties")


@pytest.mark.parametrize("batch", [1, 4])
def test_chains_emit_the_plain_text_and_agree_step_for_step(plain, run, batch):
    """Linear, the tree of one candidate, and shadow-linear, in every column that they share."""
    own = {"mode", "algorithm", "algorithm_requested"}
    of_the_tree = {"budget", "budget_requested", "top_k", "candidate_tokens", "candidate_log_probs"}
    used, ties, accepted, shadows = set(), 0, 0, random.Random(batch)
    for requests in groups(plain.requests[:: 8 if batch == 1 else 1], batch):
        results, linear = run(requests, mode="linear", top_k=1)
        ties += near_ties(plain.target, results, plain.texts)
        used |= {request.name for request in requests}
        accepted += sum(len(step.accepted) - 1 for step in linear)
        one, tree = run(requests, mode="ddtree", budget=DEPTHS, top_k=1)
        budget, top_k = shadows.choice(BUDGETS), shadows.choice(TOP_KS)
        other, shadow = run(requests, mode="shadow_linear", budget=budget, top_k=top_k)
        texts = [result.tokens for result in results]
        assert texts == [each.tokens for each in one] == [each.tokens for each in other]
        for steps, apart in ((tree, own), (shadow, own | of_the_tree)):
            assert len(steps) == len(linear)
            for ours, theirs in zip(steps, linear, strict=True):
                for column in dataclasses.fields(StepRecord):
                    name = column.name
                    if name not in apart and not name.endswith("_ms"):
                        assert getattr(ours, name) == getattr(theirs, name), name
        assert all(step.candidate_tokens is not None for step in shadow)
    assert len(used) == (25 if batch == 1 else PROMPTS)
    assert accepted > len(used)
    print(ties, "near ties")


def test_bfloat16_leaves_the_plain_text_at_near_ties_only(kind, make_target, make_knowing):
    target = make_target(kind).to(torch.bfloat16)
    draw = random.Random(5)
    requests = [
        Request(f"r{at}", [draw.randrange(52) for _ in range(3 + at)], 16) for at in range(24)
    ]
    expected = texts_of(target, requests, 1)
    drafter, accepted, ties = make_knowing([]).to(torch.bfloat16), 0, 0
    for group in groups(requests, 4):
        drafter.texts = [[*each.prompt, *expected[each.name]] for each in group]
        results = decode(target, drafter, group, Options(mode="ddtree", budget=24, top_k=4))
        ties += near_ties(target, results, expected)
        accepted += sum(len(one.tokens) - 1 - one.steps for one in results)
    assert accepted > 24
    text = torch.tensor([[*requests[-1].prompt, *expected["r23"]]])
    first, second = target(text, torch.arange(text.shape[1])[None]).logits[0].topk(2).values.T
    assert (first - second).median() > NEAR_TIE[torch.bfloat16], "any difference would pass"
    print(ties, "near ties")


# Trees against brute force


def random_tree(root, budget, seed):
    """A tree of random tokens and shape."""
    noise = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(5, 53, generator=noise)
    return build(root, candidates(logits, 3), budget)


def above(tree, row):
    """The rows from the root to a row, by its parents alone."""
    rows = [row]
    while rows[-1] != 0:
        rows.append(int(tree.parents[rows[-1]]))
    return rows[::-1]


def assert_equal_to_prefill(target, cache, row, text):
    """What the cache holds of a batch row is what the text alone would have left in it."""
    alone = target.cache(1, len(text))
    target.prefill([text], alone)
    assert int(cache.known_lengths[row]) == len(text)
    close = {"atol": 2e-5, "rtol": 2e-5}
    assert_close(cache.rows[:, :, row, :, : len(text)], alone.rows[:, :, 0], **close)
    for layer, state in alone.states.items():
        assert_close(cache.states[layer].delta[row], state.delta[0], **close)
        assert_close(cache.states[layer].conv[row], state.conv[0], **close)


@pytest.mark.parametrize("seed", range(3))
def test_verified_rows_and_committed_state_are_those_of_plain_passes(
    kind, seed, make_target, tokens
):
    """Three rounds over trees of a batch; one request pauses in each round."""
    target, taps = make_target(kind), (0, 2)
    close = 5e-5 if kind == "hybrid" else 1e-5  # its exponentials make more of a rounding
    texts = [tokens(count, seed=count + seed) for count in (2, 17, 9)]
    roots, draw = [3, 4, 5], random.Random(seed)
    cache = target.cache(3, 80)
    target.prefill(texts, cache)
    for turn in range(3):
        starts, budgets = cache.known_lengths.tolist(), draw.sample([0, 1, 7, 14], 3)
        trees = [
            random_tree(root, budget, 10 * seed + turn + 100 * row)
            for row, (root, budget) in enumerate(zip(roots, budgets, strict=True))
        ]
        given = compile(trees, starts, 15, target.device)
        states = {at: state.delta.clone() for at, state in cache.states.items()}
        out = verify(target, given, cache, taps)
        assert all(torch.equal(cache.states[at].delta, old) for at, old in states.items())
        for row, (tree, text) in enumerate(zip(trees, texts, strict=True)):
            for node in range(15):
                path = above(tree, node) if node <= tree.nodes else [0]
                seen = given.visible[row, node].nonzero().flatten().tolist()
                assert seen == sorted(path)
                if node > tree.nodes:
                    continue
                assert int(given.positions[row, node]) == len(text) + len(path) - 1
                alone = torch.tensor([[*text, *tree.tokens[path].tolist()]])
                wanted = target(alone, torch.arange(alone.shape[1])[None], taps=taps)
                for ours, theirs in (
                    (out.logits[row, node], wanted.logits[0, -1]),
                    (out.features[row, node], wanted.features[0, -1]),
                ):
                    assert_close(ours, theirs, atol=close * float(theirs.abs().max()), rtol=0)
        paths = [above(tree, draw.randrange(tree.nodes + 1)) for tree in trees]
        paths[turn] = []
        cache.commit(paths, out.states)
        for row, path in enumerate(paths):
            texts[row] += trees[row].tokens[path].tolist() if path else []
            roots[row] = draw.randrange(52) if path else roots[row]
            assert_equal_to_prefill(target, cache, row, texts[row])
