"""Sampled texts follow the target's own law, whatever is drafted: chi-square on six tokens.

The law of the first three tokens is computed from the target's logits alone, text by text. The
same statistic, on the same trees, is shown to tell wrong rules of acceptance from the right one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.tree import build, candidates  # noqa: E402
from specdiag.ddtree.verify import Sampling  # noqa: E402

TINY = 6  # tokens
DRAWN = 3  # tokens of a text whose joint law is compared
DRAWS = 2000


def next_law(target, text, sampling):
    """The law of the token behind a text, from its logits alone: a list of probabilities."""
    ids = torch.tensor([text])
    logits = target(ids, torch.arange(len(text))[None]).logits[0, -1].double()
    law = (logits / sampling.temperature).softmax(-1).tolist()
    kept, mass = set(), 0.0
    for token in sorted(range(TINY), key=lambda each: -law[each]):
        if mass < sampling.top_p:
            kept.add(token)
            mass += law[token]
    return [law[token] / mass if token in kept else 0.0 for token in range(TINY)]


def exact_laws(target, prompt, sampling):
    """The law of the next token behind every text of up to DRAWN - 1 drawn tokens."""
    return {
        drawn: next_law(target, [*prompt, *drawn], sampling)
        for count in range(DRAWN)
        for drawn in itertools.product(range(TINY), repeat=count)
    }


def statistic(counts, laws):
    """Chi-square over its critical value for p = 1e-4; rare texts are one cell."""
    expected = {
        text: DRAWS * math.prod(laws[text[:at]][text[at]] for at in range(DRAWN))
        for text in itertools.product(range(TINY), repeat=DRAWN)
    }
    assert sum(counts.values()) == DRAWS
    if any(expected[text] == 0 for text in counts):
        return math.inf  # a text outside of the nucleus
    cells = [(counts[text], often) for text, often in expected.items() if often >= 5]
    rest = DRAWS - sum(count for count, _ in cells), DRAWS - sum(often for _, often in cells)
    if rest[1] >= 5:
        cells.append(rest)
    assert len(cells) > 8, "too few cells to tell laws apart"
    chi_square = sum((count - often) ** 2 / often for count, often in cells)
    return chi_square / critical(len(cells) - 1)


def critical(freedom):
    """The value that chi-square exceeds with p = 1e-4, by Wilson and Hilferty."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + 3.719 * math.sqrt(spread)) ** 3


@pytest.fixture
def tiny(make_target, make_drafter):
    """`tiny(kind)`: a target and a random drafter of six tokens."""

    def make(kind):
        target = make_target(kind, vocab_size=TINY)
        drafter = make_drafter(vocab_size=TINY, mask_token_id=TINY - 1)
        return target, drafter

    return make


PROMPT = [1, 4, 2, 0, 3]
LAWS = [Sampling(temperature=6.0), Sampling(temperature=4.0, top_p=0.85)]


@pytest.mark.parametrize(
    ("kind", "mode", "sampling"),
    [
        ("full", "ddtree", LAWS[0]),
        ("full", "linear", LAWS[1]),
        ("sliding", "ddtree", LAWS[1]),
        ("hybrid", "ddtree", LAWS[1]),
        ("hybrid", "autoregressive", LAWS[0]),
    ],
)
def test_sampled_texts_follow_the_law_of_the_target(kind, mode, sampling, tiny):
    target, drafter = tiny(kind)
    laws = exact_laws(target, PROMPT, sampling)
    counts, steps = Counter(), 0
    options = Options(mode=mode, budget=12, top_k=3)
    for first in range(0, DRAWS, 250):
        requests = [
            Request(str(at), PROMPT, DRAWN, sampling=dataclasses.replace(sampling, seed=at))
            for at in range(first, first + 250)
        ]
        for one in decode(target, drafter, requests, options):
            counts[tuple(one.tokens)] += 1
            steps += one.steps
    assert statistic(counts, laws) < 1
    if mode != "autoregressive":
        assert steps < 0.9 * DRAWS * (DRAWN - 1), "hardly any draft was accepted"


def first_trees(target, drafter):
    """The tree that is drafted behind each first token of the prompt's continuation."""
    ids, places = torch.tensor([PROMPT]), torch.arange(len(PROMPT))[None]
    features = target(ids, places, taps=drafter.taps).features
    trees = []
    for token in range(TINY):
        starts, block = torch.tensor([[len(PROMPT)]]), drafter.block(torch.tensor([token]))[None]
        logits = drafter.parallel(features, starts, block, target)[0, 0]
        trees.append(build(token, candidates(logits, 3), 12))
    return trees


def children(tree, row):
    """The rows below a row, more probable ones first."""
    return [node for node in range(1, tree.nodes + 1) if int(tree.parents[node]) == row]


def match(tree, row, law, draw):
    """Sample and match: the token is drawn first, and then looked for."""
    (token,) = draw.choices(range(TINY), law)
    return token, next((c for c in children(tree, row) if int(tree.tokens[c]) == token), None)


def follow_the_best(tree, row, law, draw):
    """Wrong: the walk is greedy, only the bonus is drawn."""
    best = law.index(max(law))
    found = next((c for c in children(tree, row) if int(tree.tokens[c]) == best), None)
    return (match(tree, row, law, draw)[0], None) if found is None else (best, found)


def compare_with_draft(tree, row, law, draw):
    """Wrong: min(1, p / q) for tokens that were not drawn from q."""
    for child in children(tree, row):
        token = int(tree.tokens[child])
        drafted = math.exp(float(tree.log_probs[child] - tree.log_probs[row]))
        if draw.random() < min(1.0, law[token] / drafted):
            return token, child
    return match(tree, row, law, draw)[0], None


@pytest.mark.parametrize("sampling", LAWS, ids=["whole law", "nucleus"])
@pytest.mark.parametrize("rule", [match, follow_the_best, compare_with_draft])
def test_the_law_tells_wrong_rules_from_the_right_one(rule, sampling, tiny):
    """The same statistic, on the same trees, over texts that a rule accepts."""
    target, drafter = tiny("full")
    laws, trees = exact_laws(target, PROMPT, sampling), first_trees(target, drafter)
    draw, counts = random.Random(3), Counter()
    for _ in range(DRAWS):
        text = tuple(draw.choices(range(TINY), laws[()]))
        tree, row = trees[text[0]], 0
        while len(text) < DRAWN:
            law = laws[text]
            if row is None:  # the round is over, and plain sampling goes on
                text += tuple(draw.choices(range(TINY), law))
                continue
            token, row = rule(tree, row, law, draw)
            text += (token,)
        counts[text] += 1
    if rule is match:
        assert statistic(counts, laws) < 1
    else:
        assert statistic(counts, laws) > 3
