"""What `bench` and `probe` print: a table, and what it says in words.

All of it is a function of the measured values. This module does not import torch.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from specdiag.ddtree.estimate import estimate, typical

STAGES = ("draft", "build", "verify", "other")


def grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column holds names, the others numbers."""
    lines = [headings, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headings))]
    shown = [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([shown[0], "-" * max(map(len, shown)), *shown[1:]])


def filled(words: str, width: int = 100) -> str:
    """A paragraph."""
    return textwrap.fill(words, width - 1, break_long_words=False, break_on_hyphens=False)


# The benchmark


def bench(result: dict[str, Any], width: int = 100) -> str:
    """The content of bench.json as a table with remarks."""
    arms, settings = result["arms"], result["settings"]
    headings = ["arm", "tok/s", "commit", "steps", *(f"{name} %" for name in STAGES),
                "speed-up", "95 % interval"]  # fmt: skip
    rows = [
        [
            arm["arm"], f"{arm['tokens_per_s']:,.1f}", f"{arm['commit_len']:.2f}",
            f"{arm['steps']:,}", *(f"{100 * arm['shares'][name]:.0f}" for name in STAGES),
            f"{arm['speed_up']:.2f}x", _interval(arm) if arm["arm"] != arms[0]["arm"] else "",
        ]
        for arm in arms
    ]  # fmt: skip
    chosen = f"temperature {settings['temperature']:g}" if settings["temperature"] else "greedy"
    first = (
        f"{settings['prompts']} prompts ({settings['kind']}) of {settings['prompt_tokens']} "
        f"tokens, {settings['max_new_tokens']} new tokens each, {chosen}, batch "
        f"{settings['batch']}; {_place(result)}."
    )
    last = remarks(arms) + [difference(one, result) for one in result["differences"]]
    paragraphs = [filled(text, width) for text in last]
    return "\n".join([filled(first, width), "", grid(headings, rows), "", *paragraphs])


def _interval(arm: dict[str, Any]) -> str:
    interval = arm["speed_up_interval"]
    return f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else "too few prompts"


def remarks(arms: Sequence[dict[str, Any]]) -> list[str]:
    """Which budget is best, what it brings, and where a tree stops paying."""
    trees = sorted((arm for arm in arms if arm["mode"] == "ddtree"), key=lambda arm: arm["budget"])
    chain = next((arm for arm in arms if arm["mode"] == "linear"), None)
    best = max(trees, key=lambda arm: arm["tokens_per_s"])
    said = (
        f"Best budget {best['budget']}: {best['speed_up']:.2f}x plain decoding ({_interval(best)})"
    )
    if chain is not None:
        said += f", {best['tokens_per_s'] / chain['tokens_per_s']:.2f}x the linear chain"
    said += (
        f". A step commits {best['commit_len']:.2f} tokens and takes as long as "
        f"{best['break_even_commit_len']:.2f} plain ones, its break-even."
    )
    larger = [arm for arm in trees if arm["budget"] > best["budget"]]
    loses = [
        _first(larger, lambda arm: _surely_below(arm, best), "surely slower than at the best"),
        _first(
            larger,
            lambda arm: chain is not None and arm["tokens_per_s"] < chain["tokens_per_s"],
            "slower than the chain",
        ),
        _first(larger, lambda arm: arm["speed_up"] < 1, "slower than plain decoding"),
    ]
    known = [text for text in loses if text]
    if known:
        more = f"Beyond it a tree commits more than it is worth: {'; '.join(known)}."
    elif larger:
        more = "Larger trees are no surely slower; which of them is best is not decided here."
    else:
        more = "It is the largest budget measured: a still larger one may be better."
    return [said, more]


def _first(arms: Sequence[dict[str, Any]], falls: Any, words: str) -> str:
    """From where on each larger budget falls behind."""
    fallen: list[int] = []
    for arm in reversed(arms):
        if not falls(arm):
            break
        fallen.append(arm["budget"])
    return f"from budget {fallen[-1]} on it is {words}" if fallen else ""


def _surely_below(arm: dict[str, Any], other: dict[str, Any]) -> bool:
    mine, its = arm["speed_up_interval"], other["speed_up_interval"]
    return bool(mine and its and mine[1] < its[0])


def difference(one: dict[str, Any], result: dict[str, Any]) -> str:
    """A sentence about an arm that emits another text than plain decoding."""
    exact = not result["settings"]["temperature"] and result["environment"]["dtype"] == "float32"
    place = "its length" if one["token"] is None else f"token {one['token']}"
    cause = (
        "greedy in float32 only a near tie may differ: look at this step in the trace"
        if exact
        else "rounding differs with the number of rows, so near ties may fall the other way"
    )
    return (
        f"Not the same text: {one['arm']} leaves plain decoding in {one['prompts']} of "
        f"{result['settings']['prompts']} prompts, first in {one['first']} at {place}; {cause}."
    )


# The probe


def probe(result: dict[str, Any], width: int = 100) -> str:
    """The content of probe.json as a table with its conclusions."""
    settings = result["settings"]
    plain = {cell["length"]: cell for cell in result["cells"] if cell["kind"] == "plain"}
    spoken = [cell for cell in result["cells"] if cell["kind"] != "plain"]
    headings = ["text", "context", "steps", "commit", "95 % interval", "draft ms",
                "build ms", "verify ms", "step ms", "plain ms"]  # fmt: skip
    rows = [
        [
            cell["kind"], f"{cell['length']:,}", f"{cell['steps']:,}",
            f"{estimate(cell['commits']).value:.2f}", _bounds(cell["commits"]),
            *(_ms(cell, stage) for stage in ("draft", "build", "verify", "step")),
            _ms(plain[cell["length"]], "step"),
        ]
        for cell in spoken
    ]  # fmt: skip
    heat = settings["temperature"]
    how = f"sampled at temperature {heat:g}" if heat else "greedy"
    budget = f", budget {settings['budget']}" if settings["mode"] != "linear" else ""
    first = (
        f"Predictable text ({'your file' if settings['text'] else 'a passage repeated'}): greedy. "
        f"Hard text ({'your file' if settings['hard_text'] else 'shuffled words'}): {how}. Mode "
        f"{settings['mode']}{budget}, {settings['repeats']} texts each; {_place(result)}. A time "
        "is the mean over texts of their median step, and `plain ms` is plain decoding's."
    )
    said = [filled(one["text"], width) for one in result["conclusions"]]
    return "\n".join([filled(first, width), "", grid(headings, rows), "", *said])


def _bounds(values: Sequence[float]) -> str:
    if len(values) < 2:
        return "one text"
    mean = estimate(values)
    return f"{mean.low:.2f} to {mean.high:.2f}"


def _ms(cell: dict[str, Any], stage: str) -> str:
    return f"{typical(cell['times'][stage]):.2f}"


def _place(result: dict[str, Any]) -> str:
    found = result["environment"]
    threads = f"{found['threads']} thread{'' if found['threads'] == 1 else 's'}"
    return f"pair {result['pair']['name']}, {found['dtype']} on {found['device']}, {threads}"
