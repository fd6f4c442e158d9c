"""The cache against plain lists of rows."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'specdiag-llm[runtime]'")

from specdiag.ddtree.cache import Cache, State  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

SLOTS = 40


@pytest.fixture
def cache():
    """Three requests, model layers 1 and 4, and a recurrent layer 0."""
    found = Cache.empty([1, 4], (3, 2, SLOTS, 4), torch.float32, torch.device("cpu"))
    found.states = {0: State(torch.zeros(3, 2, 3, 3), torch.zeros(3, 2, 5))}
    return found


def put(cache, rows, seed=0):
    """Write random rows behind the committed ones; gives them by layer, [part, batch, ...]."""
    torch.manual_seed(seed)
    new = {layer: torch.randn(2, 3, 2, rows, 4) for layer in cache.index}
    for layer, (keys, values) in new.items():
        cache.write(layer, cache.place(rows), keys, values)
    return new


def nodes(rows, seed=0):
    """Random states of as many nodes."""
    torch.manual_seed(seed)
    return {0: State(torch.randn(3, rows, 2, 3, 3), torch.randn(3, rows, 2, 5))}


def test_commit_keeps_the_accepted_rows_in_order(cache):
    draw = random.Random(1)
    place, kept = cache.rows.data_ptr(), {1: [[], [], []], 4: [[], [], []]}
    for step in range(5):
        new, states = put(cache, 7, step), nodes(7, step)
        before = cache.states[0].delta.clone()
        accepted = [
            [0, *sorted(draw.sample(range(1, 7), draw.randrange(6)))] if draw.random() < 0.8 else []
            for _ in range(3)
        ]
        cache.commit(accepted, states)
        for layer, lists in kept.items():
            for batch, rows in enumerate(accepted):
                lists[batch] += [new[layer][:, batch, :, row] for row in rows]
                for part, found in enumerate(cache.read(layer, len(lists[batch]))):
                    for slot, row in enumerate(lists[batch]):
                        assert torch.equal(found[batch, :, slot], row[part])
        assert cache.known_lengths.tolist() == [len(lists) for lists in kept[1]]
        for batch, rows in enumerate(accepted):
            wanted = states[0].delta[batch, rows[-1]] if rows else before[batch]
            assert torch.equal(cache.states[0].delta[batch], wanted)
            if rows:
                assert torch.equal(cache.states[0].conv[batch], states[0].conv[batch, rows[-1]])
    assert cache.rows.data_ptr() == place  # the same memory from beginning to end


def test_rows_that_were_not_accepted_are_written_over(cache):
    put(cache, 5)
    cache.commit([[0], [0, 1], []], nodes(5))
    new = put(cache, 2, seed=9)
    keys, _ = cache.read(4, 4)
    assert torch.equal(keys[0, :, 1:3], new[4][0, 0])
    assert torch.equal(keys[1, :, 2:4], new[4][0, 1])
    assert torch.equal(keys[2, :, 0:2], new[4][0, 2])


def test_a_move_reads_everything_before_it_writes(cache):
    put(cache, 4)
    old = cache.rows.clone()
    swap = torch.tensor([[1, 0]] * 3)
    cache.move(swap, torch.tensor([[0, 1]] * 3))
    assert torch.equal(cache.rows[..., :2, :], old[..., [1, 0], :])
    cache.move(swap, torch.tensor([[0, 1]] * 3), layers=[4])
    assert torch.equal(cache.rows[:, 1, ..., :2, :], old[:, 1, ..., :2, :])  # swapped back
    assert torch.equal(cache.rows[:, 0, ..., :2, :], old[:, 0, ..., [1, 0], :])  # still swapped


@pytest.mark.parametrize("rows", [[0, 2, 1], [0, 0], [3, 1]])
def test_a_path_that_does_not_ascend_is_our_own_mistake(cache, rows):
    with pytest.raises(ValueError, match="ascend"):
        cache.commit([rows, [0], [0]], nodes(4))


def test_crop_and_reset(cache):
    cache.states = {}
    cache.extend([5, 6, 7])
    cache.crop([5, 2, 0])
    assert cache.known_lengths.tolist() == [5, 2, 0]
    with pytest.raises(ValueError, match="cropped"):
        cache.crop([6, 2, 0])
    cache.reset(0)
    assert cache.lengths.tolist() == [0, 2, 0]


def test_a_recurrent_state_cannot_be_cropped_but_reset(cache):
    cache.commit([[0, 1], [0], [0]], nodes(2))
    with pytest.raises(ValueError, match="recurrent"):
        cache.crop([1, 1, 1])
    cache.crop([2, 1, 1])
    cache.reset(1)
    assert not cache.states[0].delta[1].any() and not cache.states[0].conv[1].any()
    assert cache.states[0].delta[0].any() and cache.states[0].delta[2].any()


def test_a_part_of_the_batch_shares_the_memory(cache):
    part = cache.select(1, 2)
    assert part.batch == 1
    keys = torch.ones(1, 2, 3, 4)
    part.write(1, part.place(3), keys, keys)
    part.commit([[0, 2]], {0: State(torch.ones(1, 3, 2, 3, 3), torch.ones(1, 3, 2, 5))})
    assert cache.known_lengths.tolist() == [0, 2, 0]
    assert cache.lengths.tolist() == [0, 2, 0]
    assert cache.rows[:, 0, 1, :, :3].eq(1).all()
    assert not cache.rows[:, :, [0, 2]].any()
    assert cache.states[0].delta[1].eq(1).all() and not cache.states[0].delta[[0, 2]].any()


def test_lengths_on_a_device_follow_those_on_the_host(cache):
    cache.lengths = cache.known_lengths.clone()  # as a cache on a GPU has them
    cache.extend([1, 2, 3])
    cache.select(2, 3).extend([4])
    cache.reset(0)
    assert cache.lengths.tolist() == cache.known_lengths.tolist() == [0, 2, 7]


def test_a_text_that_does_not_fit_is_refused_before_anything_is_written(cache):
    cache.extend([3, 35, 1])
    assert cache.columns(5) == SLOTS
    with pytest.raises(SpecdiagError, match="41 tokens do not fit a cache of 40"):
        cache.columns(6)
