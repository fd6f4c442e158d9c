"""What a config.json says of a target or a drafter, checked before any tensor is made.

This module does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from specdiag.errors import SpecdiagError

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
TARGET_CLASS, DRAFTER_CLASS = "Qwen3ForCausalLM", "DFlashDraftModel"

_MOST_LAYERS = 1000  # a damaged file must not make us build layers for hours
_LARGEST = 2**31
_T = TypeVar("_T", bound="Architecture")


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding: plain, or stretched by a factor (linear or YaRN)."""

    theta: float = 10_000.0
    kind: str = "default"  # default, linear, yarn
    factor: float = 1.0
    trained_length: int = 0  # original_max_position_embeddings
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True


@dataclass(frozen=True)
class Recurrence:
    """The sizes of a gated delta layer."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int  # rows that the short convolution spans


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A Qwen3-style decoder. Names are those of config.json where it has one."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    layer_types: tuple[str, ...]
    rope: Mapping[str, Rope]  # by layer type; recurrent layers have no positions
    sliding_window: int | None = None
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    max_position_embeddings: int = 32_768
    recurrence: Recurrence | None = None

    def window(self, layer: int) -> int | None:
        """How many positions a layer sees backwards, itself included; None if all."""
        return self.sliding_window if self.layer_types[layer] == SLIDING else None


@dataclass(frozen=True, kw_only=True)
class DraftArchitecture(Architecture):
    """A DFlash drafter: a decoder that reads features of a target."""

    block_size: int
    num_target_layers: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...] | None = None  # None: spread as the drafter's paper does


class Fields:
    """Values of a JSON object, each with its type and bounds checked."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def wrong(self, key: str, wanted: str) -> SpecdiagError:
        """An error that names the key, the value and what was wanted."""
        found = f"is {self.values[key]!r:.60}" if key in self.values else "is missing"
        return SpecdiagError(f"`{key}` {found}, wanted {wanted}", self.where, "mend config.json")

    def whole(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A whole number of at least `least`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _LARGEST:
            raise self.wrong(key, f"a whole number from {least} on")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive, finite number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number")
        if not (math.isfinite(value) and value > 0):
            raise self.wrong(key, "a number above 0")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def section(self, key: str) -> Fields:
        """An object below this one; an empty one if it is missing."""
        value = self._value(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return Fields(value, self.where)

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value


def target(values: Mapping[str, Any], where: str) -> Architecture:
    """The architecture of a Qwen3ForCausalLM config."""
    fields = Fields(values, where)
    _require_class(fields, TARGET_CLASS)
    return _decoder(Architecture, fields, {})


def drafter(values: Mapping[str, Any], where: str) -> DraftArchitecture:
    """The architecture of a DFlash config."""
    fields = Fields(values, where)
    _require_class(fields, DRAFTER_CLASS)
    dflash = fields.section("dflash_config")
    taps = dflash.values.get("target_layer_ids")
    if taps is not None and not (
        isinstance(taps, list) and taps and all(type(tap) is int for tap in taps)
    ):
        raise dflash.wrong("target_layer_ids", "a list of layer numbers")
    extra = {
        "block_size": fields.whole("block_size", least=2),
        "num_target_layers": fields.whole("num_target_layers"),
        "mask_token_id": dflash.whole("mask_token_id", least=0),
        "target_layer_ids": None if taps is None else tuple(taps),
    }
    if LINEAR in _layer_types(fields, all_but_last=True):
        raise fields.wrong("layer_types", "attention layers only in a drafter")
    return _decoder(DraftArchitecture, fields, extra)


def _require_class(fields: Fields, wanted: str) -> None:
    named = fields.values.get("architectures")
    if not isinstance(named, list) or wanted not in named:
        raise SpecdiagError(
            f"not a {wanted} checkpoint: `architectures` is {named!r:.80}",
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
        values |= {"block_size": of.block_size, "num_target_layers": of.num_target_layers}
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
