"""Checkpoints are read as they were written, and every one that does not fit is named."""

from __future__ import annotations

import json
import os
import pickle

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'specdiag-llm[runtime]'")

from safetensors import SafetensorError  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torch.testing import assert_close  # noqa: E402

from specdiag.ddtree import checkpoint, config_json  # noqa: E402
from specdiag.ddtree.architecture import Rope  # noqa: E402
from specdiag.ddtree.drafter import Drafter  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

WEIGHTS, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
TEXT = torch.arange(12)[None]
GONE = object()


def logits(target):
    with torch.no_grad():
        return target(TEXT, TEXT).logits


def edit_config(folder, section=None, **changes):
    values = json.loads((folder / CONFIG).read_text())
    part = values[section] if section else values
    for key, value in changes.items():
        if value is GONE:
            part.pop(key, None)
        else:
            part[key] = value
    (folder / CONFIG).write_text(json.dumps(values))


def edit_weights(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def shard(folder):
    """Split a checkpoint into two files and an index."""
    tensors = load_file(folder / WEIGHTS)
    names, parts = sorted(tensors), {}
    for number in (0, 1):
        name = f"model-{number + 1:05}-of-00002.safetensors"
        save_file({each: tensors[each] for each in names[number::2]}, folder / name)
        parts |= {each: name for each in names[number::2]}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": parts}))
    (folder / WEIGHTS).unlink()
    return parts


@pytest.fixture
def target(make_target):
    return make_target("sliding")


@pytest.fixture
def folder(target, tmp_path):
    """A saved target."""
    checkpoint.save_target(target, tmp_path / "target")
    return tmp_path / "target"


@pytest.fixture
def draft_folder(make_drafter, tmp_path):
    """A saved drafter for it."""
    checkpoint.save_drafter(make_drafter(), tmp_path / "drafter")
    return tmp_path / "drafter"


@pytest.mark.parametrize("tied", [False, True])
def test_a_target_comes_back(kind, tied, make_target, tmp_path):
    yarn = Rope(5_000.0, "yarn", 4.0, 32, beta_fast=16.0, attention_factor=1.25, truncate=False)
    rope = {"full_attention": yarn, "sliding_attention": Rope(7_000.0, "linear", 2.0)}
    kept = {"full": ["full_attention"]}.get(kind, list(rope))
    saved = make_target(
        kind, tie_word_embeddings=tied, rope={each: rope[each] for each in sorted(kept)}
    )
    checkpoint.save_target(saved, tmp_path)
    found, unused = checkpoint.load_target(tmp_path)
    assert unused == []
    assert found.architecture == saved.architecture
    assert torch.equal(logits(found), logits(saved))
    assert sorted(each.name for each in tmp_path.iterdir()) == [CONFIG, WEIGHTS]


def test_a_drafter_comes_back(target, make_drafter, draft_folder, tokens):
    saved = make_drafter()
    found, unused = checkpoint.load_drafter(draft_folder, target)
    assert unused == []
    assert (found.architecture, found.taps) == (saved.architecture, saved.taps)
    assert found.windows == [5, 5, None]
    for name, each in saved.state_dict().items():
        assert torch.equal(found.state_dict()[name], each), name
    features = target(TEXT, TEXT, taps=found.taps).features
    starts, block = torch.tensor([[12]]), saved.block(torch.tensor([1]))[None]
    wanted = saved.parallel(features, starts, block, target)
    assert torch.equal(found.parallel(features, starts, block, target), wanted)


# What the configs of published drafters say, without the sizes of tensors that all have.
QWEN3_8B = {  # z-lab/Qwen3-8B-DFlash-b16
    "architectures": ["DFlashDraftModel"], "attention_bias": False, "attention_dropout": 0.0,
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"}, "block_size": 16,
    "bos_token_id": 151643,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
    "dtype": "bfloat16", "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 12288,
    "layer_types": ["full_attention"] * 5, "max_position_embeddings": 40960,
    "max_window_layers": 5, "model_type": "qwen3", "num_attention_heads": 32,
    "num_hidden_layers": 5, "num_key_value_heads": 8, "num_target_layers": 36,
    "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None,
    "tie_word_embeddings": False, "transformers_version": "4.57.3", "use_cache": True,
    "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
QWEN36_27B = {  # z-lab/Qwen3.6-27B-DFlash
    **QWEN3_8B, "hidden_size": 5120, "intermediate_size": 17408, "num_target_layers": 64,
    "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 16, 31, 46, 61]},
    "layer_types": ["sliding_attention"] * 4 + ["full_attention"], "rope_theta": 10000000,
    "sliding_window": 2048, "use_sliding_window": True, "vocab_size": 248320,
}  # fmt: skip
QWEN35_122B = {  # z-lab/Qwen3.5-122B-A10B-DFlash, which has the block size inside
    **{key: each for key, each in QWEN36_27B.items() if not key.startswith(("block", "rope"))},
    "dflash_config": {
        "block_size": 16, "mask_token_id": 248077,
        "target_layer_ids": [1, 7, 14, 20, 26, 32, 39, 45],
    },
    "hidden_size": 3072, "intermediate_size": 9216, "max_position_embeddings": 262144,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000000}, "num_target_layers": None,
    "num_hidden_layers": 6, "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "sliding_window": 4096,
}  # fmt: skip
OUTSIDE = {  # a port that has everything beside
    **{key: each for key, each in QWEN3_8B.items() if key != "dflash_config"},
    "target_layer_ids": [1, 9, 17, 25, 33], "mask_token_id": 151669, "is_causal": True,
}  # fmt: skip
SPECULATORS = {  # the layout of speculators, with a reduced vocabulary
    "architectures": ["DFlashDraftModel"], "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
    "block_size": 8, "draft_vocab_size": 32000, "dtype": "bfloat16", "mask_token_id": 151669,
    "sliding_window_non_causal": False, "speculators_model_type": "dflash",
    "speculators_config": {"algorithm": "dflash", "default_proposal_method": "greedy"},
    "target_hidden_size": None, "tie_word_embeddings": False,
    "transformer_layer_config": {
        key: QWEN3_8B[key] for key in QWEN3_8B
        if key not in ("architectures", "block_size", "dflash_config", "num_target_layers")
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "block", "taps", "mask", "causal"),
    [
        (QWEN3_8B, 16, (1, 9, 17, 25, 33), 151669, [False] * 5),
        (QWEN36_27B, 16, (1, 16, 31, 46, 61), 248070, [True] * 4 + [False]),
        (QWEN35_122B, 16, (1, 7, 14, 20, 26, 32, 39, 45), 248077, [True] * 5 + [False]),
        (OUTSIDE, 16, (1, 9, 17, 25, 33), 151669, [True] * 5),
        (SPECULATORS, 8, (1, 9, 17, 25, 33), 151669, [False] * 5),
    ],
)
def test_configs_of_published_drafters_are_read_as_they_are(config, block, taps, mask, causal):
    found = config_json.drafter(config, CONFIG)
    assert (found.block_size, found.target_layer_ids, found.mask_token_id) == (block, taps, mask)
    assert [found.causal(layer) for layer in range(len(found.layer_types))] == causal
    assert found.rope["full_attention"].theta == (1e6 if found.vocab_size == 151936 else 1e7)
    assert found.draft_vocab_size == config.get("draft_vocab_size")
    assert config_json.drafter(config_json.to_json(found), CONFIG) == found


@pytest.mark.parametrize(
    ("flag", "causal"),
    [
        ({"is_causal": False}, [False, False, False]),
        ({"is_causal": True}, [True, True, True]),
        ({"dflash_config": {"causal": True}}, [True, True, True]),
        ({"dflash_config": {"causal": False}}, [False, False, False]),
        ({"dflash_config": {"causal_head": True}}, [True, True, True]),
        ({}, [True, True, False]),
    ],
)
def test_causality_is_named_in_either_place_or_follows_the_layer_types(
    make_drafter, target, draft_folder, flag, causal
):
    edit_config(draft_folder, is_causal=GONE)
    edit_config(draft_folder, "dflash_config", **flag.get("dflash_config", {}))
    edit_config(draft_folder, **{key: each for key, each in flag.items() if key == "is_causal"})
    drafter, _ = checkpoint.load_drafter(draft_folder, target)
    assert drafter.causal == causal
    checkpoint.save_drafter(drafter, draft_folder)
    assert checkpoint.load_drafter(draft_folder, target)[0].causal == causal


def test_a_drafter_made_here_says_that_it_is_not_causal(draft_folder):
    """Readers of other projects take a sliding layer for causal if nothing is said."""
    assert json.loads((draft_folder / CONFIG).read_text())["is_causal"] is False


@pytest.fixture
def reduced(make_drafter, tmp_path):
    """A saved drafter of 20 of the 53 tokens, with the tensors that speculators adds."""
    drafter = make_drafter(draft_vocab_size=20)
    drafter.d2t.copy_(torch.arange(20) * 2 + 3 - torch.arange(20))
    checkpoint.save_drafter(drafter, tmp_path / "reduced")
    t2d = torch.zeros(53, dtype=torch.bool)
    t2d[Drafter.known_tokens(drafter.d2t)] = True
    edit_weights(tmp_path / "reduced", lambda each: each.update(t2d=t2d))
    return tmp_path / "reduced"


@pytest.mark.parametrize("stored", [torch.int64, torch.int32])
def test_a_reduced_vocabulary_comes_back(target, reduced, stored):
    edit_weights(reduced, lambda each: each.update(d2t=each["d2t"].to(stored)))
    found, unused = checkpoint.load_drafter(reduced, target, dtype=torch.bfloat16)
    assert unused == ["t2d"]
    assert found.d2t.dtype == torch.int64
    assert Drafter.known_tokens(found.d2t).tolist() == list(range(3, 43, 2))
    assert found.lm_head.weight.shape == (20, 32)
    assert found.lm_head.weight.dtype == torch.bfloat16


def test_the_layout_of_speculators_is_the_same_drafter(target, make_drafter, reduced):
    plain, _ = checkpoint.load_drafter(reduced, target)
    config = json.loads((reduced / CONFIG).read_text())
    dflash = config.pop("dflash_config")
    beside = ("architectures", "draft_vocab_size", "block_size")
    other = {key: config.pop(key) for key in beside}
    config.pop("num_target_layers"), config.pop("is_causal")
    other |= {
        "speculators_model_type": "dflash", "transformer_layer_config": config,
        "mask_token_id": dflash["mask_token_id"], "sliding_window_non_causal": True,
        "aux_hidden_state_layer_ids": [tap + 1 for tap in dflash["target_layer_ids"]],
    }  # fmt: skip
    (reduced / CONFIG).write_text(json.dumps(other))
    found, _ = checkpoint.load_drafter(reduced, target)
    assert found.taps == plain.taps and found.causal == plain.causal
    features = target(TEXT, TEXT, taps=found.taps).features
    starts, block = torch.tensor([[12]]), found.block(torch.tensor([1]))[None]
    wanted = plain.parallel(features, starts, block, target)
    assert torch.equal(found.parallel(features, starts, block, target), wanted)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda each: each.pop("d2t"), "d2t is missing"),
        (lambda each: each.pop("lm_head.weight"), "lm_head.weight is missing"),
        (
            lambda each: each.update(d2t=torch.arange(19)),
            r"d2t has shape \[19\], config.json wants \[20\]",
        ),
        (
            lambda each: each.update({"lm_head.weight": torch.zeros(53, 32)}),
            r"lm_head.weight has shape \[53, 32\], config.json wants \[20, 32\]",
        ),
        (lambda each: each.update(d2t=torch.ones(20)), "d2t is stored as F32"),
        (lambda each: each.update(d2t=torch.arange(20) * 2), "to token 54, the vocabulary has 53"),
        (lambda each: each.update(d2t=-torch.arange(20)), "one token from several draft ids"),
    ],
)  # fmt: skip
def test_a_map_of_tokens_that_does_not_fit_is_named(target, reduced, harm, says):
    edit_weights(reduced, harm)
    with pytest.raises(SpecdiagError, match=says) as error:
        checkpoint.load_drafter(reduced, target)
    assert str(reduced) in error.value.where


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("final_logit_softcapping", 20.0),
        ("input_embedding_scale", 64.0),
        ("use_swa", True),
        ("sample_from_anchor", True),
        ("causal", "yes"),
    ],
)
def test_a_variant_that_would_draft_otherwise_is_refused(target, draft_folder, key, value):
    edit_config(draft_folder, is_causal=GONE)
    edit_config(draft_folder, "dflash_config", **{key: value})
    with pytest.raises(SpecdiagError, match=f"`{key}`"):
        checkpoint.load_drafter(draft_folder, target)
    edit_config(draft_folder, "dflash_config", **{key: None})
    checkpoint.load_drafter(draft_folder, target)


def test_a_drafter_with_its_own_table_and_head(target, make_drafter, tmp_path):
    plain = make_drafter()
    torch.manual_seed(5)
    own = Drafter(plain.architecture, plain.taps, own_embedding=True, own_head=True)
    own.load_state_dict(plain.state_dict(), strict=False)
    checkpoint.save_drafter(own, tmp_path)
    found, unused = checkpoint.load_drafter(tmp_path, target)
    assert unused == []
    features = target(TEXT, TEXT, taps=own.taps).features
    starts, block = torch.tensor([[12]]), own.block(torch.tensor([1]))[None]
    drafts = found.parallel(features, starts, block, target)
    assert torch.equal(drafts, own.parallel(features, starts, block, target))
    assert not torch.allclose(drafts, plain.parallel(features, starts, block, target))


def test_taps_that_are_not_named_follow_the_width_of_the_first_matrix(
    make_target, make_drafter, tmp_path
):
    changes = {"num_target_layers": 3, "target_layer_ids": (0, 1)}
    checkpoint.save_drafter(make_drafter(**changes), tmp_path)
    edit_config(tmp_path, "dflash_config", target_layer_ids=GONE)
    with pytest.raises(SpecdiagError, match="layer"):  # 3 layers are too few to spread over
        edit_config(tmp_path, num_target_layers=2)
        two = make_target("full", layer_types=("full_attention",) * 2)
        checkpoint.load_drafter(tmp_path, two)
    edit_config(tmp_path, num_target_layers=8)
    eight = make_target("full", layer_types=("full_attention",) * 8)
    assert checkpoint.load_drafter(tmp_path, eight)[0].taps == (1, 5)


def test_sharded_weights_are_the_same_weights(target, folder):
    shard(folder)
    found, unused = checkpoint.load_target(folder)
    assert unused == []
    assert torch.equal(logits(found), logits(target))


def test_dtype_is_asked_for_stored_or_named(target, folder, draft_folder):
    assert checkpoint.load_target(folder)[0].dtype == torch.float32
    half = checkpoint.load_target(folder, dtype=torch.bfloat16)[0]
    assert half.dtype == torch.bfloat16
    drafter, _ = checkpoint.load_drafter(draft_folder, half)
    assert drafter.fc.weight.dtype == torch.bfloat16  # as the target's
    checkpoint.save_target(half, folder)
    assert checkpoint.load_target(folder)[0].dtype == torch.bfloat16
    edit_config(folder, dtype=GONE)
    assert checkpoint.load_target(folder)[0].dtype == torch.bfloat16  # as it is stored
    edit_config(folder, torch_dtype="float32")
    assert checkpoint.load_target(folder)[0].dtype == torch.float32


def test_a_dtype_can_be_chosen_for_the_files_alone(target, make_drafter, tmp_path):
    checkpoint.save_target(target, tmp_path / "target", torch.bfloat16)
    checkpoint.save_drafter(make_drafter(draft_vocab_size=9), tmp_path / "drafter", torch.bfloat16)
    assert target.dtype == torch.float32
    loaded = checkpoint.load_target(tmp_path / "target")[0]
    assert loaded.dtype == torch.bfloat16
    for name, each in target.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], each.to(torch.bfloat16)), name
    stored = load_file(tmp_path / "drafter" / WEIGHTS)
    assert stored.pop("d2t").dtype == torch.int64
    assert {each.dtype for each in stored.values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "drafter" / CONFIG).read_text())["dtype"] == "bfloat16"


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_files_have_the_permissions_that_any_new_file_has(target, tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        checkpoint.save_target(target, tmp_path)
    finally:
        os.umask(before)
    assert {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {
        CONFIG: mode,
        WEIGHTS: mode,
    }


def test_tensors_without_use_are_listed(folder, draft_folder, target):
    edit_weights(folder, lambda each: each.update(extra=torch.ones(1), another=torch.ones(2)))
    assert checkpoint.load_target(folder)[1] == ["another", "extra"]
    edit_weights(draft_folder, lambda each: each.update({"d2t": torch.arange(3)}))
    assert checkpoint.load_drafter(draft_folder, target)[1] == ["d2t"]


def test_transformers_and_specdiag_read_each_others_checkpoints(make_target, tmp_path):
    transformers = pytest.importorskip("transformers", reason="compares with transformers")
    for name, tied in (("full", False), ("sliding", True)):
        saved = make_target(name, tie_word_embeddings=tied)
        checkpoint.save_target(saved, tmp_path / name)
        theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / name).eval()
        with torch.no_grad():
            assert_close(theirs(TEXT).logits, logits(saved), atol=1e-4, rtol=1e-4)
        theirs.save_pretrained(tmp_path / "back", max_shard_size="20KB")
        assert (tmp_path / "back" / INDEX).is_file() or (tmp_path / "back" / WEIGHTS).is_file()
        found, unused = checkpoint.load_target(tmp_path / "back")
        assert unused == []
        assert_close(logits(found), logits(saved), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), SafetensorError("No space left on device")]
)
def test_an_interrupted_write_leaves_the_old_checkpoint(target, folder, monkeypatch, failure):
    before = (folder / WEIGHTS).read_bytes()

    def full(*_, **__):
        (folder / f".{WEIGHTS}.part").write_bytes(b"half")
        raise failure

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(SpecdiagError, match=r"(?i)no space left on device"):
        checkpoint.save_target(target, folder)
    assert (folder / WEIGHTS).read_bytes() == before
    assert sorted(each.name for each in folder.iterdir()) == [CONFIG, WEIGHTS]


Q = "model.layers.1.self_attn.q_proj.weight"
SIZES = {
    "hidden_size": GONE,
    "vocab_size": "many",
    "num_hidden_layers": 10**9,
    "num_attention_heads": True,
    "num_key_value_heads": 3,
    "head_dim": 7,
    "rms_norm_eps": 0,
    "hidden_act": "gelu",
    "layer_types": ["full_attention"],
    "sliding_window": 0,
    "tie_word_embeddings": "no",
    "rope_parameters": [],
}


@pytest.mark.parametrize("key", SIZES)
def test_a_config_that_makes_no_sense_names_the_key(folder, key):
    edit_config(folder, **{key: SIZES[key]})
    with pytest.raises(SpecdiagError, match=f"`{key}`") as error:
        checkpoint.load_target(folder)
    assert error.value.where.endswith(CONFIG)


@pytest.mark.parametrize(
    ("rope", "says"),
    [
        ({"rope_type": "llama3", "factor": 8.0}, "'llama3' is not known"),
        ({"rope_type": "yarn"}, "`factor` is missing"),
        ({"rope_type": "yarn", "factor": 2.0, "mscale": 0.7}, "`mscale`"),
        ({"rope_type": "default", "partial_rotary_factor": 0.25}, "`partial_rotary_factor`"),
        ({"rope_type": "default", "rope_theta": float("nan")}, "`rope_theta`"),
    ],
)
def test_positions_that_are_not_known_are_refused(folder, rope, says):
    edit_config(folder, rope_parameters=rope)
    with pytest.raises(SpecdiagError, match=says):
        checkpoint.load_target(folder)


def test_older_files_say_rope_scaling(folder):
    older = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    edit_config(folder, rope_parameters=GONE, rope_scaling=older, rope_theta=1e6)
    found = checkpoint.load_target(folder)[0].architecture
    assert found.rope["full_attention"] == Rope(1e6, "yarn", 4.0, 64)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda each: (each / CONFIG).unlink(), "no config.json"),
        (lambda each: (each / CONFIG).write_text("{"), "config.json cannot be read"),
        (lambda each: (each / CONFIG).write_bytes(b"\xff\xfe{"), "config.json cannot be read"),
        (lambda each: (each / CONFIG).write_text("[" * 100_000), "config.json cannot be read"),
        (lambda each: (each / CONFIG).write_text("[]"), "holds no object"),
        (lambda each: edit_config(each, architectures=["LlamaForCausalLM"]), "LlamaForCausalLM"),
        (lambda each: edit_config(each, architectures=GONE), "not a Qwen3ForCausalLM"),
        (lambda each: (each / WEIGHTS).unlink(), "no model.safetensors"),
        (lambda each: (each / WEIGHTS).write_bytes(b"12345678"), "weights cannot be read"),
        (lambda each: (each / WEIGHTS).write_bytes(b""), "weights cannot be read"),
        (lambda each: edit_weights(each, lambda one: one.pop(Q)), f"{Q} is missing"),
        (
            lambda each: edit_weights(each, lambda one: one.update({Q: torch.zeros(32, 31)})),
            rf"{Q} has shape \[32, 31\], config.json wants \[32, 32\]",
        ),
        (
            lambda each: edit_weights(each, lambda one: one.update({Q: one[Q].to(torch.int8)})),
            f"{Q} is stored as I8",
        ),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_used_is_named(folder, harm, says):
    harm(folder)
    with pytest.raises(SpecdiagError, match=says) as error:
        checkpoint.load_target(folder)
    assert str(folder) in error.value.where


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(SpecdiagError, match=r"no config\.json"):
        checkpoint.load_target(tmp_path / "nothing")


def test_a_pickle_is_never_opened(folder, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "opened"), "w"))

    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(SpecdiagError, match=r"pytorch_model\.bin is a pickle") as error:
        checkpoint.load_target(folder)
    assert "never opened" in error.value.help
    assert not (tmp_path / "opened").exists()


def test_an_index_names_files_of_its_folder_only(folder):
    parts = shard(folder)
    first = parts[Q]
    (folder / first).rename(folder.parent / first)
    with pytest.raises(SpecdiagError, match=f"{first} is missing"):
        checkpoint.load_target(folder)
    outside = {name: f"../{each}" if each == first else each for name, each in parts.items()}
    for weight_map in (outside, {}, None, [first], {Q: 3}, {Q: ".."}):
        (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(SpecdiagError):
            checkpoint.load_target(folder)


@pytest.mark.parametrize(
    ("section", "changes", "says"),
    [
        (None, {"architectures": ["Qwen3ForCausalLM"]}, "not a DFlashDraftModel"),
        (None, {"block_size": GONE}, "`block_size` is missing"),
        (None, {"block_size": 1}, "`block_size` is 1"),
        (None, {"vocab_size": 54}, "`vocab_size` of the drafter is 54, the target has 53"),
        (None, {"hidden_size": 16}, "`hidden_size` of the drafter is 16, the target has 32"),
        (None, {"num_target_layers": 36}, "`num_target_layers` of the drafter is 36"),
        (None, {"layer_types": ["linear_attention"] * 3}, "attention layers only"),
        (None, {"draft_vocab_size": 54}, "`draft_vocab_size` is 54, wanted at most the 53"),
        (None, {"architectures": ["DFlash2DraftModel"]}, "DFlash2DraftModel"),
        ("dflash_config", {"mask_token_id": 53}, "mask id 53 is outside the vocabulary of 53"),
        ("dflash_config", {"mask_token_id": GONE}, "`mask_token_id` is missing"),
        ("dflash_config", {"target_layer_ids": [0, 3]}, "layer 3 cannot be tapped"),
        ("dflash_config", {"target_layer_ids": [-1, 1]}, "layer -1 cannot be tapped"),
        ("dflash_config", {"target_layer_ids": []}, "`target_layer_ids`"),
        (
            "dflash_config",
            {"target_layer_ids": [0, 1, 2]},
            r"fc.weight has shape \[32, 64\], config.json wants \[32, 96\]",
        ),
    ],
)
def test_a_drafter_that_does_not_fit_is_named(draft_folder, target, section, changes, says):
    edit_config(draft_folder, section, **changes)
    with pytest.raises(SpecdiagError, match=says) as error:
        checkpoint.load_drafter(draft_folder, target)
    assert str(draft_folder) in error.value.where


def test_drafter_tensors_are_checked_as_well(draft_folder, target):
    edit_config(draft_folder, "dflash_config", target_layer_ids=GONE)
    edit_weights(draft_folder, lambda each: each.update({"fc.weight": torch.zeros(32, 50)}))
    with pytest.raises(SpecdiagError, match=r"fc.weight has shape \[32, 50\]"):
        checkpoint.load_drafter(draft_folder, target)
    edit_weights(draft_folder, lambda each: each.pop("fc.weight"))
    with pytest.raises(SpecdiagError, match=r"fc\.weight is missing"):
        checkpoint.load_drafter(draft_folder, target)
    edit_weights(draft_folder, lambda each: each.update({"lm_head.weight": torch.zeros(9, 32)}))
    edit_weights(draft_folder, lambda each: each.update({"fc.weight": torch.zeros(32, 64)}))
    with pytest.raises(SpecdiagError, match=r"lm_head.weight has shape \[9, 32\]"):
        checkpoint.load_drafter(draft_folder, target)
