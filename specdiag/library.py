"""From paths and settings to a diagnosis: what the command and `specdiag.diagnose` both call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from specdiag import (
    accepted,
    assertions,
    diagnosis,
    means,
    presets,
    provenance,
    reading,
    rule,
    selection,
    source,
    suppress,
)  # fmt: skip
from specdiag import config as configuration
from specdiag.accepted import Entry
from specdiag.cache import Cache
from specdiag.config import Config
from specdiag.diagnosis import Diagnosis
from specdiag.errors import SpecdiagError
from specdiag.means import Means
from specdiag.provenance import Provenance
from specdiag.rule import SEVERITIES, Rule
from specdiag.source import Source
from specdiag.timings import OFF, Timings

Name = str | os.PathLike[str]
Names = Name | Iterable[Name]
Progress = Callable[[int, int], None]  # bytes read so far, bytes of all files


def diagnose(
    paths: Names, *, params: Mapping[str, Mapping[str, Any]] | None = None, rules: Names = (),
    parsers: Names = (), select: Iterable[str] = (), ignore: Iterable[str] = (),
    baseline: Names = (), config: Name | None = None, progress: Progress | None = None,
    threads: int | None = None, memory: str = "", cache: bool | None = None,
) -> Diagnosis:  # fmt: skip
    """What is wrong in logs and traces: the same as `specdiag check` says.

    `paths` are files, folders and globs, one or several. `params` sets thresholds, as in
    `{"step_time_superlinear": {"exponent": 1.5}}`; `rules` and `parsers` are folders or files with
    more of them; `select` and `ignore` name rules and families. `baseline` names a run, or files
    that are read along, that the other runs are compared with, and files of accepted findings.
    `config` is a settings file, instead of specdiag.toml or pyproject.toml in the working
    directory; arguments come on top of it. `progress` is called with the bytes read so far and the
    bytes of all files. `threads` and `memory` (as "1GB") bound what is used; the result depends on
    neither. `cache=False` parses anew what was parsed before, and keeps nothing.

    Raises SpecdiagError for a path, a setting, a rule or a parameter that does not exist, and when
    none of the files could be read. A broken rule file raises nothing: it is in `broken`.
    """
    chosen = settings(
        None if config is None else Path(config), [Path(one) for one in _each(rules)],
        [Path(one) for one in _each(parsers)], params, select=list(select), ignore=list(ignore),
        threads=threads, memory=memory, cache=cache,
    )  # fmt: skip
    found, _ = analyze(
        [os.fspath(one) for one in _each(paths)], chosen,
        [os.fspath(one) for one in _each(baseline)], progress,
    )  # fmt: skip
    return found


def settings(
    file: Path | None = None, rules: Sequence[Path] = (), parsers: Sequence[Path] = (),
    params: Mapping[str, Mapping[str, Any]] | None = None, require: Sequence[str] = (),
    fail_on: str | None = None, select: Sequence[str] = (), ignore: Sequence[str] = (),
    threads: int | None = None, memory: str = "", cache: bool | None = None,
) -> Config:  # fmt: skip
    """The settings of a file, or of the one in this folder, with what the user said on top.

    Raises SpecdiagError for what is broken, does not exist, or contradicts itself.
    """
    chosen = configuration.load(file)
    chosen.rules += rules
    chosen.parsers += parsers
    chosen.require += require
    chosen.threads = means.threads(threads, "--threads") or chosen.threads
    chosen.memory = means.memory(memory, "--memory") or chosen.memory
    chosen.cache = chosen.cache if cache is None else cache
    chosen.fail_on = fail_on or chosen.fail_on
    if chosen.fail_on not in (None, "never", *SEVERITIES):
        raise SpecdiagError(
            f"{chosen.fail_on!r} is no severity",
            "--fail-on" if fail_on else "fail_on",
            f"one of {', '.join(SEVERITIES)}, never",
        )
    for folder in (*chosen.rules, *chosen.parsers):
        if not folder.exists():
            raise SpecdiagError(
                "no such file or folder", str(folder), "check --rules and --parsers"
            )
    for name, values in (params or {}).items():
        chosen.params.setdefault(name, {}).update(values)
    in_file, given = (
        selection.Selection(selection.listed(one), selection.listed(two))
        for one, two in ((chosen.select, chosen.ignore), (list(select), list(ignore)))
    )
    both = selection.above(in_file, given)
    chosen.select, chosen.ignore = list(both.select), list(both.ignore)
    return chosen


def analyze(
    paths: list[str], settings: Config, baseline: Sequence[str] = (),
    progress: Progress | None = None, saved: Sequence[Path] = (),
    command: Sequence[str] | None = None, timings: Timings = OFF,
) -> tuple[Diagnosis, Provenance | None]:  # fmt: skip
    """Find the files, read them, and run the rules that are selected.

    `baseline` are names as `_baselines` tells them apart; `saved` are the databases that the store
    will be copied to. With the arguments of a `command`, the result says where it comes from, and
    has a hash of every file. Findings that are accepted or suppressed are marked.
    """
    known = _baselines(baseline)
    asserted = assertions.parse(settings.asserts, str(settings.file))
    preset = presets.find(settings.preset) if settings.preset else None
    with timings.part("definitions"):
        parsers, rules, broken = diagnosis.definitions(settings.parsers, settings.rules)
    if not broken:  # else what seems unknown may be what is broken, which says more
        _known(settings.require, rules)
        suppress.check(settings.suppress, rules)
    chosen = selection.choose(
        rules, selection.Selection(tuple(settings.select), tuple(settings.ignore)), settings.require
    )
    rule.parameters(rules, settings.params)  # of those that do not run, too: a mistake is one
    names = {one.name for one in chosen}
    params = {name: values for name, values in settings.params.items() if name in names}
    path = known.against if known.against and source.exists(known.against) else ""
    sources = source.find(paths, path)
    for one in sources:
        one.hashed = command is not None
    origin = None
    try:
        found, filled = diagnosis.analyze(
            sources, parsers, chosen, params, _counter(sources, progress),
            "" if path else known.against, saved,
            Means(settings.threads, settings.memory, Cache() if settings.cache else None, timings),
        )  # fmt: skip
        found.assertions = assertions.judge(asserted, filled)
        if preset:
            found.assertions += presets.judge(preset, found, filled)
        if command is not None:
            with timings.part("provenance"):
                origin = provenance.collect(filled.readings, settings, command, known.against)
    finally:
        source.discard(sources)  # every line that is quoted has been read by now
    found.broken[:0] = broken
    found.tables = filled
    found.fail_on = settings.fail_on or (preset.fail_on if preset else found.fail_on)
    found.require = tuple(settings.require)
    suppress.apply(found, settings.suppress, rules, date.today())
    accepted.mark(found.findings, known.accepted)
    return found, origin


@dataclass(frozen=True)
class _Baselines:
    """A run or path to compare with, and findings that are accepted."""

    against: str
    accepted: list[Entry]


def _baselines(given: Sequence[str]) -> _Baselines:
    """What was named, told apart by what is in the files.

    Raises SpecdiagError for two runs to compare with, and for a file that cannot be read.
    """
    files = [one for one in given if accepted.is_file(Path(one))]
    others = [one for one in dict.fromkeys(given) if one and one not in files]
    if len(others) > 1:
        raise SpecdiagError(
            "there can be one run or path to compare with", f"--baseline {others[1]}",
            "files of accepted findings may come beside it: `specdiag baseline write`",
        )  # fmt: skip
    entries: list[Entry] = []
    for one in dict.fromkeys(files):
        entries = accepted.updated(entries, accepted.read(Path(one)))
    return _Baselines(others[0] if others else "", entries)


def _known(require: list[str], rules: list[Rule]) -> None:
    for name in require:
        if name not in {rule.name for rule in rules}:
            raise SpecdiagError(f"no rule is called {name}", "--require", "see `specdiag rules`")


def _each(names: Names) -> list[Name]:
    return [names] if isinstance(names, (str, os.PathLike)) else list(names)


def _counter(sources: list[Source], progress: Progress | None) -> reading.Progress | None:
    if progress is None:
        return None
    total = sum(one.size() for one in sources)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done = min(done + more, total)  # a packed file has more bytes than its size
        progress(done, total)

    return count
