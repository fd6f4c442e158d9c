"""What the commands of `specdiag ddtree` share: options, and the pair that they name.

Nothing but typer and the standard library is imported at module level: torch takes seconds to
load, and may not be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag.ddtree.prompts import LARGEST_SEED
from specdiag.errors import Notice, SpecdiagError, reason

if TYPE_CHECKING:
    from specdiag.ddtree.pair import Pair

NEEDED = ("torch", "numpy", "safetensors", "tokenizers")
DTYPES = ("float32", "bfloat16")

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Run speculative decoding here, traced. Example: specdiag ddtree generate 'def main('",
)

# Options that several commands have

PairName = Annotated[str, typer.Option(metavar="NAME", help="Bundled pair: plain or hybrid.")]
TargetFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Your own target: Qwen3, in Hugging Face layout.")
]
DrafterFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Your own DFlash drafter, made for this target.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")]
Dtype = Annotated[
    str | None,
    typer.Option(help="float32 or bfloat16; if not said, float32 on a CPU, else as stored."),
]
Threads = Annotated[
    int, typer.Option(help="CPU threads. Tiny models are slowed down by more than one.")
]
Mode = Annotated[str, typer.Option(help="autoregressive, linear, ddtree or shadow_linear.")]
Budget = Annotated[int, typer.Option(help="Tree nodes, without the root.")]
TopK = Annotated[int, typer.Option(help="Candidates of each depth.")]
DepthLimit = Annotated[
    int | None, typer.Option(help="Depths to draft; if not said, the drafter's block less one.")
]
DepthBonus = Annotated[float, typer.Option(help="Added to a node's score for each depth.")]
MaxNewTokens = Annotated[int, typer.Option(help="Stop after so many tokens.")]
Batch = Annotated[int, typer.Option(help="Requests decoded together.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
TopP = Annotated[float, typer.Option(help="Sample from this share of the mass.")]


# What the commands share


def require_runtime() -> None:
    """Raise SpecdiagError if torch, or what else the runtime needs, cannot be loaded."""
    import importlib

    for name in NEEDED:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name in (name, None)
            raise SpecdiagError(
                f"{name} is not installed"
                if missing
                else f"{name} cannot be loaded: {reason(error)}",
                "specdiag ddtree",
                "pip install 'specdiag-llm[runtime]'",
            ) from None


def load_pair(
    pair: str, target: Path | None, drafter: Path | None, device: str, dtype: str | None,
    threads: int, with_drafter: bool = True,
) -> Pair:  # fmt: skip
    """The models that the options name: a bundled pair, or folders of the user's.

    `target` alone is a target without a drafter; `drafter` alone drafts for the bundled target.
    Raises SpecdiagError if one of the options, or a folder, cannot be used.
    """
    require_runtime()
    import torch

    from specdiag.ddtree import pair as pairs

    within("--threads", threads, 1, 1024)
    place = _device(device)
    if dtype is not None and dtype not in DTYPES:
        raise SpecdiagError(f"{dtype!r} is no dtype", "--dtype", f"one of {', '.join(DTYPES)}")
    if dtype is None and place.startswith("cpu"):
        dtype = "float32"
    torch.set_num_threads(threads)
    if pair not in pairs.NAMES:
        known = ", ".join(pairs.NAMES)
        raise SpecdiagError(f"no pair is called {pair!r}", "--pair", f"one of {known}")
    bundled = pairs.BUNDLED / pair
    if drafter is None and target is None:
        drafter = bundled / "drafter"
    return pairs.load(
        target or bundled / "target",
        drafter if with_drafter else None,
        place,
        getattr(torch, dtype) if dtype else None,
        warn=lambda text: typer.echo(str(Notice(text)), err=True),
        name=pair if target is None else None,
    )


def within(option: str, value: float, low: float, high: float) -> None:
    """Raise SpecdiagError unless low <= value <= high."""
    if not low <= value <= high:
        raise SpecdiagError(f"{value} is out of range", option, f"from {low} to {high}")


def _device(name: str) -> str:
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise SpecdiagError(f"{name!r} is no device", "--device", "cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise SpecdiagError(
            f"there is no {name} here: torch sees {found} GPU{'' if found == 1 else 's'}",
            "--device",
            "use cpu, or a torch built for the GPU's driver",
        )
    return str(device)


@contextmanager
def enough_memory(device: str) -> Iterator[None]:
    """Say in three lines that the models, or a batch, do not fit."""
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        raise SpecdiagError(
            "out of memory",
            device,
            "decode fewer requests together, shorten the context or lower the budget",
        ) from None


@contextmanager
def compiler_found(wanted: bool) -> Iterator[None]:
    """Say in three lines that the passes cannot be compiled here."""
    if not wanted:
        yield
        return
    from torch._dynamo.exc import TorchDynamoException

    try:
        yield
    except TorchDynamoException as error:
        why = next(
            (line for line in str(error).splitlines() if line.strip()), "torch.compile failed"
        )
        raise SpecdiagError(
            f"the passes cannot be compiled: {why.strip():.200}",
            "--compile",
            "install a C++ compiler (g++), or leave --compile out",
        ) from None


def mode_named(mode: str) -> str:
    """The name of a mode; dashes are as good as underscores."""
    from specdiag.ddtree.decode import MODES

    name = mode.replace("-", "_")
    if name not in MODES:
        raise SpecdiagError(f"{mode!r} is no mode", "--mode", f"one of {', '.join(MODES)}")
    return name


def check_sampling(temperature: float, top_p: float, seed: int) -> None:
    """Raise SpecdiagError for numbers that no token can be drawn with."""
    within("--temperature", temperature, 0, 1e6)
    within("--seed", seed, 0, LARGEST_SEED)
    if not 0 < top_p <= 1:
        raise SpecdiagError(f"{top_p} is out of range", "--top-p", "above 0, up to 1")


def numbers(option: str, given: str, low: int, high: int) -> tuple[int, ...]:
    """Whole numbers by commas, each once, in order."""
    try:
        found = sorted({int(part) for part in given.split(",")})
    except ValueError:
        raise SpecdiagError(
            f"{given!r:.60} is no list of whole numbers", option, "by commas: 8,16,32"
        ) from None
    for number in found:
        within(option, number, low, high)
    return tuple(found)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr, where that is a terminal; call what it gives after each decode."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(transient=True, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
