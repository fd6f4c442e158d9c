"""What a config.json says of a target or a drafter, checked before any tensor is made.

This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from specdiag.ddtree.architecture import (
    FULL,
    LINEAR,
    SLIDING,
    Architecture,
    DraftArchitecture,
    Recurrence,
    Rope,
)
from specdiag.ddtree.fields import Fields
from specdiag.errors import SpecdiagError

TARGET_CLASS, DRAFTER_CLASS = "Qwen3ForCausalLM", "DFlashDraftModel"

_MOST_LAYERS = 1000  # a damaged file must not make us build layers for hours
_T = TypeVar("_T", bound=Architecture)

# Keys that say whether a slot of the block sees later ones; the first that is there counts.
_CAUSAL = ("is_causal", "causal", "causal_head")
# What variants of DFlash compute otherwise, and the value with which they do not.
_UNKNOWN = {
    "use_swa": False,
    "attention_sink_bias": False,
    "fc_layernorm": False,
    "sample_from_anchor": False,
    "input_embedding_scale": 1.0,
    "output_multiplier": 1.0,
    "final_logit_softcapping": 0.0,
    "projector_type": "dflash",
}


def target(values: Mapping[str, Any], where: str) -> Architecture:
    """The architecture of a Qwen3ForCausalLM config."""
    fields = Fields(values, where)
    _require_class(fields, TARGET_CLASS)
    return _decoder(Architecture, fields, {})


def drafter(values: Mapping[str, Any], where: str) -> DraftArchitecture:
    """The architecture of a DFlash config, in the layout of z-lab or of speculators.

    What concerns the block stands in `dflash_config` or, in some files, beside it. Without a word
    about causality sliding layers are causal within the block and full ones are not, which is how
    the published drafters were trained.
    """
    fields = Fields(values, where)
    _require_class(fields, DRAFTER_CLASS, "DFlashSpeculator")
    if "transformer_layer_config" in values:
        fields = _from_speculators(fields)
    dflash = fields.section("dflash_config").values
    own = Fields({**fields.values, **{k: v for k, v in dflash.items() if v is not None}}, where)
    for key, neutral in _UNKNOWN.items():
        if own.values.get(key) not in (None, neutral):
            raise own.wrong(key, f"{neutral}: nothing else is known here")
    if LINEAR in _layer_types(fields, all_but_last=True):
        raise fields.wrong("layer_types", "attention layers only in a drafter")
    layers = own.values.get("num_target_layers") is not None
    causal = next((key for key in _CAUSAL if own.values.get(key) is not None), None)
    drafted, all_tokens = own.values.get("draft_vocab_size"), fields.whole("vocab_size")
    if drafted is not None and own.whole("draft_vocab_size") > all_tokens:
        raise own.wrong("draft_vocab_size", f"at most the {all_tokens} of the target")
    extra = {
        "block_size": own.whole("block_size", least=2),
        "mask_token_id": own.whole("mask_token_id", least=0),
        "num_target_layers": own.whole("num_target_layers") if layers else None,
        "target_layer_ids": _layer_numbers(own, "target_layer_ids"),
        "draft_vocab_size": None if drafted == all_tokens else drafted,
        "is_causal": None if causal is None else own.flag(causal, False),
    }
    return _decoder(DraftArchitecture, fields, extra)


def _from_speculators(fields: Fields) -> Fields:
    """The same in the layout of z-lab: the decoder is not in a section of its own.

    Taps are numbers of hidden states there: 0 is the embedding, and layer i gives number i + 1.
    """
    decoder = fields.section("transformer_layer_config").values
    flat = {**decoder, **{k: v for k, v in fields.values.items() if v is not None}}
    taps = _layer_numbers(fields, "aux_hidden_state_layer_ids")
    flat["target_layer_ids"] = None if taps is None else [tap - 1 for tap in taps]
    flat["is_causal"] = False if fields.flag("sliding_window_non_causal", False) else None
    return Fields(flat, fields.where)


def _layer_numbers(fields: Fields, key: str) -> tuple[int, ...] | None:
    numbers = fields.values.get(key)
    if numbers is None:
        return None
    if (
        not isinstance(numbers, list)
        or not numbers
        or any(type(each) is not int for each in numbers)
    ):
        raise fields.wrong(key, "a list of layer numbers")
    return tuple(numbers)


def _require_class(fields: Fields, *wanted: str) -> None:
    named = fields.values.get("architectures")
    if not isinstance(named, list) or not any(each in named for each in wanted):
        raise SpecdiagError(
            f"not a {wanted[0]} checkpoint: `architectures` is {named!r:.80}",
            fields.where,
            "targets are Qwen3ForCausalLM, drafters DFlashDraftModel in the layout of z-lab",
        )


def _decoder(kind: type[_T], fields: Fields, extra: dict[str, Any]) -> _T:
    heads = fields.whole("num_attention_heads")
    kv_heads = fields.whole("num_key_value_heads", heads)
    if heads % kv_heads:
        raise fields.wrong("num_key_value_heads", f"a divisor of the {heads} attention heads")
    head_dim = fields.whole("head_dim", max(fields.whole("hidden_size") // heads, 1))
    if head_dim % 2:
        raise fields.wrong("head_dim", "an even number")
    if fields.values.get("hidden_act", "silu") != "silu":
        raise fields.wrong("hidden_act", "silu")
    types = _layer_types(fields, all_but_last="block_size" in extra)
    return kind(
        vocab_size=fields.whole("vocab_size"),
        hidden_size=fields.whole("hidden_size"),
        intermediate_size=fields.whole("intermediate_size"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        layer_types=types,
        rope={each: _rope(fields, each) for each in sorted({*types} - {LINEAR})},
        sliding_window=fields.whole("sliding_window") if SLIDING in types else None,
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
        tie_word_embeddings=fields.flag("tie_word_embeddings", False),
        attention_bias=fields.flag("attention_bias", False),
        max_position_embeddings=fields.whole("max_position_embeddings", 32_768),
        recurrence=_recurrence(fields) if LINEAR in types else None,
        **extra,
    )


def _layer_types(fields: Fields, all_but_last: bool) -> tuple[str, ...]:
    layers = fields.whole("num_hidden_layers")
    if layers > _MOST_LAYERS:
        raise fields.wrong("num_hidden_layers", f"at most {_MOST_LAYERS}")
    types = fields.values.get("layer_types")
    if types is None:
        sliding = fields.flag("use_sliding_window", False) and fields.values.get("sliding_window")
        if not sliding:
            return (FULL,) * layers
        if all_but_last:
            return (SLIDING,) * (layers - 1) + (FULL,)
        full = min(fields.whole("max_window_layers", 28, least=0), layers)
        return (FULL,) * full + (SLIDING,) * (layers - full)
    known = (FULL, SLIDING, LINEAR)
    if not isinstance(types, list) or len(types) != layers or any(t not in known for t in types):
        raise fields.wrong("layer_types", f"{layers} of {', '.join(known)}")
    return tuple(types)


def _rope(fields: Fields, layer_type: str) -> Rope:
    """Newer files say rope_parameters, some of them by layer type; older ones rope_scaling."""
    newer = fields.section("rope_parameters")
    rope = newer if newer.values else fields.section("rope_scaling")
    if layer_type in rope.values:
        rope = rope.section(layer_type)
    theta = rope.number("rope_theta", fields.number("rope_theta", 10_000.0))
    kind = rope.values.get("rope_type", rope.values.get("type", "default"))
    if rope.number("partial_rotary_factor", 1.0) != 1.0:
        raise rope.wrong("partial_rotary_factor", "1")
    if kind == "default":
        return Rope(theta)
    if kind not in ("linear", "yarn"):
        raise SpecdiagError(
            f"rope type {kind!r:.40} is not known", rope.where, "known: default, linear, yarn"
        )
    if kind == "linear":
        return Rope(theta, kind, rope.number("factor"))
    if rope.values.get("mscale") or rope.values.get("mscale_all_dim"):
        raise rope.wrong("mscale", "attention_factor instead")
    length = fields.whole("max_position_embeddings", 32_768)
    given = rope.values.get("attention_factor")
    return Rope(
        theta,
        kind,
        rope.number("factor"),
        rope.whole("original_max_position_embeddings", length),
        rope.number("beta_fast", 32.0),
        rope.number("beta_slow", 1.0),
        None if given is None else rope.number("attention_factor"),
        rope.flag("truncate", True),
    )


def _recurrence(fields: Fields) -> Recurrence:
    found = Recurrence(
        key_heads=fields.whole("linear_num_key_heads"),
        value_heads=fields.whole("linear_num_value_heads"),
        key_dim=fields.whole("linear_key_head_dim"),
        value_dim=fields.whole("linear_value_head_dim"),
        kernel=fields.whole("linear_conv_kernel_dim", least=2),
    )
    if found.value_heads % found.key_heads:
        raise fields.wrong("linear_num_value_heads", f"a multiple of {found.key_heads} key heads")
    return found


def to_json(of: Architecture) -> dict[str, Any]:
    """The config.json of an architecture; reading it back gives an equal one."""
    plain = (
        "vocab_size hidden_size intermediate_size num_attention_heads num_key_value_heads head_dim "
        "sliding_window rms_norm_eps tie_word_embeddings attention_bias max_position_embeddings"
    )
    values: dict[str, Any] = {key: getattr(of, key) for key in plain.split()}
    drafts = isinstance(of, DraftArchitecture)
    values |= {
        "architectures": [DRAFTER_CLASS if drafts else TARGET_CLASS],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "num_hidden_layers": len(of.layer_types),
        "layer_types": list(of.layer_types),
        "use_sliding_window": of.sliding_window is not None,
        "rope_parameters": _rope_json(of),
    }
    if of.recurrence is not None:
        values |= {
            "linear_num_key_heads": of.recurrence.key_heads,
            "linear_num_value_heads": of.recurrence.value_heads,
            "linear_key_head_dim": of.recurrence.key_dim,
            "linear_value_head_dim": of.recurrence.value_dim,
            "linear_conv_kernel_dim": of.recurrence.kernel,
        }
    if isinstance(of, DraftArchitecture):
        dflash: dict[str, Any] = {"mask_token_id": of.mask_token_id}
        if of.target_layer_ids is not None:
            dflash["target_layer_ids"] = list(of.target_layer_ids)
        beside = ("block_size", "num_target_layers", "draft_vocab_size", "is_causal")
        values |= {key: getattr(of, key) for key in beside if getattr(of, key) is not None}
        values["dflash_config"] = dflash
    return values


def _rope_json(of: Architecture) -> dict[str, Any]:
    by_type = {}
    for layer_type, rope in of.rope.items():
        values: dict[str, Any] = {"rope_type": rope.kind, "rope_theta": rope.theta}
        if rope.kind != "default":
            values["factor"] = rope.factor
        if rope.kind == "yarn":
            values["original_max_position_embeddings"] = rope.trained_length
            values |= {"beta_fast": rope.beta_fast, "beta_slow": rope.beta_slow}
            values["truncate"] = rope.truncate
            if rope.attention_factor is not None:
                values["attention_factor"] = rope.attention_factor
        by_type[layer_type] = values
    forms = list(by_type.values())
    return by_type if any(form != forms[0] for form in forms) else (forms or [{}])[0]
