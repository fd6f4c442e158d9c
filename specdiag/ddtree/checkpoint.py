"""Folders with config.json and safetensors, read into a target or a drafter and written back.

Pickled weights are never opened: reading them would run what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from specdiag.ddtree import config_json
from specdiag.ddtree.architecture import DraftArchitecture
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.model import Target, spread_taps
from specdiag.errors import SpecdiagError, reason

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"

_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_WHOLE = ("I64", "I32")
_DTYPE_NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


def load_target(
    folder: Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> tuple[Target, list[str]]:
    """A Qwen3ForCausalLM checkpoint, and the names of tensors that it has no use for.

    Without `dtype` the weights stay as config.json says, or else as they are stored.
    """
    config = _read_json(folder, CONFIG)
    of = config_json.target(config, str(folder / CONFIG))
    with ExitStack() as stack, torch.device("meta"):
        weights = _Weights(folder, stack)
        target = Target(of)
        unused = weights.fill(target, _target_name, device, dtype or weights.dtype(config))
    return target, unused


def load_drafter(
    folder: Path,
    target: Target,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Drafter, list[str]]:
    """A DFlash checkpoint that fits `target`, and the names of tensors that it has no use for.

    It goes where the target is, and has the target's dtype, unless something else is asked for.
    """
    where = str(folder / CONFIG)
    of = config_json.drafter(_read_json(folder, CONFIG), where)
    with ExitStack() as stack, torch.device("meta"):
        weights = _Weights(folder, stack)
        layers = len(target.architecture.layer_types)
        taps = of.target_layer_ids or spread_taps(weights.taps(of), of.num_target_layers or layers)
        check_fit(of, taps, target, where)
        drafter = Drafter(
            of,
            taps,
            own_embedding="embed_tokens.weight" in weights,
            own_head="lm_head.weight" in weights,
        )
        unused = weights.fill(drafter, str, device or target.device, dtype or target.dtype)
    if drafter.d2t is not None:
        _check_map(drafter.d2t, of, str(weights.files["d2t"][0]))
    return drafter, unused


def check_fit(of: DraftArchitecture, taps: tuple[int, ...], target: Target, where: str) -> None:
    """Raise an error if a drafter was not made for such a target."""
    wanted = target.architecture
    layers = len(wanted.layer_types)
    for name, has, needs in (
        ("vocab_size", of.vocab_size, wanted.vocab_size),
        ("hidden_size", of.hidden_size, wanted.hidden_size),
        ("num_target_layers", of.num_target_layers, layers),
    ):
        if has is not None and has != needs:
            raise _misfit(f"`{name}` of the drafter is {has}, the target has {needs}", where)
    if of.mask_token_id >= wanted.vocab_size:
        raise _misfit(
            f"mask id {of.mask_token_id} is outside the vocabulary of {wanted.vocab_size}", where
        )
    outside = [tap for tap in taps if not 0 <= tap < layers]
    if outside:
        raise _misfit(f"layer {outside[0]} cannot be tapped: the target has {layers}", where)


def _check_map(d2t: Tensor, of: DraftArchitecture, where: str) -> None:
    tokens = Drafter.known_tokens(d2t)
    help = "`d2t` holds what to add to a draft id, and every token once; take the original weights"
    outside = tokens[(tokens < 0) | (tokens >= of.vocab_size)]
    if len(outside):
        raise SpecdiagError(
            f"d2t leads to token {int(outside[0])}, the vocabulary has {of.vocab_size}", where, help
        )
    if len(set(tokens.tolist())) != len(tokens):
        raise SpecdiagError("d2t leads to one token from several draft ids", where, help)


def save_target(target: Target, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write a checkpoint that `load_target`, and Transformers if no layer is recurrent, can read.

    The weights are stored as `dtype`, or else as they are.
    """
    tensors = {_target_name(name): each for name, each in target.state_dict().items()}
    _save(folder, config_json.to_json(target.architecture), tensors, dtype or target.dtype)


def save_drafter(drafter: Drafter, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write a checkpoint in the layout of z-lab, as `dtype` or else as the weights are."""
    config = config_json.to_json(drafter.architecture)
    config["dflash_config"]["target_layer_ids"] = list(drafter.taps)
    _save(folder, config, drafter.state_dict(), dtype or drafter.fc.weight.dtype)


class _Weights:
    """The tensors of a checkpoint, by name; read one at a time."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.files: dict[str, tuple[Path, Any]] = {}  # tensor -> its file, and that file opened
        for path in _weight_files(folder):
            try:
                opened = stack.enter_context(safe_open(path, framework="pt", device="cpu"))
            except (SafetensorError, OSError) as error:
                raise SpecdiagError(
                    f"the weights cannot be read: {reason(error)}",
                    str(path),
                    "copy or download the file again",
                ) from None
            self.files |= {name: (path, opened) for name in opened.keys()}  # noqa: SIM118

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def shape(self, name: str) -> list[int]:
        """The shape that a tensor is stored with; an error if there is none of that name."""
        if name not in self.files:
            raise SpecdiagError(
                f"tensor {name} is missing",
                str(self.folder),
                "config.json and the weights belong to different models, or a file is incomplete",
            )
        shape: list[int] = self.files[name][1].get_slice(name).get_shape()
        return shape

    def read(self, name: str, wanted: list[int], whole: bool = False) -> Tensor:
        """One tensor, if it has the wanted shape and holds numbers (`whole` ones) as they are."""
        shape = self.shape(name)
        path, opened = self.files[name]
        if shape != wanted:
            raise SpecdiagError(
                f"tensor {name} has shape {shape}, config.json wants {wanted}",
                str(path),
                "take config.json and the weights from the same model",
            )
        stored = opened.get_slice(name).get_dtype()
        known = _WHOLE if whole else tuple(_DTYPES)
        if stored not in known:
            raise SpecdiagError(
                f"tensor {name} is stored as {stored}",
                str(path),
                f"known are {', '.join(known)}"
                + ("" if whole else "; quantised weights cannot be used"),
            )
        tensor: Tensor = opened.get_tensor(name)
        return tensor

    def fill(
        self,
        model: nn.Module,
        stored_name: Callable[[str], str],
        device: str | torch.device,
        dtype: torch.dtype,
    ) -> list[str]:
        """Give a model without memory its weights; the names of those that it does not have."""
        wanted = {stored_name(name): name for name in model.state_dict()}
        empty = model.state_dict()
        for stored in wanted:  # all names first: reading can take minutes
            self.shape(stored)
        tensors = {}
        for stored, name in wanted.items():
            whole = not empty[name].is_floating_point()
            tensor = self.read(stored, list(empty[name].shape), whole)
            tensors[name] = tensor.to(device, torch.int64 if whole else dtype)
        model.load_state_dict(tensors, assign=True)
        model.eval()
        return sorted(self.files.keys() - wanted.keys())

    def taps(self, of: DraftArchitecture) -> int:
        """How many tapped layers the drafter's first matrix reads."""
        shape = self.shape("fc.weight")
        count = shape[-1] // of.hidden_size if shape else 0
        if count < 1 or shape != [of.hidden_size, count * of.hidden_size]:
            raise SpecdiagError(
                f"tensor fc.weight has shape {shape}, "
                f"wanted [{of.hidden_size}, taps × {of.hidden_size}]",
                str(self.files["fc.weight"][0]),
                "take config.json and the weights from the same model",
            )
        return count

    def dtype(self, config: Mapping[str, Any]) -> torch.dtype:
        """What config.json says, or else what most of the checkpoint is stored as."""
        named = config.get("dtype", config.get("torch_dtype"))
        if isinstance(named, str) and named in _DTYPE_NAMES:
            return _DTYPES[_DTYPE_NAMES[named]]
        stored = [opened.get_slice(name).get_dtype() for name, (_, opened) in self.files.items()]
        return _DTYPES.get(max(stored, key=stored.count, default=""), torch.float32)


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / INDEX).is_file():
        pickled = next((each.name for each in folder.glob("*.bin")), None)
        raise SpecdiagError(
            f"no {WEIGHTS} and no {INDEX}" + (f"; {pickled} is a pickle" if pickled else ""),
            str(folder),
            "convert the weights to safetensors; pickles can run code and are never opened",
        )
    named = _read_json(folder, INDEX).get("weight_map")
    files = sorted({*named.values()} if isinstance(named, dict) else {}, key=str)
    if not files or not all(isinstance(each, str) and each == Path(each).name for each in files):
        raise SpecdiagError(
            "`weight_map` does not name files of this folder",
            str(folder / INDEX),
            "copy or download the file again",
        )
    for each in files:
        if not (folder / each).is_file():
            raise SpecdiagError(
                f"{each} is missing", str(folder / INDEX), "copy or download the missing file"
            )
    return [folder / each for each in files]


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    if not path.is_file():
        raise SpecdiagError(
            f"no {name}", str(folder), "name a folder that holds a model: config and safetensors"
        )
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecdiagError(f"{name} cannot be read: {reason(error)}", str(path)) from None
    if not isinstance(values, dict):
        raise SpecdiagError(f"{name} holds no object", str(path), "copy or download the file again")
    return values


def _save(
    folder: Path, config: dict[str, Any], tensors: Mapping[str, Tensor], dtype: torch.dtype
) -> None:
    """Both files are written beside their place first, so that none is ever half written."""
    text = json.dumps({**config, "dtype": str(dtype).removeprefix("torch.")}, indent=2) + "\n"
    plain = {
        name: each.detach().to("cpu", dtype if each.is_floating_point() else None).contiguous()
        for name, each in tensors.items()
    }
    weights, settings = folder / f".{WEIGHTS}.part", folder / f".{CONFIG}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        settings.write_text(text, encoding="utf-8")
        save_file(plain, weights, metadata={"format": "pt"})
        # safetensors makes a file for the owner alone; this one goes by the umask like any other.
        weights.chmod(settings.stat().st_mode & 0o777)
        weights.replace(folder / WEIGHTS)
        settings.replace(folder / CONFIG)
    except (OSError, SafetensorError) as error:
        raise SpecdiagError(
            f"the checkpoint cannot be written: {reason(error)}", str(folder)
        ) from None
    finally:
        for part in (weights, settings):
            with suppress(OSError):
                part.unlink()


def _target_name(name: str) -> str:
    return name if name.startswith("lm_head.") else f"model.{name}"


def _misfit(what: str, where: str) -> SpecdiagError:
    return SpecdiagError(what, where, "use the drafter that was trained for this target")
