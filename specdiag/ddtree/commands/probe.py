"""`specdiag ddtree probe`: the decisive experiment for throughput that falls with context."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdiag.ddtree.commands.options import (
    Budget,
    Device,
    DrafterFolder,
    Dtype,
    MaxNewTokens,
    Mode,
    PairName,
    TargetFolder,
    Threads,
    TopK,
    app,
    check_sampling,
    enough_memory,
    load_pair,
    mode_named,
    numbers,
    progress_bar,
    require_runtime,
    within,
)
from specdiag.ddtree.prompts import LARGEST_BUDGET
from specdiag.errors import SpecdiagError, reason


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
    check_sampling(temperature, 1.0, seed)
    settings = probing.Settings(
        lengths=numbers("--lengths", lengths, 1, 2**31) if lengths is not None else None,
        max_new_tokens=max_new_tokens, repeats=repeats, mode=mode_named(mode), budget=budget,
        top_k=top_k, temperature=temperature, text=_text(text, "--text"),
        hard_text=_text(hard_text, "--hard-text"), seed=seed,
    )  # fmt: skip
    with enough_memory(device):
        models = load_pair(pair, target, drafter, device, dtype, threads)
        with progress_bar("probing", probing.decodes(models, settings)) as done:
            found = probing.run(models, settings, out, done)
    typer.echo(tables.probe(found))
    if out is not None:
        typer.echo(f"\nTraces and probe.json: {out}")


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
