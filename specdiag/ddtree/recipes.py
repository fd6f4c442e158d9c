"""The bundled pairs: how large they are, and how long they are trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from specdiag.ddtree.architecture import (
    FULL,
    LINEAR,
    SLIDING,
    Architecture,
    DraftArchitecture,
    Recurrence,
    Rope,
)

VOCAB, MASK_ID = 512, 1
WINDOW, POSITIONS, BLOCK = 128, 4096, 10


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how fast."""

    steps: int
    tokens: int = 2048  # a step
    length: int = 256  # tokens of a sequence
    long_length: int = 2048  # of a sequence in every fourth step of the second half
    rate: float = 4e-3
    warmup: int = 50


@dataclass(frozen=True)
class Pool:
    """Texts that the target goes on with, for its drafter to learn from."""

    prompt: int  # tokens
    texts: int
    share: float  # of the drafter's steps


@dataclass(frozen=True)
class Recipe:
    """One pair, and all that making it takes."""

    layer_types: tuple[str, ...]
    intermediate_size: int
    taps: tuple[int, ...]
    draft_layers: tuple[str, ...]
    target: Schedule
    pools: tuple[Pool, ...]  # a drafter is as good at a length as what it has seen of that length
    drafter: Schedule
    continuation: int = 192  # tokens
    measured: int = 32  # prompts of each kind that the finished pair is measured on
    measured_tokens: int = 128  # behind each of these prompts
    recurrence: Recurrence | None = None

    def architecture(self) -> Architecture:
        """The target's."""
        return Architecture(**_SHAPE, **self._own(self.layer_types), recurrence=self.recurrence)

    def draft_architecture(self) -> DraftArchitecture:
        """The drafter's."""
        return DraftArchitecture(
            **_SHAPE, **self._own(self.draft_layers), block_size=BLOCK, mask_token_id=MASK_ID,
            num_target_layers=len(self.layer_types), target_layer_ids=self.taps,
        )  # fmt: skip

    def _own(self, types: tuple[str, ...]) -> dict[str, Any]:
        return {
            "layer_types": types,
            "intermediate_size": self.intermediate_size,
            "rope": {each: Rope() for each in sorted({*types} - {LINEAR})},
            "sliding_window": WINDOW if SLIDING in types else None,
        }

    def quick(self) -> Recipe:
        """A pair that is good for nothing but to see that all parts of the training run."""
        return replace(
            self, pools=(Pool(48, 8, 0.7), Pool(200, 4, 0.3)), continuation=40,
            measured=4, measured_tokens=12,
            target=replace(self.target, steps=6, long_length=512, warmup=2),
            drafter=replace(self.drafter, steps=12, tokens=512, warmup=2),
        )  # fmt: skip


_SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "max_position_embeddings": POSITIONS, "tie_word_embeddings": True,
}  # fmt: skip

RECIPES = {
    "plain": Recipe(
        layer_types=(SLIDING, SLIDING, SLIDING, FULL) * 2, intermediate_size=384, taps=(1, 3, 5),
        draft_layers=(SLIDING, FULL), target=Schedule(1800),
        pools=(
            Pool(32, 1024, 0.4), Pool(192, 512, 0.3), Pool(512, 192, 0.2), Pool(1600, 64, 0.1),
        ),
        drafter=Schedule(2800, rate=5e-3),
    ),
    "hybrid": Recipe(
        layer_types=(LINEAR, LINEAR, LINEAR, FULL), intermediate_size=256, taps=(0, 1, 2),
        draft_layers=(SLIDING, FULL), target=Schedule(1500),
        pools=(
            Pool(32, 704, 0.4), Pool(192, 384, 0.3), Pool(512, 128, 0.2), Pool(1600, 64, 0.1),
        ),
        drafter=Schedule(2200, rate=5e-3),
        recurrence=Recurrence(key_heads=2, value_heads=4, key_dim=32, value_dim=32, kernel=4),
    ),
}  # fmt: skip
