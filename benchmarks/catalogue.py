"""How well each rule does: benchmarks/catalogue.md, over samples, near misses and the corpus.

    python benchmarks/catalogue.py [RULE...] [--seeds 3] [--no-write]

Whether a rule fires where it must, what it says on healthy logs, whether it is silent on its near
misses, and the smallest change that it sees: between an operator's healthy and its sick amount, by
bisection, the smallest one that is found on every seed.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import corpus  # noqa: E402
import mutations  # noqa: E402
from corpus import Said  # noqa: E402
from mutations import OPERATORS, Files  # noqa: E402

from specdiag import diagnosis, source  # noqa: E402
from specdiag.rule import Rule  # noqa: E402

WRITTEN = ROOT / "benchmarks" / "catalogue.md"
ROUNDS = 6

HEAD = """# Catalogue

`make catalogue` runs every rule on its samples, its near misses and the corpus (`tests/corpus/`, \
{cases} composed logs over {versions} versions of SGLang, vLLM and llama.cpp), and makes healthy \
logs sick by a stated amount (`tests/mutations.py`).

{fired} of {must} times a rule fires where it must; {alarms} on {healthy} healthy logs; \
{silent} of {near} near misses are silent.

*Fires*: on its sample, on the logs of the corpus that have it, and on {seeds} seeds of its \
operator at full strength. *False alarms*: whatever it says above info on healthy logs. \
*Smallest*: the smallest amount that is found on every one of {seeds} seeds; smaller ones may be \
found, too. Rules on traces have no operator here: \
[detection.md](detection.md) breaks the runtime for them, and `tests/test_replay.py` draws what is \
legitimate.

| rule | fires | false alarms | near misses silent | smallest change that is found |
|---|---|---|---|---|
"""


def make(name: str, amount: float, seed: int) -> Callable[[], Files]:
    one = OPERATORS[name]
    label = f"{name}-{seed}".replace("_", "-")
    return lambda: one.make(mutations.server(one.on, label, seed), amount)


def judge(wanted: list[tuple[str, Callable[[], Files]]]) -> dict[str, Said]:
    with tempfile.TemporaryDirectory() as folder:
        return corpus.judge(Path(folder), wanted) if wanted else {}


def smallest(rules: list[str], seeds: int) -> dict[str, str]:
    """By rule: the smallest amount of its operator that is found."""
    low = {name: OPERATORS[name].healthy for name in rules}
    high = {name: OPERATORS[name].sick for name in rules}

    def finds(amounts: dict[str, float]) -> set[str]:
        wanted = [
            (f"{name}--{seed}", make(name, amount, seed))
            for name, amount in amounts.items()
            for seed in range(seeds)
        ]
        said = judge(wanted)
        return {
            name
            for name in amounts
            if all(name in said[f"{name}--{seed}"].rules() for seed in range(seeds))
        }

    never = set(rules) - finds(high)
    for _ in range(ROUNDS):
        middle = {}
        for name in set(rules) - never:
            half = (low[name] + high[name]) / 2
            if OPERATORS[name].whole:  # towards the sick end, so that it ends there
                half = math.floor(half) if high[name] < low[name] else math.ceil(half)
            if half != high[name] and half != low[name]:
                middle[name] = half
        found = finds(middle) if middle else set()
        for name, half in middle.items():
            (high if name in found else low)[name] = half
        print(f"{len(middle)} amounts tried", file=sys.stderr)
    return {
        name: "not found" if name in never else OPERATORS[name].show(high[name])
        for name in rules
    }  # fmt: skip


def samples() -> tuple[dict[str, list[set[str]]], list[set[str]]]:
    """What is found: by rule on the samples named after it, and on the healthy ones."""
    parsers, rules, _ = diagnosis.definitions([], [])
    named: dict[str, list[set[str]]] = {}
    healthy = []
    for path in sorted((ROOT / "sample_logs").iterdir()):
        found, _ = diagnosis.analyze(source.find([str(path)]), parsers, rules, {})
        if path.name.startswith("healthy"):
            healthy.append({one.rule.name for one in found.findings if one.severity != "info"})
        named.setdefault(path.name.split(".")[0], []).append(
            {one.rule.name for one in found.findings}
        )
    return named, healthy


def near_misses() -> dict[str, list[bool]]:
    """By rule: whether it is silent on each of its near misses, after having looked."""
    parsers, rules, _ = diagnosis.definitions([], [])
    silent: dict[str, list[bool]] = {}
    for path in sorted((ROOT / "tests" / "near_misses").glob("*--*")):
        name = path.name.partition("--")[0]
        found, _ = diagnosis.analyze(source.find([str(path)]), parsers, rules, {})
        decided = {one.result for one in found.results if one.rule == name}
        silent.setdefault(name, []).append(
            name not in {one.rule.name for one in found.findings} and "pass" in decided
        )
    return silent


def table(rules: list[Rule], seeds: int) -> str:
    names = sorted(one.name for one in rules)
    operated = [name for name in names if name in OPERATORS]
    cases = corpus.cases()
    said = judge([(case.id, case.files) for case in cases])
    full = judge(_seeded(operated, seeds, sick=True))
    # What a death ends is an ordinary healthy server.
    alive = [name for name in operated if OPERATORS[name].unit != mutations.DEATH]
    unharmed = judge(_seeded(alive, seeds, sick=False))
    named, healthy = samples()
    for one in [*(said[case.id] for case in cases if case.healthy), *unharmed.values()]:
        healthy.append({found.rule.name for found in one.findings if found.severity != "info"})
    silent, power = near_misses(), smallest(operated, seeds)
    rows: list[str] = []
    fired = must = alarms = near_silent = near = 0
    for name in names:
        fires = [name in found for found in named.get(name, [])]
        fires += [name in said[case.id].rules() for case in cases if name in case.expect]
        fires += [name in full[key].rules() for key in full if key.partition("--")[0] == name]
        false = sum(name in found for found in healthy)
        quiet = silent.get(name, [])
        rows.append(
            f"| {name} | {sum(fires)} of {len(fires)} | {false} of {len(healthy)} | "
            f"{f'{sum(quiet)} of {len(quiet)}' if quiet else '-'} | "
            f"{power.get(name, '[detection.md](detection.md)')} |\n"
        )
        fired, must, alarms = fired + sum(fires), must + len(fires), alarms + false
        near_silent, near = near_silent + sum(quiet), near + len(quiet)
    head = HEAD.format(
        cases=len(cases), versions=len({case.version for case in cases}), fired=fired, must=must,
        alarms=f"{alarms} false alarms" if alarms else "no false alarm", healthy=len(healthy),
        silent=near_silent, near=near, seeds=seeds,
    )  # fmt: skip
    return head + "".join(rows)


def _seeded(names: list[str], seeds: int, sick: bool) -> list[tuple[str, Callable[[], Files]]]:
    """Every operator at one end of its amounts, on every seed."""
    end = "sick" if sick else "healthy"
    return [
        (f"{name}--{seed}", make(name, getattr(OPERATORS[name], end), seed))
        for name in names for seed in range(seeds)
    ]  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("rules", nargs="*", help="only these; nothing is written then")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--no-write", action="store_true")
    given = options.parse_args()
    _, rules, broken = diagnosis.definitions([], [])
    if broken:
        raise broken[0]
    chosen = [one for one in rules if not given.rules or one.name in given.rules]
    text = table(chosen, given.seeds)
    print(text)
    if not given.rules and not given.no_write:
        WRITTEN.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
