"""The draft tree against its definition (ddtree, sections 4 to 6; P1 to P13 are its properties)."""

from __future__ import annotations

import json
import math
import runpy
from collections import Counter
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch: pip install 'specdiag-llm[runtime]'")

from specdiag.ddtree import trace, tree  # noqa: E402
from specdiag.ddtree.tree import Candidates, Tree, build, candidates, pad, walk  # noqa: E402

oracle = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("oracle.py"))))
ROOT = 7
INF = math.inf
budgets = st.integers(0, 24)
check = settings(deadline=None, max_examples=80)


def table(rows: list[list[float]]) -> Candidates:
    """Candidates with these log-probabilities; the tokens say where they stand."""
    log_probs = torch.tensor([sorted(row, reverse=True) for row in rows], dtype=torch.float32)
    levels, width = log_probs.shape
    tokens = 100 * torch.arange(1, levels + 1)[:, None] + torch.arange(width)
    return Candidates(tokens, log_probs)


def tables(levels: int = 4, width: int = 5, masks: bool = False) -> st.SearchStrategy[Candidates]:
    """Random tables, tables with many equal scores, and tables whose sums just miss equality."""
    kinds = [
        st.floats(-30, 0, width=32),
        st.sampled_from([0.0, -0.5, -1.0]),
        st.sampled_from([-0.1, -0.2, -0.3, -0.7]),
        st.sampled_from([0.0, -1e-7, -25.0]),
    ]
    if masks:
        kinds = [st.one_of(kind, st.just(-INF)) for kind in kinds]

    @st.composite
    def drawn(draw: st.DrawFn) -> Candidates:
        shape = draw(st.integers(1, levels)), draw(st.integers(1, width))
        value = draw(st.sampled_from(kinds))
        row = st.lists(value, min_size=shape[1], max_size=shape[1])
        return table(draw(st.lists(row, min_size=shape[0], max_size=shape[0])))

    return drawn()


@st.composite
def any_trees(draw: st.DrawFn) -> Tree:
    """Trees that no builder made: any shape, siblings that carry one token."""
    nodes = draw(st.integers(0, 12))
    parents = [-1] + [draw(st.integers(max(0, row - 3), row)) for row in range(nodes)]
    tokens = [ROOT] + [draw(st.integers(0, 2)) for _ in range(nodes)]
    depths = [len(oracle.ancestors(parents, row)) - 1 for row in range(nodes + 1)]
    zeros = torch.zeros(nodes + 1)
    return Tree(*map(torch.tensor, (tokens, parents, depths)), zeros.long(), zeros)


def paths_of(made: Tree) -> list[tuple[int, ...]]:
    """The ranks from the root of each node, in the order of the rows."""
    found: list[tuple[int, ...]] = [()]
    for parent, rank in zip(made.parents.tolist()[1:], made.ranks.tolist()[1:], strict=True):
        found.append((*found[parent], rank))
    return found[1:]


def same(one: Tree, other: Tree) -> bool:
    return all(torch.equal(vars(one)[name], vars(other)[name]) for name in vars(one))


def assert_oracle(made: Tree, rows: list[tuple[int, int, int, int, float]]) -> None:
    parents, depths, ranks, tokens, scores = map(list, zip(*rows, strict=True))
    assert made.parents.tolist() == parents
    assert made.depths.tolist() == depths
    assert made.ranks.tolist() == ranks
    assert made.tokens.tolist() == tokens
    assert made.log_probs.tolist() == torch.tensor(scores, dtype=torch.float32).tolist()


# Candidates --------------------------------------------------------------------------------------

LOGITS = st.lists(
    st.lists(st.sampled_from([-INF, -2.0, 0.0, 0.5, 3.0]) | st.floats(-50, 50, width=32),
             min_size=6, max_size=6),
    min_size=1, max_size=3,
)  # fmt: skip


@check
@given(LOGITS, st.integers(1, 8), st.sampled_from([torch.float32, torch.bfloat16]))
def test_candidates_are_the_head_of_the_sorted_vocabulary(rows, top_k, dtype):
    logits = torch.tensor(rows).to(dtype)
    found = candidates(logits, top_k)
    kept = min(top_k, 6)
    assert found.tokens.shape == found.log_probs.shape == (len(rows), kept)
    assert found.tokens.dtype == torch.int64 and found.log_probs.dtype == torch.float32
    for row, tokens, log_probs in zip(logits, found.tokens, found.log_probs, strict=True):
        whole = row.float() - row.float().logsumexp(-1)
        whole = whole.masked_fill(row == -INF, -INF).tolist()
        order = sorted(range(6), key=lambda token: (-whole[token], token))
        assert tokens.tolist() == order[:kept]
        assert log_probs.tolist() == [whole[token] for token in order[:kept]]
        assert not log_probs.isnan().any()


def test_candidates_are_normalised_over_the_whole_vocabulary():
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(
        candidates(logits, 4).log_probs, logits.log_softmax(-1).topk(4).values, atol=1e-6
    )
    assert (candidates(logits, 4).log_probs.exp().sum(-1) < 1).all()


def test_candidates_keep_the_dimensions_of_a_batch():
    logits = torch.randn(2, 3, 10)
    both = candidates(logits, 4)
    for at in range(2):
        alone = candidates(logits[at], 4)
        assert torch.equal(both.tokens[at], alone.tokens)
        assert torch.equal(both.log_probs[at], alone.log_probs)


# Building ----------------------------------------------------------------------------------------


@check
@given(tables(masks=True), budgets, st.none() | st.integers(0, 5),
       st.sampled_from([0.0, 0.0, 0.5, 3.0, -0.5]))  # fmt: skip
def test_equals_the_oracle_node_by_node(found, budget, limit, bonus):
    made = build(ROOT, found, budget, limit, bonus)
    lists = found.tokens.tolist(), found.log_probs.tolist()
    assert_oracle(made, oracle.build(ROOT, *lists, budget, limit, bonus))


@pytest.mark.parametrize("step", [0.0, 0.5, 1e-3])
@pytest.mark.parametrize("budget", [64, 512])
def test_equals_the_oracle_at_full_size(step, budget):
    logits = torch.randn(15, 700, generator=torch.Generator().manual_seed(budget)) * 4
    if step:  # rounded logits: many equal scores
        logits = (logits / step).round() * step
    found = candidates(logits, budget)
    lists = found.tokens.tolist(), found.log_probs.tolist()
    assert_oracle(build(ROOT, found, budget), oracle.build(ROOT, *lists, budget))


@check
@given(tables(3, 3), st.integers(1, 45))
def test_holds_the_best_paths_in_lexicographic_order(found, budget):  # P2, P4, the tie rule
    expected = oracle.paths(found.log_probs.tolist())[:budget]
    made = build(ROOT, found, budget)
    assert paths_of(made) == [path for _, path in expected]
    scores = torch.tensor([score for score, _ in expected], dtype=torch.float32)
    assert torch.equal(made.log_probs[1:], scores)


TREES = {shape: list(oracle.trees(*shape)) for shape in [(1, 3), (2, 2), (2, 3), (3, 2)]}


@check
@given(st.data(), st.sampled_from(sorted(TREES)))
def test_no_tree_of_its_size_is_worth_more(data, shape):  # P2
    row = st.lists(st.floats(-6, 0, width=32), min_size=shape[1], max_size=shape[1])
    found = table(data.draw(st.lists(row, min_size=shape[0], max_size=shape[0])))
    worth = {path: math.exp(score) for score, path in oracle.paths(found.log_probs.tolist())}
    best: Counter[int] = Counter()
    for one in TREES[shape]:
        best[len(one)] = max(best[len(one)], sum(worth[path] for path in one))
    for budget in range(len(worth) + 1):
        made = sum(worth[path] for path in paths_of(build(ROOT, found, budget)))
        assert made == pytest.approx(best[budget], rel=1e-9)


@check
@given(st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=3),
       st.integers(0, 12))  # fmt: skip
def test_expected_accepted_depth_is_the_sum_of_path_probabilities(rows, budget):  # P1
    logits = torch.tensor(rows)
    made = build(ROOT, candidates(logits, 3), budget)
    law = logits.softmax(-1).tolist()
    expected = 0.0
    for text in product(range(3), repeat=len(rows)):
        target = torch.tensor([*text, -1])[made.depths]
        accepted, _ = walk(made, target)
        chance = math.prod(row[token] for row, token in zip(law, text, strict=True))
        expected += chance * (len(accepted) - 1)
    assert float(made.log_probs[1:].exp().sum()) == pytest.approx(expected, abs=1e-5)


@check
@given(LOGITS, st.integers(1, 6))
def test_as_many_candidates_as_nodes_lose_nothing(rows, budget):  # P3
    logits = torch.tensor(rows)
    whole = build(ROOT, candidates(logits, 6), budget)
    assert same(build(ROOT, candidates(logits, budget), budget), whole)


@check
@given(tables(masks=True), budgets)
def test_scores_fall_and_parents_come_first(found, budget):  # P6, P7
    made = build(ROOT, found, budget)
    assert (made.log_probs.diff() <= 0).all()
    rows = torch.arange(made.nodes + 1)
    assert (made.parents < rows).all() and made.parents[0] == -1
    assert (made.depths[1:] == made.depths[made.parents[1:]] + 1).all()


@check
@given(tables(masks=True), budgets, st.sampled_from([0.0, 2.0]))
def test_siblings_have_the_ranks_0_1_2(found, budget, bonus):  # P7
    made = build(ROOT, found, budget, depth_bonus=bonus)
    ranks: dict[int, list[int]] = {}
    for parent, rank in zip(made.parents.tolist(), made.ranks.tolist(), strict=True):
        ranks.setdefault(parent, []).append(rank)
    assert all(found == list(range(len(found))) for found in ranks.values())


@check
@given(tables(masks=True), budgets, budgets, st.sampled_from([0.0, 2.0, -2.0]))
def test_a_smaller_budget_is_a_prefix(found, budget, smaller, bonus):  # P8
    made = build(ROOT, found, budget, depth_bonus=bonus)
    smaller = min(budget, smaller)
    assert same(made.prefix(smaller), build(ROOT, found, smaller, depth_bonus=bonus))


@check
@given(tables(width=1), budgets)
def test_one_candidate_gives_the_chain(found, budget):  # P9
    made = build(ROOT, found, budget)
    assert made.nodes == min(budget, len(found.tokens))
    assert made.is_chain()
    assert made.spine() == list(range(made.nodes + 1))
    assert made.tokens.tolist() == [ROOT, *found.tokens[: made.nodes, 0].tolist()]


@check
@given(tables(masks=True), st.integers(0, 900))
def test_all_nodes_that_there_are(found, budget):  # P10, P13
    left = (found.log_probs > -INF).sum(-1).tolist()  # K at each depth, without masks the same
    possible = sum(math.prod(left[: depth + 1]) for depth in range(len(left)))
    assert build(ROOT, found, budget).nodes == min(budget, possible)


def test_the_spine_is_not_guaranteed():  # P11
    flat = table([[math.log(1 / 8)] * 8] * 3)
    made = build(ROOT, flat, 8)
    assert made.nodes == 8 > len(flat.tokens)
    assert made.depths.max() == 1 and made.spine() == [0, 1]


def test_budget_and_table_bound_the_tree():
    found = table([[-1.0, -2.0]] * 3)
    alone = build(ROOT, found, 0)
    assert (alone.tokens.tolist(), alone.parents.tolist()) == ([ROOT], [-1])
    assert alone.log_probs.tolist() == [0.0] and alone.nodes == 0 and alone.is_chain()
    assert same(build(ROOT, found, 5, depth_limit=0), alone)
    assert build(ROOT, found, 99, depth_limit=2).nodes == 6
    assert same(build(ROOT, found, 99, depth_limit=9), build(ROOT, found, 99))


@check
@given(tables(masks=True), st.integers(1, 24))
def test_what_is_left_out_scores_no_higher(found, budget):  # P12
    made = build(ROOT, found, budget)
    inside = set(paths_of(made))
    excluded = [s for s, path in oracle.paths(found.log_probs.tolist()) if path not in inside]
    rounded = torch.tensor([max(excluded, default=-INF)], dtype=torch.float32)
    assert made.nodes == 0 or rounded <= made.log_probs[-1]


@check
@given(tables(masks=True), budgets)
def test_masked_candidates_are_never_drafted(found, budget):  # P13
    made = build(ROOT, found, budget)
    assert made.log_probs.isfinite().all()


@check
@given(tables(masks=True), budgets)
def test_the_recorded_candidates_give_the_tree_again(found, budget):
    step = trace.StepRecord(
        run="b7", request="r0", step=0, row=0, batch=1, mode="ddtree",
        algorithm_requested="DDTREE", algorithm="DDTREE", ctx_len=0, root=ROOT,
        budget_requested=budget, budget=budget, top_k=5, nodes=0, width=1,
        candidate_tokens=found.tokens.tolist(), candidate_log_probs=found.log_probs.tolist(),
    )  # fmt: skip
    read = json.loads(trace.line(step))
    lists = read["candidate_tokens"], read["candidate_log_probs"]
    made = build(ROOT, found, budget)
    assert_oracle(made, oracle.build(ROOT, *lists, budget))
    again = Candidates(torch.tensor(lists[0]), torch.tensor(lists[1], dtype=torch.float32))
    assert same(build(ROOT, again, budget), made)


@pytest.mark.parametrize("spoilt", [math.nan, INF])
def test_broken_logits_are_refused(spoilt):
    logits = torch.tensor([[0.0, 1.0, 2.0], [0.0, spoilt, 1.0]])
    with pytest.raises(ValueError, match="NaN"):
        build(ROOT, candidates(logits, 2), 4)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="top_k is 0"):
        candidates(torch.zeros(1, 3), 0)
    with pytest.raises(ValueError, match="budget is -1"):
        build(ROOT, table([[-1.0]]), -1)


# What verification reads -------------------------------------------------------------------------


@check
@given(tables().flatmap(lambda found: st.builds(build, st.just(ROOT), st.just(found), budgets))
       | any_trees())  # fmt: skip
def test_a_row_sees_itself_and_what_is_above(made):
    parents = made.parents.tolist()
    for row, seen in enumerate(made.visible()):
        assert set(seen.nonzero().flatten().tolist()) == oracle.ancestors(parents, row)
        assert seen.sum() == made.depths[row] + 1


def test_siblings_share_a_position():
    made = build(ROOT, table([[-1.0, -1.5], [-2.0, -3.0]]), 4)
    assert made.parents.tolist() == [-1, 0, 0, 1, 2]
    assert made.positions(40).tolist() == [40, 41, 41, 42, 42]
    assert not made.is_chain() and made.spine() == [0, 1, 3]


@check
@given(st.lists(any_trees(), min_size=1, max_size=4), st.integers(0, 3))
def test_padding_sees_something_and_is_seen_by_nobody(made, spare):
    width = max(len(one.tokens) for one in made) + spare
    batch = pad(made, width)
    assert batch.tokens.shape == batch.parents.shape == (len(made), width)
    assert batch.visible.any(-1).all()
    for at, one in enumerate(made):
        rows = int(batch.rows[at])
        assert rows == one.nodes + 1
        assert torch.equal(batch.tokens[at, :rows], one.tokens)
        assert torch.equal(batch.parents[at, :rows], one.parents)
        assert torch.equal(batch.depths[at, :rows], one.depths)
        assert torch.equal(batch.visible[at, :rows, :rows], one.visible())
        assert not batch.visible[at, :, rows:].any()
        assert (batch.parents[at, rows:] == -1).all() and (batch.depths[at, rows:] == 0).all()


def test_padding_never_cuts():
    with pytest.raises(ValueError, match="3 rows does not fit into 2"):
        pad([build(ROOT, table([[-1.0, -1.5]]), 2)], 2)


# Accepting ---------------------------------------------------------------------------------------


@check
@given(st.data(), any_trees())
def test_walks_the_longest_path_that_the_target_follows(data, made):
    rows = made.nodes + 1
    target = data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    accepted, bonus = walk(made, torch.tensor(target))
    tokens, parents = made.tokens.tolist(), made.parents.tolist()
    assert accepted == oracle.longest(tokens, parents, target)
    assert bonus == target[accepted[-1]]
    assert [made.depths[row] for row in accepted] == list(range(len(accepted)))
    below = [token for token, parent in zip(tokens, parents, strict=True) if parent == accepted[-1]]
    assert bonus not in below


@check
@given(st.lists(st.integers(0, 2), min_size=1, max_size=8), st.data())
def test_a_chain_is_accepted_up_to_its_first_mismatch(drafts, data):
    found = Candidates(torch.tensor(drafts)[:, None], torch.full((len(drafts), 1), -1.0))
    made = build(ROOT, found, len(drafts))
    target = data.draw(st.lists(st.integers(0, 2), min_size=len(drafts) + 1,
                                max_size=len(drafts) + 1))  # fmt: skip
    matches = 0
    while matches < len(drafts) and drafts[matches] == target[matches]:
        matches += 1
    assert walk(made, torch.tensor(target)) == (list(range(matches + 1)), target[matches])


def test_no_sibling_hides_another_of_the_same_token():
    made = Tree(
        tokens=torch.tensor([ROOT, 5, 5, 6, 6, 8]),
        parents=torch.tensor([-1, 0, 0, 1, 2, 4]),
        depths=torch.tensor([0, 1, 1, 2, 2, 3]),
        ranks=torch.tensor([0, 0, 1, 0, 0, 0]),
        log_probs=torch.zeros(6),
    )
    assert walk(made, torch.tensor([5, 6, 6, 9, 8, 9])) == ([0, 2, 4, 5], 9)
    assert walk(made, torch.tensor([5, 6, 6, 9, 9, 9])) == ([0, 1, 3], 9)


def test_token_0_is_a_token():
    made = build(0, Candidates(torch.tensor([[0, 1]]), torch.tensor([[-1.0, -2.0]])), 2)
    assert walk(made, torch.tensor([0, 0, 1])) == ([0, 1], 0)


def test_rows_are_found_in_a_vocabulary_with_masks():
    logits = torch.full((2, 40_000), -INF)
    logits[:, [30_000, 5]] = 1.0
    found = candidates(logits, 64)
    assert found.tokens[:, :3].tolist() == [[5, 30_000, 0]] * 2
    made = build(ROOT, found, 64)
    assert made.nodes == 6 and made.log_probs.min() > tree.MASKED
