"""What is compared: runs of files, folders or saved results, by the words of the user."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from specdiag import diagnosis, saved, source
from specdiag.errors import NOTHING_READ, Notice, SpecdiagError
from specdiag.opening import DATABASE
from specdiag.parser import Parser
from specdiag.store import Store

HEAD = 1 << 16


@dataclass(frozen=True)
class Given:
    """A path that was read, with the runs in it that did some work."""

    path: str
    store: Store
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Arm:
    """One run that is compared."""

    label: str
    path: str
    run: str
    store: Store


@contextmanager
def read(paths: Sequence[str], parsers: list[Parser]) -> Iterator[list[Given]]:
    """Every path as a store of its own; the same path twice is read once.

    Raises SpecdiagError for a saved result in JSON, which has no samples, and where nothing in a
    path can be compared.
    """
    found: dict[str, Given] = {}
    files: list[source.Source] = []
    try:
        for path in paths:
            if path not in found:
                found[path] = _read(path, parsers, files)
        yield [found[path] for path in paths]
    finally:
        source.discard(files)


def _read(path: str, parsers: list[Parser], files: list[source.Source]) -> Given:
    kind = _saved(path)
    if kind == "json":
        raise SpecdiagError(
            "a result saved as JSON has no samples to compare", path,
            "compare the logs, or save with `--output duckdb=FILE`; `specdiag trend` reads JSON",
        )  # fmt: skip
    if kind == "duckdb":
        store = saved.load(Path(path)).store
        assert store is not None
    else:
        mine = source.find([path])
        files += mine
        store = diagnosis.fill(mine, parsers)
    runs = tuple(
        row["run"] for row in store.rows("SELECT run FROM run WHERE served ORDER BY run")
    )  # fmt: skip
    if not runs:
        raise SpecdiagError(
            "there is nothing to compare: no run that served, stepped or was measured", path,
            "give logs with decode lines, traces, request records or benchmark results",
            NOTHING_READ,
        )  # fmt: skip
    return Given(path, store, runs)


def _saved(path: str) -> str:
    """Which kind of saved result a path is, if any."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
    except OSError:
        return ""
    if head[8:12] == DATABASE:
        return "duckdb"
    ours = head.lstrip()[:1] == b"{" and b'"specdiag"' in head and b'"schema"' in head
    return "json" if ours and b'"runs"' in head else ""


def notices(given: Sequence[Given]) -> list[Notice]:
    """What could not be read, each once."""
    return list(dict.fromkeys(one for each in given for one in each.store.notices))


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Paths, and the other words: names of runs."""
    paths = [word for word in words if word == "-" or source.exists(word)]
    return paths, [word for word in words if word not in paths]


def choose(
    given: Sequence[Given], names: Sequence[str], run_a: str | None, run_b: str | None
) -> list[list[Arm]]:
    """The arms of every comparison: by the names of runs, one a path, or pairs of equal names.

    Raises SpecdiagError for a run that is not there, and where it is not clear what to compare.
    """
    if names:
        if run_a or run_b:
            raise SpecdiagError("runs are named twice", "--run-a, --run-b", "name them once")
        arms = [_named(given, name) for name in names]
        if len(arms) == 1:
            raise SpecdiagError(
                "one run has nothing to be compared with", names[0], _known(given)
            )  # fmt: skip
        return [_labelled(arms)]
    if len(given) == 1:
        if run_a or run_b:
            picked = [(given[0], _pick(given[0], name)) for name in (run_a, run_b) if name]
            rest = [(given[0], run) for run in given[0].runs if run not in (run_a, run_b)]
            arms = picked if len(picked) == 2 else _around(picked[0], rest, bool(run_a))
        else:
            arms = [(given[0], run) for run in given[0].runs]
        if len(arms) < 2:
            raise SpecdiagError(
                "one run has nothing to be compared with", given[0].path,
                "give a second path, or logs of more than one run",
            )  # fmt: skip
        return [_labelled(arms)]
    wanted = [run_a, run_b, *([None] * (len(given) - 2))]
    if len(given) == 2 and all(len(one.runs) > 1 for one in given) and not (run_a or run_b):
        common = [run for run in given[0].runs if run in given[1].runs]
        if common:
            return [_labelled([(one, run) for one in given]) for run in common]
    arms = [_only(one, name, n) for n, (one, name) in enumerate(zip(given, wanted, strict=True))]
    return [_labelled(arms)]


def _around(
    one: tuple[Given, str], rest: list[tuple[Given, str]], first: bool
) -> list[tuple[Given, str]]:
    return [one, *rest] if first else [*rest[:1], one]


def _only(given: Given, name: str | None, place: int) -> tuple[Given, str]:
    if name is not None:
        return given, _pick(given, name)
    if len(given.runs) == 1:
        return given, given.runs[0]
    option = "--run-a or --run-b" if place > 1 else ("--run-a", "--run-b")[place]
    raise SpecdiagError(
        f"there are {len(given.runs)} runs, and none has its like on the other side", given.path,
        f"name one with {option}: {_few(given.runs)}",
    )  # fmt: skip


def _pick(given: Given, name: str) -> str:
    if name in given.runs:
        return name
    raise _unknown(name, given.runs, given.path)


def _named(given: Sequence[Given], name: str) -> tuple[Given, str]:
    for one in given:
        if name in one.runs:
            return one, name
    known = [run for one in given for run in one.runs]
    raise _unknown(name, known, ", ".join(one.path for one in given))


def _unknown(name: str, known: Sequence[str], where: str) -> SpecdiagError:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    nearest = f"did you mean {near[0]}? " if near else ""
    return SpecdiagError(f"no path and no run is called {name}", where, f"{nearest}{_few(known)}")


def _known(given: Sequence[Given]) -> str:
    return _few([run for one in given for run in one.runs])


def _few(runs: Sequence[str]) -> str:
    more = f" and {len(runs) - 10} more" if len(runs) > 10 else ""
    return f"runs: {', '.join(runs[:10])}{more}"


def _labelled(arms: Sequence[tuple[Given, str]]) -> list[Arm]:
    """Arms under the names of their runs, with their paths where names are the same."""
    often = Counter(run for _, run in arms)
    labels = [run if often[run] == 1 else f"{one.path}:{run}" for one, run in arms]
    found = []
    seen: Counter[str] = Counter()
    for (one, run), label in zip(arms, labels, strict=True):
        seen[label] += 1
        name = label if seen[label] == 1 else f"{label} ({seen[label]})"
        found.append(Arm(name, one.path, run, one.store))
    return found
