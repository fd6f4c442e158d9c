"""The gated delta layer against its definition, against Transformers, and over trees."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'specdiag-llm[runtime]'")

from torch.testing import assert_close  # noqa: E402

from specdiag.ddtree.recurrent import GatedDelta, chain, empty_state, parents_of  # noqa: E402

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(autouse=True)
def no_gradients():
    """As in decoding; training is tested where it is turned on again."""
    with torch.no_grad():
        yield


@pytest.fixture
def layer(make_target):
    """One recurrent layer with all its parameters away from their first values."""
    found = make_target("hybrid").layers[0].linear_attn
    for parameter in (found.A_log, found.dt_bias, found.norm.weight):
        torch.nn.init.normal_(parameter, 0.5, 0.5)
    return found


def start(layer, batch=1):
    """A state that is not empty."""
    state = empty_state(layer.sizes, batch, torch.float32, torch.device("cpu"))
    torch.manual_seed(3)
    state.delta.normal_()
    state.conv.normal_()
    return state


def at(state, node):
    """The state after one node as a canonical one."""
    return type(state)(state.delta[:, node].clone(), state.conv[:, node].clone())


def by_definition(layer, rows, state):
    """What the layer gives for a chain, one head and one row after the other."""
    of, inputs = layer.sizes, list(state.conv[0])
    memory = state.delta[0].clone()  # [value head, key_dim, value_dim]
    outputs = []
    for x in rows:
        inputs.append(layer.in_proj_qkv(x))
        window = torch.stack(inputs[-of.kernel :])  # [kernel, channel]
        mixed = torch.nn.functional.silu(
            torch.stack([window[:, c] @ layer.conv1d.weight[c, 0] for c in range(window.shape[1])])
        )
        queries, keys, values = mixed.split(
            [of.key_heads * of.key_dim] * 2 + [of.value_heads * of.value_dim]
        )
        read = []
        for head in range(of.value_heads):
            part = head // (of.value_heads // of.key_heads)
            q, k = (each.view(-1, of.key_dim)[part] for each in (queries, keys))
            q, k = q / (q @ q + 1e-6).sqrt() / of.key_dim**0.5, k / (k @ k + 1e-6).sqrt()
            v = values.view(-1, of.value_dim)[head]
            pace = torch.nn.functional.softplus(layer.in_proj_a(x)[head] + layer.dt_bias[head])
            memory[head] *= torch.exp(-layer.A_log[head].exp() * pace)
            change = (v - memory[head].T @ k) * layer.in_proj_b(x)[head].sigmoid()
            memory[head] += torch.outer(k, change)
            read.append(layer.norm(memory[head].T @ q))
        outputs.append(
            layer.out_proj(torch.cat(read) * torch.nn.functional.silu(layer.in_proj_z(x)))
        )
    return torch.stack(outputs), memory, torch.stack(inputs[-of.kernel + 1 :])


def test_a_chain_is_what_the_definition_says(layer):
    state, rows = start(layer), torch.randn(1, 7, 32)
    out, after = layer(rows, state, chain(1, 7, rows.device))
    wanted, memory, inputs = by_definition(layer, rows[0], state)
    assert_close(out[0], wanted, **CLOSE)
    assert_close(after.delta[0, -1], memory, **CLOSE)
    assert_close(after.conv[0, -1], inputs, **CLOSE)


def test_a_chain_equals_one_row_after_the_other(layer):
    state, rows = start(layer, 2), torch.randn(2, 7, 32)
    out, after = layer(rows, state, chain(2, 7, rows.device))
    for row in range(7):
        step, stepped = layer(rows[:, row : row + 1], state, chain(2, 1, rows.device))
        state = at(stepped, 0)
        assert_close(step[:, 0], out[:, row], **CLOSE)
        assert_close(state.delta, after.delta[:, row], **CLOSE)
        assert_close(state.conv, after.conv[:, row], **CLOSE)


def test_tree_nodes_equal_their_paths(layer, make_tree, path_to):
    state, rows = start(layer, 2), torch.randn(2, 12, 32)
    trees = [make_tree(12, seed) for seed in (1, 2)]
    parents = torch.tensor([each for each, _ in trees])
    before = (state.delta.clone(), state.conv.clone())
    out, after = layer(rows, state, parents)
    assert torch.equal(state.delta, before[0])  # the canonical state is only read
    assert torch.equal(state.conv, before[1])
    for batch, (above, _) in enumerate(trees):
        own = type(state)(state.delta[batch : batch + 1], state.conv[batch : batch + 1])
        for node in range(12):
            path = path_to(above, node)
            alone, ends = layer(
                rows[batch : batch + 1, path], own, chain(1, len(path), rows.device)
            )
            assert_close(out[batch, node], alone[0, -1], **CLOSE)
            assert_close(after.delta[batch, node], ends.delta[0, -1], **CLOSE)
            assert_close(after.conv[batch, node], ends.conv[0, -1], **CLOSE)


def test_a_tree_of_one_row_is_the_plain_step_bit_for_bit(make_target, tokens):
    target = make_target("hybrid")
    plain, tree = target.cache(1, 16), target.cache(1, 16)
    for cache in (plain, tree):
        target.prefill([tokens(6)], cache)
    only = torch.ones(1, 1, 1, dtype=torch.bool)
    for position, token in enumerate(tokens(5, seed=1), start=6):
        ids, positions = torch.tensor([[token]]), torch.tensor([[position]])
        step = target(ids, positions, plain)
        node = target(ids, positions, tree, only, parents=torch.tensor([[-1]]))
        assert torch.equal(step.logits, node.logits)
        plain.commit([[0]], step.states)
        tree.commit([[0]], node.states)
        assert torch.equal(plain.rows, tree.rows)
        for layer, state in plain.states.items():
            assert torch.equal(state.delta, tree.states[layer].delta)
            assert torch.equal(state.conv, tree.states[layer].conv)


def test_parents_come_from_the_mask(make_tree):
    for seed in range(5):
        parents, mask = make_tree(15, seed)
        assert parents_of(mask[None]).tolist() == [parents]


def test_equals_the_layer_of_transformers():
    theirs = pytest.importorskip(
        "transformers.models.qwen3_5.modeling_qwen3_5", reason="compares with transformers"
    )
    config = pytest.importorskip("transformers.models.qwen3_5.configuration_qwen3_5")
    from specdiag.ddtree.architecture import Architecture, Recurrence, Rope

    torch.manual_seed(5)
    given = config.Qwen3_5TextConfig(
        hidden_size=32, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=6, linear_conv_kernel_dim=4, num_hidden_layers=1,
        layer_types=["linear_attention"],
    )  # fmt: skip
    reference = theirs.Qwen3_5GatedDeltaNet(given, 0).eval()
    ours = GatedDelta(
        Architecture(
            vocab_size=8, hidden_size=32, intermediate_size=8, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, layer_types=("linear_attention",),
            rope={"full_attention": Rope()}, rms_norm_eps=given.rms_norm_eps,
            recurrence=Recurrence(2, 4, 8, 6, 4),
        )
    )  # fmt: skip
    ours.load_state_dict(reference.state_dict())
    rows = torch.randn(2, 20, 32)
    state = empty_state(ours.sizes, 2, torch.float32, rows.device)
    with torch.no_grad():
        out, _ = ours(rows, state, chain(2, 20, rows.device))
        assert_close(out, reference(rows), atol=1e-4, rtol=1e-4)


def test_training_sees_the_layer_that_decoding_uses(layer):
    """Without parents a chain is computed in chunks, with them row by row: one function."""
    state, rows = start(layer, 2), torch.randn(2, 150, 32)
    wanted, after = layer(rows, state, chain(2, 150, rows.device))
    layer.requires_grad_()
    with torch.enable_grad():
        out, last = layer(rows.requires_grad_(), state, None)
        out.square().sum().backward()
    assert_close(out.detach(), wanted, **CLOSE)
    assert_close(last.delta[:, 0].detach(), after.delta[:, -1], **CLOSE)
    assert_close(last.conv[:, 0].detach(), after.conv[:, -1], **CLOSE)
    assert rows.grad.isfinite().all() and all(
        each.grad.isfinite().all() for each in layer.parameters()
    )
