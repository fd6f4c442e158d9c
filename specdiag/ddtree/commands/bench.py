"""`specdiag ddtree bench`: measure every mode on the same prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdiag.ddtree.commands.options import (
    Batch,
    Device,
    DrafterFolder,
    Dtype,
    MaxNewTokens,
    PairName,
    TargetFolder,
    Temperature,
    Threads,
    TopK,
    TopP,
    app,
    check_sampling,
    enough_memory,
    load_pair,
    numbers,
    progress_bar,
    require_runtime,
    within,
)
from specdiag.ddtree.prompts import LARGEST_BUDGET


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
    ] = "1,2,4,8,12,16,24,32,64,128,256",
    shadow_budget: Annotated[int, typer.Option(help="Budget of the shadow tree.")] = 32,
    top_k: TopK = 8,
    batch: Batch = 1,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
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
    within("--batch", batch, 1, 1024)
    check_sampling(temperature, top_p, seed)
    settings = benchmark.Settings(
        kind=kind, prompts=prompts, prompt_tokens=prompt_tokens, max_new_tokens=max_new_tokens,
        budgets=numbers("--budgets", budgets, 0, LARGEST_BUDGET), shadow_budget=shadow_budget,
        top_k=top_k, batch=batch, temperature=temperature, top_p=top_p, seed=seed,
    )  # fmt: skip
    with enough_memory(device):
        models = load_pair(pair, target, drafter, device, dtype, threads)
        with progress_bar("measuring", benchmark.turns(settings)) as done:
            found = benchmark.run(models, settings, out, done)
    typer.echo(tables.bench(found))
    typer.echo(f"\nTraces and bench.json: {out}")
