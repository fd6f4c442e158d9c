"""From paths and settings to a diagnosis: what the command and `specdiag.diagnose` both call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from specdiag import config as configuration
from specdiag import diagnosis, provenance, reading, source
from specdiag.config import Config
from specdiag.diagnosis import Diagnosis
from specdiag.errors import SpecdiagError
from specdiag.provenance import Provenance
from specdiag.rule import SEVERITIES
from specdiag.source import Source

Name = str | os.PathLike[str]
Names = Name | Iterable[Name]
Progress = Callable[[int, int], None]  # bytes read so far, bytes of all files


def diagnose(
    paths: Names, *, params: Mapping[str, Mapping[str, Any]] | None = None, rules: Names = (),
    parsers: Names = (), baseline: Name | None = None, config: Name | None = None,
    progress: Progress | None = None,
) -> Diagnosis:  # fmt: skip
    """What is wrong in logs and traces: the same as `specdiag analyze` says.

    `paths` are files, folders and globs, one or several. `params` sets thresholds, as in
    `{"step_time_superlinear": {"exponent": 1.5}}`; `rules` and `parsers` are folders or files with
    more of them; `baseline` names a run, or files that are read along, that the other runs are
    compared with. `config` is a settings file, instead of specdiag.toml or pyproject.toml in the
    working directory; arguments come on top of it. `progress` is called with the bytes read so
    far and the bytes of all files.

    Raises SpecdiagError for a path, a setting, a rule or a parameter that does not exist, and when
    none of the files could be read. A broken rule file raises nothing: it is in `broken`.
    """
    chosen = settings(
        None if config is None else Path(config), [Path(one) for one in _each(rules)],
        [Path(one) for one in _each(parsers)], params,
    )  # fmt: skip
    names = [os.fspath(one) for one in _each(paths)]
    found, _ = analyze(names, chosen, os.fspath(baseline or ""), progress)
    return found


def settings(
    file: Path | None = None, rules: Sequence[Path] = (), parsers: Sequence[Path] = (),
    params: Mapping[str, Mapping[str, Any]] | None = None, require: Sequence[str] = (),
    fail_on: str | None = None,
) -> Config:  # fmt: skip
    """The settings of a file, or of the one in this folder, with what the user said on top.

    Raises SpecdiagError for a file that is broken, an unknown severity, and missing folders.
    """
    chosen = configuration.load(file)
    chosen.rules += rules
    chosen.parsers += parsers
    chosen.require += require
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
    for rule, values in (params or {}).items():
        chosen.params.setdefault(rule, {}).update(values)
    return chosen


def analyze(
    paths: list[str], settings: Config, baseline: str = "", progress: Progress | None = None,
    saved: Sequence[Path] = (), command: Sequence[str] | None = None,
) -> tuple[Diagnosis, Provenance | None]:  # fmt: skip
    """Find the files, read them, and run the rules of the settings.

    `baseline` is the name of a run or a path; `saved` are the databases that the store will be
    copied to. With the arguments of a `command`, the result says where it comes from, for which
    every file is read once more.
    """
    parsers, rules, broken = diagnosis.definitions(settings.parsers, settings.rules)
    path = baseline if baseline and source.exists(baseline) else ""
    sources = source.find(paths, path)
    origin = None
    try:
        found, filled = diagnosis.analyze(
            sources, parsers, rules, settings.params, _counter(sources, progress),
            "" if path else baseline, saved,
        )  # fmt: skip
        if command is not None:
            origin = provenance.collect(filled.readings, settings, command, baseline)
    finally:
        source.discard(sources)  # every line that is quoted has been read by now
    found.broken[:0] = broken
    found.tables = filled
    found.fail_on = settings.fail_on or found.fail_on
    found.require = tuple(settings.require)
    return found, origin


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
