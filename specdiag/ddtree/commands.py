"""`specdiag ddtree`: the bundled runtime as commands.

Nothing but typer and the standard library is imported at module level: torch takes seconds to
load, and may not be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag.errors import Notice, SpecdiagError, reason

if TYPE_CHECKING:
    from specdiag.ddtree.decode import Options, Request
    from specdiag.ddtree.pair import Pair

NEEDED = ("torch", "numpy", "safetensors", "tokenizers")
DTYPES = ("float32", "bfloat16")
LARGEST_BUDGET = 4096  # its mask takes 16 million entries a request

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


def details(names: str | None, known: Sequence[str], trace: Path | None) -> frozenset[str]:
    """The parts of `--trace-detail`."""
    found = frozenset(name.strip() for name in (names or "").split(",")) - {""}
    for name in sorted(found - set(known)):
        raise SpecdiagError(
            f"{name!r} is no detail of a trace", "--trace-detail", f"known are {', '.join(known)}"
        )
    if found and trace is None:
        raise SpecdiagError("details without a trace", "--trace-detail", "add --trace FILE")
    return found


def mode_named(mode: str) -> str:
    """The name of a mode; dashes are as good as underscores."""
    from specdiag.ddtree.decode import MODES

    name = mode.replace("-", "_")
    if name not in MODES:
        raise SpecdiagError(f"{mode!r} is no mode", "--mode", f"one of {', '.join(MODES)}")
    return name


# generate


@app.command()
def generate(
    prompt: Annotated[str | None, typer.Argument(help="Text to continue.")] = None,
    file: Annotated[
        str | None,
        typer.Option(help='Read the prompt there (- is stdin), or from .jsonl {"prompt": ...}.'),
    ] = None,
    mode: Mode = "ddtree",
    budget: Budget = 32,
    top_k: TopK = 8,
    depth_limit: DepthLimit = None,
    depth_bonus: DepthBonus = 0.0,
    max_new_tokens: MaxNewTokens = 128,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Sample from this share of the mass.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed draws the same text.")] = 0,
    batch: Batch = 1,
    trace: Annotated[
        Path | None, typer.Option(help="Write every step: .jsonl, .jsonl.zst or .parquet.")
    ] = None,
    trace_detail: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Also: mask, inputs, checksums, oracle, candidates; by commas."
        ),
    ] = None,
    server_log: Annotated[Path | None, typer.Option(help="Write a log as SGLang does.")] = None,
    pair: PairName = "plain",
    target: TargetFolder = None,
    drafter: DrafterFolder = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = 1,
) -> None:
    """Continue a text, and record how.

    One prompt is streamed as text; the answers to a .jsonl file are lines of JSON.

    Example: specdiag ddtree generate "def read(path):" --trace steps.jsonl
    """
    require_runtime()
    from specdiag.ddtree import prompts as texts
    from specdiag.ddtree.decode import Options, Request
    from specdiag.ddtree.trace import DETAILS
    from specdiag.ddtree.verify import Sampling

    mode = mode_named(mode)
    within("--budget", budget, 0, LARGEST_BUDGET)
    within("--top-k", top_k, 1, LARGEST_BUDGET)
    within("--max-new-tokens", max_new_tokens, 1, 2**31)
    within("--batch", batch, 1, 1024)
    within("--depth-bonus", depth_bonus, -1e6, 1e6)
    within("--temperature", temperature, 0, 1e6)
    within("--seed", seed, 0, texts.LARGEST_SEED)
    if not 0 < top_p <= 1:
        raise SpecdiagError(f"{top_p} is out of range", "--top-p", "above 0, up to 1")
    detail = details(trace_detail, DETAILS, trace)
    if trace is not None and trace == server_log:
        raise SpecdiagError(
            "trace and server log are the same file", str(trace), "name two different files"
        )
    if (prompt is None) == (file is None):
        raise SpecdiagError(
            "no prompt" if prompt is None else "two prompts",
            "specdiag ddtree generate",
            "give a text or --file, and not both",
        )
    if mode != "autoregressive" and target is not None and drafter is None:
        raise SpecdiagError(
            f"mode {mode} needs a drafter",
            "--drafter",
            "name the drafter of this target, or take --mode autoregressive",
        )
    given = [texts.Prompt(prompt, "the command line")] if prompt is not None else []
    if file is not None:
        given = texts.read(file)
    with enough_memory(device):
        models = load_pair(pair, target, drafter, device, dtype, threads, mode != "autoregressive")
    if models.drafter is not None and depth_limit is not None:
        within("--depth-limit", depth_limit, 1, models.drafter.architecture.block_size - 1)
    requests = [
        Request(
            f"r{number}",
            texts.encode(models, each),
            max_new_tokens if each.max_new_tokens is None else each.max_new_tokens,
            each.budget,
            Sampling(
                temperature if each.temperature is None else each.temperature,
                top_p if each.top_p is None else each.top_p,
                seed if each.seed is None else each.seed,
            ),
        )
        for number, each in enumerate(given)
    ]
    options = Options(
        mode, budget, top_k, depth_limit, depth_bonus, models.stop_ids, mode, detail=detail
    )
    lines = file is not None and file.endswith(".jsonl")
    with enough_memory(device):
        _generate(models, requests, options, batch, trace, server_log, lines)


def _generate(
    models: Pair, requests: Sequence[Request], options: Options, batch: int, trace: Path | None,
    server_log: Path | None, lines: bool,
) -> None:  # fmt: skip
    """Continue the requests and print what they receive, then how fast it went."""
    import json
    import time

    from specdiag.ddtree import prompts as texts
    from specdiag.ddtree.recording import Recording

    terminal = sys.stdout.isatty()
    stream = texts.Stream(
        models.tokenizer, lambda text: _print(texts.harmless(text) if terminal else text)
    )
    first: float | None = None  # when the prompts of a batch were done
    seconds = 0.0
    tokens = steps = 0

    def received(request: Request, new: list[int]) -> None:
        nonlocal first
        first = time.perf_counter() if first is None else first
        if not lines:
            stream.add(texts.without(new, options.stop_ids))

    try:
        with Recording(models, options, trace, server_log) as recording:
            for start in range(0, len(requests), batch):
                first = None
                results = recording.decode(requests[start : start + batch], received)
                seconds += time.perf_counter() - (first or 0.0)
                tokens += sum(len(result.tokens) - 1 for result in results)
                steps += sum(result.steps for result in results)
                for result in results if lines else ():
                    text = texts.without(result.tokens, options.stop_ids)
                    answer = {
                        "request": result.request.name,
                        "text": models.tokenizer.decode(text),
                        "tokens": len(result.tokens),
                        "steps": result.steps,
                        "finish": result.finish,
                    }
                    typer.echo(json.dumps(answer))
    finally:
        stream.close()
        if terminal and not lines:
            typer.echo()
    typer.echo(
        f"{tokens} tokens in {steps} steps after prefill: {tokens / max(steps, 1):.2f} a step, "
        f"{tokens / max(seconds, 1e-9):,.1f} tokens/s",
        err=True,
    )


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


# bench and probe


@app.command()
def bench(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for bench.json and a trace of each arm.")
    ] = Path("ddtree-bench"),
    kind: Annotated[str, typer.Option(help="Text: code, repeated or shuffled.")] = "code",
    prompts: Annotated[int, typer.Option(help="How many, the unit of the statistics.")] = 16,
    prompt_tokens: Annotated[int, typer.Option(help="Tokens of each prompt.")] = 256,
    max_new_tokens: MaxNewTokens = 128,
    budgets: Annotated[
        str, typer.Option(metavar="N,N,...", help="Budgets of the tree.")
    ] = "1,2,4,8,16,32,64,128,256",
    shadow_budget: Annotated[int, typer.Option(help="Budget of the shadow tree.")] = 32,
    top_k: TopK = 8,
    batch: Batch = 1,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Sample from this share of the mass.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed takes the same prompts.")] = 0,
    pair: PairName = "plain",
    target: TargetFolder = None,
    drafter: DrafterFolder = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = 1,
) -> None:
    """Measure plain decoding, the chain, the shadow tree and trees on the same prompts.

    The arms take turns. Tokens per second are those after the first, over the time after prefill.
    The folder is made to be analysed: specdiag analyze ddtree-bench

    Example: specdiag ddtree bench --budgets 8,16,32,64
    """
    require_runtime()
    from specdiag.ddtree import bench as benchmark
    from specdiag.ddtree import tables

    within("--top-k", top_k, 1, LARGEST_BUDGET)
    within("--shadow-budget", shadow_budget, 0, LARGEST_BUDGET)
    within("--max-new-tokens", max_new_tokens, 2, 2**31)
    within("--prompts", prompts, 1, 2**31)
    within("--prompt-tokens", prompt_tokens, 1, 2**31)
    _sampled(temperature, top_p, seed, batch)
    settings = benchmark.Settings(
        kind=kind, prompts=prompts, prompt_tokens=prompt_tokens, max_new_tokens=max_new_tokens,
        budgets=_numbers("--budgets", budgets, 0, LARGEST_BUDGET), shadow_budget=shadow_budget,
        top_k=top_k, batch=batch, temperature=temperature, top_p=top_p, seed=seed,
    )  # fmt: skip
    with enough_memory(device):
        models = load_pair(pair, target, drafter, device, dtype, threads)
        with _bar("measuring", benchmark.turns(settings)) as done:
            found = benchmark.run(models, settings, out, done)
    typer.echo(tables.bench(found))
    typer.echo(f"\nTraces and bench.json: {out}")


@app.command()
def probe(
    lengths: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Context lengths; if not said, 128 to 2048 that fit."),
    ] = None,
    max_new_tokens: MaxNewTokens = 96,
    repeats: Annotated[int, typer.Option(help="Texts of each kind, at each length.")] = 5,
    mode: Mode = "ddtree",
    budget: Budget = 32,
    top_k: TopK = 8,
    temperature: Annotated[float, typer.Option(help="Of the hard text; 0 is greedy.")] = 1.0,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Predictable text of your own.")
    ] = None,
    hard_text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Hard text of your own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the traces and probe.json there.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed takes the same texts.")] = 0,
    pair: PairName = "plain",
    target: TargetFolder = None,
    drafter: DrafterFolder = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = 1,
) -> None:
    """Tell hard text from a drafter that length damages, and from a target that length slows.

    Predictable and hard text at several context lengths, with the step time of plain decoding.

    Example: specdiag ddtree probe --lengths 128,512,2048
    """
    require_runtime()
    from specdiag.ddtree import probe as probing
    from specdiag.ddtree import tables

    within("--budget", budget, 1, LARGEST_BUDGET)
    within("--top-k", top_k, 1, LARGEST_BUDGET)
    within("--max-new-tokens", max_new_tokens, 2, 2**31)
    within("--repeats", repeats, 1, 10_000)
    _sampled(temperature, 1.0, seed, 1)
    settings = probing.Settings(
        lengths=_numbers("--lengths", lengths, 1, 2**31) if lengths is not None else None,
        max_new_tokens=max_new_tokens, repeats=repeats, mode=mode_named(mode), budget=budget,
        top_k=top_k, temperature=temperature, text=_text(text, "--text"),
        hard_text=_text(hard_text, "--hard-text"), seed=seed,
    )  # fmt: skip
    with enough_memory(device):
        models = load_pair(pair, target, drafter, device, dtype, threads)
        with _bar("probing", probing.decodes(models, settings)) as done:
            found = probing.run(models, settings, out, done)
    typer.echo(tables.probe(found))
    if out is not None:
        typer.echo(f"\nTraces and probe.json: {out}")


def _sampled(temperature: float, top_p: float, seed: int, batch: int) -> None:
    within("--temperature", temperature, 0, 1e6)
    within("--seed", seed, 0, 2**63 - 1)
    within("--batch", batch, 1, 1024)
    if not 0 < top_p <= 1:
        raise SpecdiagError(f"{top_p} is out of range", "--top-p", "above 0, up to 1")


def _numbers(option: str, given: str, low: int, high: int) -> tuple[int, ...]:
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


def _text(path: Path | None, option: str) -> str | None:
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SpecdiagError(f"{option}: {reason(error)}", str(path)) from None
    if not text.strip():
        raise SpecdiagError("the file holds no text", str(path), "name a file with text in it")
    return text


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr, where that is a terminal; call what it gives after each decode."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(transient=True, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
