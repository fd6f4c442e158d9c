"""What commands that diagnose do alike: settings of options and file, and the diagnosis."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specdiag.commands import outputs
from specdiag.errors import SpecdiagError

if TYPE_CHECKING:
    from specdiag.accepted import Entry
    from specdiag.commands.outputs import Target
    from specdiag.config import Config
    from specdiag.diagnosis import Diagnosis
    from specdiag.provenance import Provenance
    from specdiag.reading import Progress
    from specdiag.rule import Rule
    from specdiag.source import Source
    from specdiag.store import Store

BIG = 50_000_000  # bytes of input that earn a progress bar


@dataclass(frozen=True)
class Diagnosed:
    """What an analysis gave. `origin` is known where a report wants it."""

    result: Diagnosis
    store: Store
    origin: Provenance | None


@dataclass(frozen=True)
class Baselines:
    """What --baseline named: a run or files to compare with, and findings that are accepted."""

    against: str
    accepted: list[Entry]


def settings_of(
    config: Path | None, rules: list[Path] | None, parsers: list[Path] | None,
    param: list[str] | None, require: list[str] | None = None, fail_on: str | None = None,
    select: list[str] | None = None, ignore: list[str] | None = None,
) -> Config:  # fmt: skip
    """The settings of the file, with what options say on top.

    Raises SpecdiagError for what does not exist, and for what contradicts itself.
    """
    from specdiag import config as configuration
    from specdiag import selection
    from specdiag.rule import SEVERITIES

    settings = configuration.load(config)
    settings.rules += rules or []
    settings.parsers += parsers or []
    settings.require += require or []
    settings.fail_on = fail_on or settings.fail_on
    if settings.fail_on not in (None, "never", *SEVERITIES):
        raise SpecdiagError(
            f"{settings.fail_on!r} is no severity",
            "--fail-on",
            f"one of {', '.join(SEVERITIES)}, never",
        )
    for folder in (*settings.rules, *settings.parsers):
        if not folder.exists():
            raise SpecdiagError(
                "no such file or folder", str(folder), "check --rules and --parsers"
            )
    for text in param or []:
        rule, name, value = configuration.parameter(text)
        settings.params.setdefault(rule, {})[name] = value
    file, given = (
        selection.Selection(selection.listed(one), selection.listed(two))
        for one, two in ((settings.select, settings.ignore), (select or [], ignore or []))
    )
    chosen = selection.above(file, given)
    settings.select, settings.ignore = list(chosen.select), list(chosen.ignore)
    return settings


def baselines(given: list[str] | None) -> Baselines:
    """What --baseline names, told apart by what is in the files.

    Raises SpecdiagError for two runs to compare with, and for a file that cannot be read.
    """
    from specdiag import accepted

    files = [one for one in given or [] if accepted.is_file(Path(one))]
    others = [one for one in dict.fromkeys(given or []) if one not in files]
    if len(others) > 1:
        raise SpecdiagError(
            "there can be one run or path to compare with", f"--baseline {others[1]}",
            "files of accepted findings may come beside it: `specdiag baseline write`",
        )  # fmt: skip
    entries: list[Entry] = []
    for one in dict.fromkeys(files):
        entries = accepted.updated(entries, accepted.read(Path(one)))
    return Baselines(others[0] if others else "", entries)


def diagnose(
    paths: list[str], settings: Config, against: str = "", wanted: list[Target] | None = None
) -> Diagnosed:
    """Read the files and apply the rules that are selected; what went wrong goes to stderr.

    Findings that the settings suppress are marked. Raises SpecdiagError when there is nothing to
    read, and for a name in the settings that does not exist.
    """
    from specdiag import diagnosis, provenance, rule, selection, source, suppress

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
    path = against if against and source.exists(against) else ""
    sources = source.find(paths, path)
    origin, wanted = None, wanted or []
    try:
        result, filled = diagnosis.analyze(
            sources, parsers, chosen, params, _progress(sources),
            "" if path else against, [one.temporary for one in wanted if one.temporary],
        )  # fmt: skip
        if any(one.kind in outputs.TRACED for one in wanted):  # every file is read once more
            origin = provenance.collect(filled.readings, settings, sys.argv[1:], against)
    finally:
        source.discard(sources)
    result.broken[:0] = broken
    suppress.apply(result, settings.suppress, rules, date.today())
    for notice in (*result.notices, *result.broken):
        typer.echo(str(notice), err=True)
    return Diagnosed(result, filled, origin)


def _known(require: list[str], rules: list[Rule]) -> None:
    for name in require:
        if name not in {rule.name for rule in rules}:
            raise SpecdiagError(f"no rule is called {name}", "--require", "see `specdiag rules`")


def _progress(sources: list[Source]) -> Progress | None:
    total = sum(source.size() for source in sources)
    if total < BIG or not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(transient=True, console=Console(stderr=True))
    task = bar.add_task("reading", total=total)
    bar.start()

    def advance(done: int) -> None:
        bar.advance(task, done)
        if bar.finished:
            bar.stop()

    return advance
