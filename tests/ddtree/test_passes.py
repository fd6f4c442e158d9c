"""Compiled passes are single graphs, and decode and record what the passes op by op do."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import trace  # noqa: E402
from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.passes import Passes  # noqa: E402


@pytest.fixture
def models(kind, make_target, make_drafter):
    """A target of each kind, and a drafter for it."""
    target = make_target(kind)
    layers = len(target.architecture.layer_types)
    return target, make_drafter(num_target_layers=layers)


@pytest.fixture(autouse=True)
def forget_graphs():
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("mode", ["autoregressive", "linear", "ddtree"])
def test_a_compiled_run_emits_and_records_the_same(models, tokens, mode):
    """A pass that broke its graph would be an error: it is compiled as a whole or not at all."""
    requests = [Request(f"r{row}", tokens(9 + 5 * row, row), 8) for row in range(2)]
    plain = Options(mode=mode, budget=6, top_k=3)
    compiled = dataclasses.replace(plain, backend="eager")
    found, steps = {}, {}
    for options in (plain, compiled):
        quiet = decode(*models, requests, options)
        steps[options] = []
        found[options] = decode(*models, requests, options, on_step=steps[options].append)
        assert [one.tokens for one in quiet] == [one.tokens for one in found[options]]
    assert [one.tokens for one in found[compiled]] == [one.tokens for one in found[plain]]
    assert len(steps[compiled]) == len(steps[plain]) > 4
    for one, other in zip(steps[compiled], steps[plain], strict=True):
        for column in dataclasses.fields(trace.StepRecord):
            name = column.name
            if name.endswith("_ms") or name in ("gaps", "log_probs", "free_slots"):
                continue
            assert getattr(one, name) == getattr(other, name), name
        assert one.gaps == pytest.approx(other.gaps, abs=1e-3)
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-3)
        assert one.free_slots + one.kv_after == 256  # a cache of few different sizes


def test_drafts_of_one_shape_take_one_graph(make_target, make_drafter):
    """Contexts of any length, with and without a common start, are the same graph."""
    target, drafter = make_target(), make_drafter()
    graphs = 0

    def count(graph, inputs):
        nonlocal graphs
        graphs += 1
        return graph.forward

    compiled, plain = Passes(target, drafter, count), Passes(target, drafter, None)
    for lengths in ([4, 4], [5, 9], [20, 3]):
        cache = drafter.cache(2, compiled.room(40))
        drafter.append(torch.randn(2, 20, 64), lengths, cache)
        block = drafter.block(torch.tensor([1, 2]))
        with torch.no_grad():
            torch.testing.assert_close(
                compiled.draft(block, cache), plain.draft(block, cache), atol=1e-4, rtol=1e-4
            )
    assert graphs == 1


def test_a_cache_has_few_sizes_only_where_passes_are_compiled(make_target):
    compiled, plain = (Passes(make_target(), None, backend) for backend in ("eager", None))
    assert [compiled.room(needed) for needed in (3, 256, 257, 1500)] == [256, 256, 512, 2048]
    assert plain.room(257) == 257
