"""A target with its drafter and tokenizer, from two model folders or from those of the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from specdiag.ddtree.checkpoint import load_drafter, load_target
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.layers import lay_out
from specdiag.ddtree.model import Target
from specdiag.ddtree.tokenizer import END, Tokenizer
from specdiag.errors import SpecdiagError

BUNDLED = Path(__file__).parent / "pairs"  # a folder a pair, with target/ and drafter/ in it
NAMES = ("plain", "hybrid")


@dataclass(frozen=True)
class Pair:
    """What decoding needs."""

    name: str  # a bundled pair's, or the target folder's
    target: Target
    drafter: Drafter | None
    tokenizer: Tokenizer
    target_folder: Path
    drafter_folder: Path | None

    @property
    def stop_ids(self) -> frozenset[int]:
        """The ids that end a text."""
        end = self.tokenizer.id(END)
        return frozenset() if end is None else frozenset({end})


def bundled(name: str = "plain", device: str = "cpu", dtype: torch.dtype = torch.float32) -> Pair:
    """A pair of the package. Its weights are stored in bfloat16; on a CPU float32 is faster."""
    if name not in NAMES:
        raise SpecdiagError(f"no pair is called {name!r}", help=f"one of {', '.join(NAMES)}")
    return load(BUNDLED / name / "target", BUNDLED / name / "drafter", device, dtype, name=name)


def load(
    target_folder: Path,
    drafter_folder: Path | None,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
    warn: Callable[[str], None] = lambda text: None,
    name: str | None = None,
) -> Pair:
    """A pair from folders in the layout of Hugging Face; `warn` hears of tensors without use.

    Without `dtype` the weights stay as they are stored. Raises SpecdiagError for a folder that
    holds no such model, and for a drafter that was not made for this target.
    """
    target, unused = load_target(target_folder, device, dtype)
    drafter = None
    if drafter_folder is not None:
        drafter, more = load_drafter(drafter_folder, target)
        unused += more
    lay_out(target)
    if drafter is not None:
        lay_out(drafter)
    if unused:
        warn(f"{len(unused)} tensors have no use here, such as {unused[0]}")
    tokenizer = Tokenizer.load(target_folder)
    if tokenizer.size > target.architecture.vocab_size:
        raise SpecdiagError(
            f"the tokenizer has {tokenizer.size} ids, the target {target.architecture.vocab_size}",
            str(target_folder),
            "take the tokenizer and the weights from the same model",
        )
    return Pair(
        name or target_folder.name, target, drafter, tokenizer, target_folder, drafter_folder
    )
