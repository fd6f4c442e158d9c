"""The drafter against a slow one that follows the definition, and against itself in other steps."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'specdiag-llm[runtime]'")

from torch.testing import assert_close  # noqa: E402

from specdiag.ddtree.tree import build, candidates  # noqa: E402

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
SOME = (0, 2)  # the drafter's taps


def features_of(target, text):
    """The features of a text that the target has read. [1, token, tap * hidden]"""
    return target(torch.tensor([text]), torch.arange(len(text))[None], taps=SOME).features


def drafted(drafter, target, features, root=3):
    """One block behind a whole context. [depth, vocab]"""
    cache = drafter.cache(1, features.shape[1] + drafter.architecture.block_size)
    drafter.append(features, [features.shape[1]], cache)
    return drafter(drafter.block(torch.tensor([root])), cache, target)[0]


def turned(x, position, rotary):
    """One head's vector turned by its position, pair by pair."""
    half, out = len(x) // 2, x.clone()
    for pair, frequency in enumerate(rotary.frequencies):
        angle = position * frequency
        first, second = x[pair], x[pair + half]
        out[pair] = (first * angle.cos() - second * angle.sin()) * rotary.scale
        out[pair + half] = (second * angle.cos() + first * angle.sin()) * rotary.scale
    return out


def by_definition(drafter, target, features, ids, windows, causal=(False,) * 3):
    """Logits of one block, one query and one head after the other. [depth, vocab]"""
    of, start = drafter.architecture, features.shape[1]
    context = [drafter.hidden_norm(drafter.fc(each)) for each in features[0]]
    stream = [target.embed_tokens.weight[each] for each in ids]
    layers = zip(drafter.layers, of.layer_types, windows, causal, strict=True)
    for layer, kind, window, back in layers:
        attention, rotary = layer.self_attn, drafter.rotary[kind]
        normed = [layer.input_layernorm(each) for each in stream]
        entries = []  # position, keys and values [kv head, head_dim]
        for position, row in enumerate(context + normed):
            keys = attention.k_norm(attention.k_proj(row).view(-1, of.head_dim))
            keys = torch.stack([turned(key, position, rotary) for key in keys])
            entries.append((position, keys, attention.v_proj(row).view(-1, of.head_dim)))
        for slot, row in enumerate(normed):
            place, heads = start + slot, []
            near = [e for e in entries if window is None or abs(e[0] - place) < window]
            near = [e for e in near if e[0] <= place or not back]
            queries = attention.q_norm(attention.q_proj(row).view(-1, of.head_dim))
            for head, query in enumerate(queries):
                kv = head * of.num_key_value_heads // of.num_attention_heads
                query = turned(query, place, rotary) / of.head_dim**0.5
                weights = torch.stack([query @ keys[kv] for _, keys, _ in near]).softmax(0)
                heads.append(weights @ torch.stack([values[kv] for _, _, values in near]))
            stream[slot] = stream[slot] + attention.o_proj(torch.cat(heads))
        stream = [each + layer.mlp(layer.post_attention_layernorm(each)) for each in stream]
    return torch.stack([target.head(drafter.norm(each)) for each in stream[1:]])


@pytest.mark.parametrize("context", [1, 3, 14])  # the window of 5 is longer and shorter
def test_logits_are_what_the_definition_says(context, make_target, make_drafter, tokens):
    target, drafter = make_target(), make_drafter()
    assert drafter.windows == [5, 5, None]
    features = features_of(target, tokens(context))
    ids = [3] + [52] * 6
    assert drafter.block(torch.tensor([3, 4])).tolist() == [ids, [4] + [52] * 6]
    wanted = by_definition(drafter, target, features, ids, drafter.windows)
    assert_close(drafted(drafter, target, features), wanted, **CLOSE)


def lowest(seen):
    """The lowest column that any row reads."""
    return seen[0].any(0).nonzero()[0]


def test_each_slot_has_its_own_window(make_target, make_drafter):
    drafter = make_drafter()
    positions, lengths = torch.arange(11, 18)[None], torch.tensor([11])
    seen = drafter.sight(positions, lengths, 18)
    for window, view in zip((5, 5, 99), seen, strict=True):
        for slot in range(7):
            places = [place for place in range(18) if abs(place - (11 + slot)) < window]
            assert view[0, slot].nonzero().flatten().tolist() == places
    assert [int(lowest(view)) for view in seen] == [7, 7, 0]
    drafter.windows[0] = None  # what a fault test does
    assert [int(lowest(view)) for view in drafter.sight(positions, lengths, 18)] == [0, 7, 0]


@pytest.mark.parametrize(
    ("is_causal", "causal"),
    [(True, (True, True, True)), (None, (True, True, False)), (False, (False, False, False))],
)
def test_a_causal_layer_sees_no_later_slot(is_causal, causal, make_target, make_drafter, tokens):
    """Without a word about it the sliding layers are causal, as in published drafters."""
    target, drafter = make_target(), make_drafter(is_causal=is_causal)
    features, ids = features_of(target, tokens(9)), [3] + [52] * 6
    assert tuple(drafter.causal) == causal
    wanted = by_definition(drafter, target, features, ids, drafter.windows, causal)
    assert_close(drafted(drafter, target, features), wanted, **CLOSE)
    starts, block = torch.tensor([[9]]), torch.tensor([[ids]])
    assert_close(drafter.parallel(features, starts, block, target)[0, 0], wanted, **CLOSE)
    positions, lengths = torch.arange(9, 16)[None], torch.tensor([9])
    for view, back in zip(drafter.sight(positions, lengths, 16), causal, strict=True):
        ahead = [view[0, slot, 9 + slot + 1 :].any() for slot in range(6)]
        assert any(ahead) != back


def test_the_first_slots_of_a_causal_block_do_not_depend_on_its_width(
    make_target, make_drafter, tokens
):
    target = make_target()
    features = features_of(target, tokens(6))
    for is_causal in (True, False):
        drafter = make_drafter(is_causal=is_causal)
        cache = drafter.cache(1, 20)
        drafter.append(features, [6], cache)
        ids = drafter.block(torch.tensor([4]))
        wide, narrow = drafter(ids, cache, target), drafter(ids[:, :4], cache, target)
        assert torch.allclose(wide[:, :3], narrow, atol=1e-4) == is_causal


def test_a_reduced_vocabulary_leaves_the_other_tokens_at_minus_infinity(
    make_target, make_drafter, tokens
):
    target, drafter = make_target(), make_drafter(draft_vocab_size=20)
    known = sorted(random.Random(1).sample(range(53), 20))
    drafter.d2t.copy_(torch.tensor(known) - torch.arange(20))  # offsets, not tokens
    features = features_of(target, tokens(9))
    logits = drafted(drafter, target, features)
    assert logits.shape == (6, 53)
    own = make_drafter()  # the same weights, of a vocabulary that is not reduced
    own.lm_head = torch.nn.Linear(32, 53, bias=False)
    own.load_state_dict(
        drafter.state_dict() | {"lm_head.weight": torch.zeros(53, 32)}, strict=False
    )
    with torch.no_grad():
        own.lm_head.weight[known] = drafter.lm_head.weight
    wanted = drafted(own, target, features)
    assert torch.equal(logits[:, known], wanted[:, known])
    others = [token for token in range(53) if token not in known]
    assert logits[:, others].isneginf().all()
    tree = build(3, candidates(logits, 30), 200)
    assert tree.nodes == 200 and set(tree.tokens[1:].tolist()) <= set(known)


def test_a_drafter_of_few_tokens_trains(make_target, make_drafter, tokens):
    target, drafter = make_target(), make_drafter(draft_vocab_size=20).requires_grad_(True)
    text = tokens(18)
    starts, ids = torch.tensor([[9]]), drafter.block(torch.tensor([5]))[None]
    logits = drafter.parallel(features_of(target, text), starts, ids, target)
    logits.logsumexp(-1).sum().backward()
    assert all(each.grad.isfinite().all() for each in drafter.parameters())


def test_appending_bit_by_bit_equals_all_at_once(make_target, make_drafter, tokens):
    target, drafter = make_target(), make_drafter()
    features = features_of(target, tokens(20))
    whole, parts = drafter.cache(1, 32), drafter.cache(1, 32)
    drafter.append(features, [20], whole)
    at = 0
    for count in (6, 1, 4, 9):
        drafter.append(features[:, at : at + count], [count], parts)
        at += count
        drafter(drafter.block(torch.tensor([1])), parts, target)  # leaves block rows behind
        assert parts.known_lengths.tolist() == [at]
    assert_close(parts.rows[..., :20, :], whole.rows[..., :20, :], **CLOSE)
    block = drafter.block(torch.tensor([5]))
    first = drafter(block, parts, target)
    assert_close(first, drafter(block, whole, target), **CLOSE)
    assert torch.equal(first, drafter(block, parts, target))  # drafting changes nothing


def test_a_batch_of_unequal_requests_equals_each_alone(make_target, make_drafter, tokens):
    target, drafter = make_target(), make_drafter()
    texts = [tokens(count, seed=count) for count in (2, 17, 9)]
    cache = drafter.cache(3, 40)
    alone = [features_of(target, text) for text in texts]
    for at, most in ((0, 8), (8, 9)):  # shorter texts are padded, with anything
        counts = [min(max(len(text) - at, 0), most) for text in texts]
        rows = torch.randn(3, most, alone[0].shape[-1])
        for row, count in enumerate(counts):
            rows[row, :count] = alone[row][0, at : at + count]
        drafter.append(rows, counts, cache)
    assert cache.known_lengths.tolist() == [2, 17, 9]
    together = drafter(drafter.block(torch.tensor([1, 2, 3])), cache, target)
    fixed = drafter(drafter.block(torch.tensor([1, 2, 3])), cache, target, columns=40)
    for row in range(3):
        wanted = drafted(drafter, target, alone[row], root=row + 1)
        assert_close(together[row], wanted, **CLOSE)
        assert_close(fixed[row], wanted, **CLOSE)


def test_many_blocks_at_once_equal_each_alone(make_target, make_drafter, tokens):
    """As training runs them: blocks see the text before them and themselves, not each other."""
    target, drafter = make_target(), make_drafter()
    text = tokens(18)
    features = features_of(target, text)
    starts = torch.tensor([[1, 9, 12, 18]])
    roots = torch.tensor([5, 6, 7, 8])
    drafter.requires_grad_(True)
    logits = drafter.parallel(features, starts, drafter.block(roots)[None], target)
    assert logits.shape == (1, 4, 6, 53)
    for block, start in enumerate(starts[0].tolist()):
        wanted = drafted(drafter, target, features[:, :start], root=int(roots[block]))
        assert_close(logits[0, block], wanted, **CLOSE)
    logits.logsumexp(-1).sum().backward()
    assert all(each.grad is not None for each in drafter.parameters())
    assert target.embed_tokens.weight.grad is None


def test_positions_of_context_and_block_can_be_given(make_target, make_drafter, tokens):
    """Positions are absolute; only their distances matter, so a common shift changes nothing."""
    target, drafter = make_target(), make_drafter(layer_types=("full_attention",) * 2)
    features = features_of(target, tokens(9))
    block = drafter.block(torch.tensor([4]))
    logits = []
    for shift, apart in ((0, 0), (30, 0), (0, 1)):
        cache = drafter.cache(1, 20)
        drafter.append(features, [9], cache, torch.arange(9)[None] + shift)
        logits.append(drafter(block, cache, target, torch.arange(9, 16)[None] + shift + apart))
    assert_close(logits[1], logits[0], atol=1e-3, rtol=1e-3)
    assert not torch.allclose(logits[2], logits[0], atol=1e-2)


def test_a_block_may_be_of_another_width(make_target, make_drafter, tokens):
    target, drafter = make_target(), make_drafter()
    features = features_of(target, tokens(6))
    cache = drafter.cache(1, 20)
    drafter.append(features, [6], cache)
    ids = drafter.block(torch.tensor([4]))[:, :4]
    wanted = by_definition(drafter, target, features, ids[0].tolist(), drafter.windows)
    assert_close(drafter(ids, cache, target)[0], wanted, **CLOSE)


def test_taps_without_names_are_spread(make_drafter):
    drafter = make_drafter(num_target_layers=36, target_layer_ids=None)
    assert drafter.taps == (1, 9, 17, 25, 33)
    assert drafter.depths == 6
