"""The target against Transformers, and its passes against each other."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'specdiag-llm[runtime]'")

from torch.testing import assert_close  # noqa: E402

from specdiag.ddtree import config_json, model  # noqa: E402
from specdiag.ddtree.model import spread_taps  # noqa: E402

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
YARN |= {"original_max_position_embeddings": 64}
SLIDE = {"use_sliding_window": True, "sliding_window": 5}
SLIDE |= {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}
QWEN3 = {
    "grouped": {},
    "one kv head": {"num_key_value_heads": 1},
    "ungrouped": {"num_key_value_heads": 4},
    "tied": {"tie_word_embeddings": True},
    "sliding": SLIDE,
    "sliding by layer number": {**SLIDE, "layer_types": None, "max_window_layers": 1},
    "biased": {"attention_bias": True},
    "yarn": {"rope_parameters": YARN},
    "yarn, not rounded": {"rope_parameters": {**YARN, "truncate": False}},
    "yarn, given factor": {"rope_parameters": {**YARN, "attention_factor": 1.3, "beta_fast": 8.0}},
    "linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 5e3, "factor": 2.0}},
}


@pytest.mark.parametrize("case", QWEN3)
def test_logits_and_taps_are_those_of_transformers(case):
    transformers = pytest.importorskip("transformers", reason="compares with transformers")
    torch.manual_seed(1)
    config = transformers.Qwen3Config(
        **{
            "vocab_size": 53, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
            "max_position_embeddings": 256, "initializer_range": 0.2, **QWEN3[case],
        }
    )  # fmt: skip
    theirs = transformers.Qwen3ForCausalLM(config).eval()
    for name, parameter in theirs.named_parameters():
        if "norm" in name or "bias" in name:  # ones and zeros would hide a missing one
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.3)
    named = {**config.to_dict(), "architectures": ["Qwen3ForCausalLM"]}
    ours = model.Target(config_json.target(named, "config.json"))
    ours.load_state_dict(
        {
            name.removeprefix("model."): each
            for name, each in theirs.state_dict().items()
            if not (config.tie_word_embeddings and name == "lm_head.weight")
        }
    )
    ids = torch.randint(53, (2, 40))
    with torch.no_grad():
        wanted = theirs(ids, output_hidden_states=True)
        out = ours(ids, torch.arange(40).expand(2, -1), taps=(0, 1))
    assert_close(out.logits, wanted.logits, **CLOSE)
    # The stream after layer i is hidden state i + 1, since number 0 is the embedding.
    assert_close(out.features, torch.cat(wanted.hidden_states[1:3], -1), **CLOSE)


def test_one_row_at_a_time_equals_one_pass(kind, make_target, tokens):
    target, text = make_target(kind), tokens(24)
    whole = target(torch.tensor([text]), torch.arange(24)[None], taps=(0, 1))
    cache = target.cache(1, 24)
    first = target.prefill([text[:9]], cache, taps=(0, 1))
    assert_close(first.features[0], whole.features[0, :9], **CLOSE)
    assert_close(first.logits[0, 0], whole.logits[0, 8], **CLOSE)
    for at in range(9, 24):
        out = target(torch.tensor([[text[at]]]), torch.tensor([[at]]), cache, taps=(0, 1))
        cache.commit([[0]], out.states)
        assert_close(out.logits[0, 0], whole.logits[0, at], **CLOSE)
        assert_close(out.features[0, 0], whole.features[0, at], **CLOSE)


@pytest.mark.parametrize("past", [1, 4, 17])  # the window of 6 is longer and shorter
def test_tree_rows_equal_their_paths_run_alone(kind, past, make_target, make_tree, path_to, tokens):
    target, prompt, drafts = make_target(kind), tokens(past), tokens(14, seed=1)
    parents, mask = make_tree(14, seed=past)
    cache = target.cache(1, past + 14)
    target.prefill([prompt], cache)
    depths = torch.tensor([[len(path_to(parents, row)) - 1 for row in range(14)]])
    out = target(torch.tensor([drafts]), past + depths, cache, mask[None], taps=(1,))
    for row in range(14):
        alone = prompt + [drafts[each] for each in path_to(parents, row)]
        wanted = target(torch.tensor([alone]), torch.arange(len(alone))[None], taps=(1,))
        assert_close(out.logits[0, row], wanted.logits[0, -1], **CLOSE)
        assert_close(out.features[0, row], wanted.features[0, -1], **CLOSE)


def test_a_batch_of_unequal_requests_equals_each_alone(kind, make_target, make_tree, tokens):
    target = make_target(kind)
    prompts = [tokens(count, seed=count) for count in (3, 19, 8)]
    together = target.cache(3, 40)
    first = target.prefill(prompts, together, taps=(0,))
    trees = [make_tree(9, seed) for seed in range(3)]
    masks = torch.stack([mask for _, mask in trees])
    depths = masks.sum(-1) - 1
    starts = torch.tensor([[len(prompt)] for prompt in prompts])
    drafts = torch.tensor([tokens(9, seed=90 + row) for row in range(3)])
    out = target(drafts, starts + depths, together, masks, taps=(0,))
    for row, prompt in enumerate(prompts):
        alone = target.cache(1, 40)
        begun = target.prefill([prompt], alone, taps=(0,))
        assert_close(first.logits[row], begun.logits[0], **CLOSE)
        assert_close(first.features[row, : len(prompt)], begun.features[0], **CLOSE)
        one = slice(row, row + 1)
        wanted = target(drafts[one], (starts + depths)[one], alone, masks[one], taps=(0,))
        assert_close(out.logits[row], wanted.logits[0], **CLOSE)
        assert_close(out.features[row], wanted.features[0], **CLOSE)


def test_commit_then_go_on_equals_plain_decoding(kind, make_target, make_tree, path_to, tokens):
    """Three rounds on two requests, each accepting some path of a random tree."""
    target = make_target(kind)
    texts = [tokens(5, seed=2), tokens(11, seed=3)]
    cache = target.cache(2, 64)
    target.prefill(texts, cache)
    for step in range(3):
        trees = [make_tree(10, seed=10 * step + row) for row in range(2)]
        masks = torch.stack([mask for _, mask in trees])
        drafts = [tokens(10, seed=20 * step + row) for row in range(2)]
        starts = cache.known_lengths[:, None]
        assert starts.flatten().tolist() == [len(text) for text in texts]
        out = target(torch.tensor(drafts), starts + masks.sum(-1) - 1, cache, masks)
        accepted = [path_to(trees[0][0], 9 - step), path_to(trees[1][0], 5 + step)]
        cache.commit(accepted, out.states)
        for text, rows, draft in zip(texts, accepted, drafts, strict=True):
            text += [draft[row] for row in rows]
    after = target(torch.tensor([[1], [1]]), cache.lengths[:, None], cache)
    for row, text in enumerate(texts):
        wanted = target(torch.tensor([[*text, 1]]), torch.arange(len(text) + 1)[None])
        assert_close(after.logits[row, 0], wanted.logits[0, -1], **CLOSE)


def test_long_prompts_go_in_parts(kind, make_target, tokens, monkeypatch):
    target = make_target(kind)
    prompts = [tokens(4, seed=4), tokens(15, seed=5), []]
    whole, parts = target.cache(3, 30), target.cache(3, 30)
    wanted = target.prefill(prompts, whole, taps=(0,))
    monkeypatch.setattr(model, "PREFILL_ROWS", 6)
    out = target.prefill(prompts, parts, taps=(0,))
    assert parts.known_lengths.tolist() == [4, 15, 0]
    assert_close(out.logits[:2], wanted.logits[:2], **CLOSE)
    for row, prompt in enumerate(prompts):
        count = len(prompt)
        assert_close(out.features[row, :count], wanted.features[row, :count], **CLOSE)
        assert_close(parts.rows[:, :, row, :, :count], whole.rows[:, :, row, :, :count], **CLOSE)
    for layer, state in parts.states.items():
        assert_close(state.delta, whole.states[layer].delta, **CLOSE)
        assert_close(state.conv, whole.states[layer].conv, **CLOSE)
        assert not state.delta[2].any()  # an empty prompt leaves its row alone


def test_a_mask_over_all_columns_and_a_fixed_width_change_nothing(
    kind, make_target, make_tree, tokens
):
    target = make_target(kind)
    cache = target.cache(2, 40)
    target.prefill([tokens(7), tokens(12)], cache)
    _, mask = make_tree(8)
    ids, positions = torch.tensor([tokens(8)] * 2), cache.lengths[:, None] + mask.sum(-1) - 1
    masks = mask.expand(2, -1, -1)
    plain = target(ids, positions, cache, masks)
    wide = target(ids, positions, cache, masks, columns=40)
    everything = torch.zeros(2, 8, 20, dtype=torch.bool)
    for row, length in enumerate((7, 12)):
        everything[row, :, :length] = True
        everything[row, :, length : length + 8] = mask
    said = target(ids, positions, cache, everything)
    assert_close(wide.logits, plain.logits, **CLOSE)
    assert_close(said.logits, plain.logits, **CLOSE)
    if plain.parents is not None:
        assert torch.equal(said.parents, plain.parents)


def test_parents_given_by_hand_are_the_ones_used(make_target, make_tree, tokens):
    target = make_target("hybrid")
    parents, mask = make_tree(8, seed=3)
    ids, positions = torch.tensor([tokens(8)]), mask.sum(-1)[None] - 1
    from_mask = target(ids, positions, mask=mask[None])
    assert from_mask.parents.tolist() == [parents]
    wrong = torch.arange(-1, 7)[None]  # a sibling's state, as a fault test would take
    assert not torch.allclose(
        target(ids, positions, mask=mask[None], parents=wrong).logits, from_mask.logits
    )


def test_a_padding_row_is_finite_and_seen_by_nobody(kind, make_target, tokens):
    target = make_target(kind)
    cache = target.cache(1, 20)
    target.prefill([tokens(5)], cache)
    ids, positions = torch.tensor([tokens(4)]), torch.tensor([[5, 6, 0, 0]])
    mask = torch.eye(4, dtype=torch.bool)[None].clone()
    mask[0, 1, 0] = True
    padded = target(ids, positions, cache, mask)
    plain = target(ids[:, :2], positions[:, :2], cache, mask[:, :2, :2])
    assert padded.logits.isfinite().all()
    assert_close(padded.logits[:, :2], plain.logits, **CLOSE)


def test_logits_of_some_rows_only(make_target, tokens):
    target = make_target()
    ids, positions = torch.tensor([tokens(6), tokens(6, 1)]), torch.arange(6).expand(2, -1)
    rows = torch.tensor([[5, 0], [2, 2]])
    some = target(ids, positions, logit_rows=rows).logits
    every = target(ids, positions).logits
    assert_close(some, every[torch.arange(2)[:, None], rows], **CLOSE)


def test_bfloat16_gives_float32_logits_and_exact_angles(kind, make_target, tokens):
    target = make_target(kind)
    ids, positions = torch.tensor([tokens(20)]), torch.arange(20)[None]
    exact = target(ids, positions).logits
    half = copy.deepcopy(target).to(torch.bfloat16)
    cache = half.cache(1, 24)
    out = half(ids, positions, cache, taps=(0,))
    assert (out.logits.dtype, out.features.dtype) == (torch.float32, torch.bfloat16)
    assert cache.rows.dtype == torch.bfloat16
    assert half.rotary["full_attention"].frequencies.dtype == torch.float32
    close = torch.nn.functional.cosine_similarity(out.logits, exact, dim=-1)
    assert close.min() > 0.99
    # The state of a recurrent layer adds up over the whole text: it stays exact.
    assert all(state.delta.dtype == torch.float32 for state in out.states.values())


def test_gradients_flow_without_a_cache_and_stay_out_of_one(kind, make_target, tokens):
    target = make_target(kind).requires_grad_(True)
    ids, positions = torch.tensor([tokens(6)]), torch.arange(6)[None]
    target(ids, positions).logits.logsumexp(-1).sum().backward()
    assert all(each.grad is not None for each in target.parameters())
    cache = target.cache(1, 12)
    out = target(ids, positions, cache)
    cache.commit([range(6)], out.states)
    assert not cache.rows.requires_grad
    assert not any(state.delta.requires_grad for state in cache.states.values())


def test_compiles_as_one_graph(make_target, make_tree, tokens):
    """With `columns` given a pass asks the host for nothing."""
    target = make_target("sliding")
    cache = target.cache(1, 24)
    target.prefill([tokens(9)], cache)
    _, mask = make_tree(6)
    ids, positions = torch.tensor([tokens(6)]), 9 + mask.sum(-1)[None] - 1
    traced = torch.compile(target, backend="eager", fullgraph=True)
    out = traced(ids, positions, cache, mask[None], (0, 2), columns=24)
    assert_close(out.logits, target(ids, positions, cache, mask[None]).logits, **CLOSE)


@pytest.mark.parametrize(
    ("count", "layers", "taps"),
    [(5, 36, (1, 9, 17, 25, 33)), (1, 36, (18,)), (2, 8, (1, 5)), (3, 28, (1, 13, 25))],
)
def test_taps_are_spread_from_the_second_to_the_third_last_layer(count, layers, taps):
    assert spread_taps(count, layers) == taps
