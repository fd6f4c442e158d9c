"""Which rows belong to which run.

A run is one life of a server, one run of the bundled runtime, or one benchmark. Files are cut
where a server starts again; arms inside a trace are runs of their own; ranks and rotated parts of
one server are one run; benchmark output and traces join the run of the server beside them. A file
that several servers write into counts as one file each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import PurePath

from specdiag.rotation import ROTATED

RANK = re.compile(r"(?i)[-_.]?(rank|tp|dp|pp|ep|node|shard)[-_]?[0-9]+")
SERVERS = ("decode", "prefill", "event", "problem")


@lru_cache(maxsize=100_000)
def in_order(name: str) -> tuple[tuple[tuple[int, str], ...], str]:
    """What names of runs are sorted by: numbers in them count as numbers, #2 before #10."""
    parts = re.split("([0-9]+)", name)  # every other one is a number, of any length
    parts[1::2] = [part.lstrip("0") for part in parts[1::2]]
    return tuple((len(part) * (nth % 2), part) for nth, part in enumerate(parts)), name


@dataclass(frozen=True)
class Part:
    """The rows of a file between two starts, or of one arm of a trace."""

    source: int
    life: int  # 0 before the first start in the file
    arm: str
    server: bool  # a server wrote it
    empty: bool  # arguments only: printed twice, or a start of which nothing else is left
    algorithm: str | None
    model: str | None  # last part of its name; of a trace the target's
    started: datetime | None
    ended: datetime | None
    layout: list[str | None] | None = None  # sizes in parallel, as the arguments have them


@dataclass(frozen=True)
class File:
    """What naming needs to know of an input file."""

    source: int
    path: str
    format: str
    given: bool  # on the command line, not found in a folder
    baseline: bool = False  # what the others are compared with
    writer: str = ""  # of several into the file

    @property
    def folder(self) -> str:
        return str(PurePath(self.path).parent)

    @property
    def series(self) -> str:
        """The name without rank and rotation: the same for all parts of one server's log."""
        name = ROTATED.sub("", PurePath(self.path).name)
        one = RANK.sub("", name)
        if one.startswith("."):  # nothing else is in the name: tp8.log beside dp8.log
            one = RANK.sub(r"\1", name)
        return one + self._behind

    @property
    def stem(self) -> str:
        name = self.series.removesuffix(self._behind)
        ends = r"\.(?:log|txt|jsonl?|ndjson|out|err|csv|parquet|prom|pt|pkl)$"
        return re.sub(ends, "", name) + self._behind

    @property
    def _behind(self) -> str:
        return f":{self.writer}" if self.writer else ""


def assign(files: list[File], parts: list[Part]) -> list[tuple[Part, str, int]]:
    """Every part with the name of its run and its place among the run's parts."""
    names: list[tuple[Part, str]] = []
    taken: set[str] = set()
    for title, group in _groups(files):
        base = title
        if base in taken:  # the same name in two folders
            base = str(PurePath(group[0].folder, title))
        taken.add(base)
        sources = {file.source: file for file in group}
        mine = [part for part in parts if part.source in sources]
        names += _name(base, sources, mine)
    order = sorted(
        names, key=lambda n: (n[1], n[0].started or datetime.min, n[0].source, n[0].life)
    )
    place: dict[str, int] = defaultdict(int)
    found = []
    for part, run in order:
        found.append((part, run, place[run]))
        place[run] += 1
    return found


def _groups(files: list[File]) -> list[tuple[str, list[File]]]:
    """Files that may be one run: those of a folder, or of one stem where a format comes twice."""
    folders: dict[tuple[str, bool], list[File]] = defaultdict(list)
    for file in files:
        folder = file.folder if file.path != "<stdin>" else "<stdin>"
        folders[folder, file.baseline].append(file)
    groups: list[tuple[str, list[File]]] = []
    for (folder, _), members in folders.items():
        series: dict[str, set[str]] = defaultdict(set)
        for file in members:
            series[file.format].add(file.series)
        servers = sum(format.endswith("_server") for format in series)
        if all(len(names) == 1 for names in series.values()) and servers <= 1:
            found_by_folder = not any(file.given for file in members)
            title = PurePath(folder).name if found_by_folder else ""
            groups.append((title or _main(members).stem, members))
            continue
        stems: dict[str, list[File]] = {}
        for file in sorted(members, key=lambda f: (len(f.stem), f.path)):
            owner = next(
                (s for s in stems if file.stem == s or file.stem.startswith(s + ".")), file.stem
            )
            stems.setdefault(owner, []).append(file)
        groups += stems.items()
    return groups


def _main(files: list[File]) -> File:
    return next((file for file in files if file.format.endswith("_server")), files[0])


def _name(base: str, files: dict[int, File], parts: list[Part]) -> list[tuple[Part, str]]:
    servers = [part for part in parts if part.server]
    named: list[tuple[Part, str]] = []
    lives = _lives(servers)
    for number, life in enumerate(lives, start=1):
        run = base if number == 1 else f"{base}#{number}"
        named += [(part, run) for part in life]
    others = [part for part in parts if not part.server]
    asked = {part.algorithm for part in servers if part.algorithm}
    models = {part.model for part in servers if part.model}
    per_source: dict[int, list[Part]] = defaultdict(list)
    for part in others:
        per_source[part.source].append(part)
    free = not lives  # the base name, where no server has it
    logs = {files[part.source].path for part in servers}
    for source, mine in per_source.items():
        mine = [part for part in mine if not part.empty] or mine
        contradicts = any(p.algorithm and asked and p.algorithm not in asked for p in mine)
        contradicts |= any(p.model and models and p.model not in models for p in mine)
        if len(mine) == 1 and len(lives) <= 1 and not contradicts:
            named.append((mine[0], base))
            continue
        if len(mine) == len(lives) and files[source].path in logs:  # each below its own log
            names = [base, *(f"{base}#{number}" for number in range(2, len(lives) + 1))]
            named += zip(mine, names, strict=True)
            continue
        stem = base if free else files[source].stem
        free = False
        arms = len({part.arm for part in mine}) > 1
        for number, part in enumerate(mine, start=1):
            run = f"{stem}:{part.arm}" if arms else stem
            if not arms and (number > 1 or any(run == taken for _, taken in named)):
                run = f"{stem}#{number}"
            named.append((part, run))
    return named


def _lives(parts: list[Part]) -> list[list[Part]]:
    """Server parts in order of time, grouped into lives."""
    ordered = sorted(parts, key=lambda p: (p.started or datetime.min, p.source, p.life))
    lives: list[list[Part]] = []
    waiting: list[Part] = []  # what was printed before the banner belongs to the start after it
    for part in ordered:
        current = lives[-1] if lives else None
        if part.empty:
            waiting.append(part)
        elif current and (part.life == 0 or _beside(part, current)):
            current += [*waiting, part]
            waiting = []
        else:
            lives.append([*waiting, part])
            waiting = []
    if waiting:
        if lives:
            lives[-1] += waiting
        else:
            lives.append(waiting)
    return lives


def _beside(part: Part, life: list[Part]) -> bool:
    """Another rank's or node's log of the same life: another file, at the same time."""
    if any(part.source == other.source for other in life):
        return False
    for other in life:
        sizes = zip(part.layout or [], other.layout or [], strict=False)
        if any(mine and its and mine != its for mine, its in sizes):
            return False
    ends = [other.ended for other in life if other.ended]
    starts = [other.started for other in life if other.started]
    if not (ends and starts and part.started):
        return False
    return min(starts) <= part.started <= max(ends) and part.algorithm == life[0].algorithm
