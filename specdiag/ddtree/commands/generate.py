"""`specdiag ddtree generate`: continue a text, and record how."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag.ddtree import prompts as texts
from specdiag.ddtree.commands.options import (
    Batch,
    Budget,
    DepthBonus,
    DepthLimit,
    Device,
    DrafterFolder,
    Dtype,
    MaxNewTokens,
    Mode,
    PairName,
    TargetFolder,
    Temperature,
    Threads,
    TopK,
    TopP,
    app,
    check_sampling,
    compiler_found,
    enough_memory,
    load_pair,
    mode_named,
    require_runtime,
    within,
)
from specdiag.ddtree.prompts import LARGEST_BUDGET, Prompt
from specdiag.errors import SpecdiagError

if TYPE_CHECKING:
    from specdiag.ddtree.decode import Options, Request
    from specdiag.ddtree.faults.registry import Fault
    from specdiag.ddtree.pair import Pair
    from specdiag.ddtree.verify import Sampling


Text = Annotated[str | None, typer.Argument(help="Text to continue.")]
PromptFile = Annotated[
    str | None,
    typer.Option(help='Read the prompt there (- is stdin), or from .jsonl {"prompt": ...}.'),
]
Seed = Annotated[int, typer.Option(help="The same seed draws the same text.")]
TraceFile = Annotated[
    Path | None, typer.Option(help="Write every step: .jsonl, .jsonl.zst or .parquet.")
]
TraceDetail = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Also: mask, inputs, checksums, law, oracle, candidates; by commas.",
    ),
]
ServerLogFile = Annotated[Path | None, typer.Option(help="Write a log as SGLang does.")]
Pattern = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help=r"What the text may be, such as '[a-z]+ = \d+\n'."),
]
PrefixCache = Annotated[
    int, typer.Option(help="Keep so many texts for later prompts that begin alike.")
]
FaultName = Annotated[
    str | None,
    typer.Option(metavar="F12@40", help="Break the run on purpose, here from step 40 on."),
]
Compile = Annotated[
    bool,
    typer.Option("--compile", help="Compile the passes first, for a minute; needs C++."),
]


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


@app.command()
def generate(
    prompt: Text = None,
    file: PromptFile = None,
    mode: Mode = "ddtree",
    budget: Budget = 32,
    top_k: TopK = 8,
    depth_limit: DepthLimit = None,
    depth_bonus: DepthBonus = 0.0,
    max_new_tokens: MaxNewTokens = 128,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    batch: Batch = 1,
    grammar: Pattern = None,
    prefix_cache: PrefixCache = 0,
    trace: TraceFile = None,
    trace_detail: TraceDetail = None,
    server_log: ServerLogFile = None,
    fault: FaultName = None,
    pair: PairName = "plain",
    target: TargetFolder = None,
    drafter: DrafterFolder = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = 1,
    compile: Compile = False,
) -> None:
    """Continue a text, and record how.

    One prompt is streamed as text; the answers to a .jsonl file are lines of JSON.

    Example: specdiag ddtree generate "def read(path):" --trace steps.jsonl
    """
    require_runtime()
    from specdiag.ddtree.decode import Options
    from specdiag.ddtree.faults import inject
    from specdiag.ddtree.trace import DETAILS
    from specdiag.ddtree.verify import Sampling

    mode = mode_named(mode)
    within("--budget", budget, 0, LARGEST_BUDGET)
    within("--top-k", top_k, 1, LARGEST_BUDGET)
    within("--max-new-tokens", max_new_tokens, 1, 2**31)
    within("--batch", batch, 1, 1024)
    within("--prefix-cache", prefix_cache, 0, 1024)
    within("--depth-bonus", depth_bonus, -1e6, 1e6)
    check_sampling(temperature, top_p, seed)
    detail = details(trace_detail, DETAILS, trace)
    if trace is not None and trace == server_log:
        raise SpecdiagError(
            "trace and server log are the same file", str(trace), "name two different files"
        )
    there = {"grammar": grammar is not None, "prefix": prefix_cache > 0}
    broken = _fault(fault, compile, mode, there)
    given = _prompts(prompt, file)
    if mode != "autoregressive" and target is not None and drafter is None:
        raise SpecdiagError(
            f"mode {mode} needs a drafter",
            "--drafter",
            "name the drafter of this target, or take --mode autoregressive",
        )
    with enough_memory(device):
        models = load_pair(pair, target, drafter, device, dtype, threads, mode != "autoregressive")
    if models.drafter is not None and depth_limit is not None:
        within("--depth-limit", depth_limit, 1, models.drafter.architecture.block_size - 1)
    requests = _requests(models, given, max_new_tokens, Sampling(temperature, top_p, seed))
    if grammar is not None:
        requests = _with_grammar(requests, grammar, models)
    options = Options(
        mode, budget, top_k, depth_limit, depth_bonus, models.stop_ids, mode, detail=detail,
        backend="inductor" if compile else None,
    )  # fmt: skip
    lines = file is not None and file.endswith(".jsonl")
    around = inject(*broken) if broken is not None else nullcontext()
    with enough_memory(device), compiler_found(compile), around as injected:
        _generate(models, requests, options, batch, trace, server_log, lines, prefix_cache)
    if broken is not None and injected is not None:
        known, first = broken[0], injected.first
        acted = "had nothing to act on" if first is None else f"acted from step {first} on"
        typer.echo(f"{known.name}: {known.title}; it {acted}", err=True)


NEEDED = {"grammar": "--grammar REGEX", "prefix": "--prefix-cache 8 and prompts that begin alike"}


def _fault(
    text: str | None, compiled: bool, mode: str, there: Mapping[str, bool]
) -> tuple[Fault, int] | None:
    """The fault of `--fault` and its first step; `there` is what some faults need."""
    from specdiag.ddtree.faults import parse

    if text is None:
        return None
    found = parse(text)
    if compiled or mode == "autoregressive":
        raise SpecdiagError(
            "a fault needs drafts, and passes that are not compiled", "--fault",
            "leave out --compile, and take --mode ddtree",
        )  # fmt: skip
    for need, given in there.items():
        if need in found[0].needs and not given:
            raise SpecdiagError(
                f"{found[0].name} has nothing to break here", "--fault", f"add {NEEDED[need]}"
            )
    return found


def _prompts(prompt: str | None, file: str | None) -> list[Prompt]:
    """The prompt of the command line, or those of a file."""
    if (prompt is None) == (file is None):
        raise SpecdiagError(
            "no prompt" if prompt is None else "two prompts",
            "specdiag ddtree generate",
            "give a text or --file, and not both",
        )
    return [Prompt(prompt, "the command line")] if prompt is not None else texts.read(str(file))


def _requests(
    models: Pair, given: Sequence[Prompt], max_new_tokens: int, sampling: Sampling
) -> list[Request]:
    """A request for each prompt; what a prompt does not say for itself is that of the options."""
    from specdiag.ddtree.decode import Request

    found = []
    for number, each in enumerate(given):
        own = {key: getattr(each, key) for key in ("temperature", "top_p", "seed")}
        own = {key: value for key, value in own.items() if value is not None}
        room = max_new_tokens if each.max_new_tokens is None else each.max_new_tokens
        ids = texts.encode(models, each)
        found.append(Request(f"r{number}", ids, room, each.budget, replace(sampling, **own)))
    return found


def _with_grammar(requests: Sequence[Request], pattern: str, models: Pair) -> list[Request]:
    """The same requests, each with this grammar."""
    from specdiag.ddtree.grammar import for_pair

    try:
        found = for_pair(pattern, models)
    except SpecdiagError as error:
        raise SpecdiagError(error.what, f"--{error.where}", error.help) from None
    return [replace(one, grammar=found) for one in requests]


def _generate(
    models: Pair, requests: Sequence[Request], options: Options, batch: int, trace: Path | None,
    server_log: Path | None, lines: bool, texts_kept: int,
) -> None:  # fmt: skip
    """Continue the requests and print what they receive, then how fast it went."""
    import json
    import time

    from specdiag.ddtree.prefix import Prefixes
    from specdiag.ddtree.recording import Recording

    prefixes = Prefixes(texts_kept) if texts_kept else None
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
        with Recording(models, options, trace, server_log, prefixes=prefixes) as recording:
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
    sys.stdout.write(text)  # as it is: echo would leave out what colours a terminal
    sys.stdout.flush()
