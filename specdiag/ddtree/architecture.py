"""The sizes and switches that make a target or a drafter. This module does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


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

    @property
    def groups(self) -> int:
        """How many query heads share a kv head."""
        return self.num_attention_heads // self.num_key_value_heads

    def window(self, layer: int) -> int | None:
        """How many positions a layer sees backwards, itself included; None if all."""
        return self.sliding_window if self.layer_types[layer] == SLIDING else None


@dataclass(frozen=True, kw_only=True)
class DraftArchitecture(Architecture):
    """A DFlash drafter: a decoder that reads features of a target."""

    block_size: int
    mask_token_id: int
    num_target_layers: int | None = None  # only checked, unless the taps have to be spread
    target_layer_ids: tuple[int, ...] | None = None  # None: spread as the drafter's paper does
    draft_vocab_size: int | None = None  # None: it predicts every token of the vocabulary
    is_causal: bool | None = False  # within the block; None: in sliding layers only

    def causal(self, layer: int) -> bool:
        """Whether a slot of the block sees no later slot in this layer."""
        if self.is_causal is None:
            return self.layer_types[layer] == SLIDING
        return self.is_causal
