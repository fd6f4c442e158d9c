"""`specdiag baseline`: findings that are accepted, so that a check fails for new ones only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag.commands import diagnosing
from specdiag.commands.options import (
    Against,
    ConfigFile,
    Ignore,
    Param,
    Parsers,
    Paths,
    Rules,
    Select,
)
from specdiag.errors import SpecdiagError

if TYPE_CHECKING:
    from specdiag.diagnosis import Diagnosis
    from specdiag.finding import Finding

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None,
    help="Keep a file of accepted findings, for `specdiag check --baseline FILE`.\n\n"
    "Example: specdiag baseline write accepted.json sample_logs/",
)  # fmt: skip

File = Annotated[Path, typer.Argument(metavar="FILE", help="The file of accepted findings.")]
Reason = Annotated[str, typer.Option(help="Why the findings are accepted.")]
Date = Annotated[
    str | None, typer.Option(metavar="YYYY-MM-DD", help="The day it is, instead of today.")
]


@app.command()
def write(
    file: File, paths: Paths, reason: Reason = "found when the file was written",
    date: Date = None, select: Select = None, ignore: Ignore = None, param: Param = None,
    rules: Rules = None, parsers: Parsers = None, config: ConfigFile = None,
    baseline: Against = None,
) -> None:  # fmt: skip
    """Accept all findings that there are now, in a new file.

    Example: specdiag baseline write accepted.json sample_logs/
    """
    from specdiag import accepted
    from specdiag.report import files, text

    if file.exists() or file.is_symlink():
        raise SpecdiagError(
            "the file is there already, with its dates and reasons", str(file),
            "add to it with `specdiag baseline update`, or remove it first",
        )  # fmt: skip
    day = _day(date)
    result = _diagnose(paths, select, ignore, param, rules, parsers, config, baseline)
    found = accepted.entries(_findings(result), day, _given(reason))
    files.write(file, accepted.dump(found))
    typer.echo(f"{text.count(sum(one.count for one in found), 'finding')} accepted in {file}")


@app.command()
def update(
    file: File, paths: Paths, reason: Reason = "found when the file was updated",
    date: Date = None, select: Select = None, ignore: Ignore = None, param: Param = None,
    rules: Rules = None, parsers: Parsers = None, config: ConfigFile = None,
    baseline: Against = None,
) -> None:  # fmt: skip
    """Accept the findings that are new, too; those in the file keep date and reason.

    Example: specdiag baseline update accepted.json sample_logs/
    """
    from specdiag import accepted
    from specdiag.report import files, text

    old, day = accepted.read(file), _day(date)
    result = _diagnose(paths, select, ignore, param, rules, parsers, config, baseline)
    found = accepted.updated(old, accepted.entries(_findings(result), day, _given(reason)))
    files.write(file, accepted.dump(found))
    before = {one.fingerprint: one.count for one in old}
    for one in found:
        if more := one.count - before.get(one.fingerprint, 0):
            typer.echo(f"accepted {_times(more)}{text.visible(one.told, 400)}")
    added = sum(one.count for one in found) - sum(before.values())
    typer.echo(f"{text.count(added, 'more finding')} accepted in {file}")


@app.command()
def prune(
    file: File, paths: Paths, select: Select = None, ignore: Ignore = None, param: Param = None,
    rules: Rules = None, parsers: Parsers = None, config: ConfigFile = None,
    baseline: Against = None,
) -> None:  # fmt: skip
    """Drop what is not found any more, and say what.

    What could not be looked for is kept: of rules that did not run, or are undecided on the run.

    Example: specdiag baseline prune accepted.json sample_logs/
    """
    from specdiag import accepted
    from specdiag.report import files, text

    old = accepted.read(file)
    result = _diagnose(paths, select, ignore, param, rules, parsers, config, baseline)
    ran = {one.rule for one in result.results}
    unknown = {
        (one.rule, accepted.run_key(one.run))
        for one in result.results if one.result == "undecided"
    }  # fmt: skip
    looked = [one for one in old if one.rule in ran and (one.rule, one.run) not in unknown]
    rest = [one for one in old if one not in looked]
    kept, dropped = accepted.pruned(looked, accepted.entries(_findings(result), "", ""))
    files.write(file, accepted.dump([*kept, *rest]))
    for one in dropped:
        typer.echo(f"dropped {_times(one.count)}{text.visible(one.told, 400)}")
    gone = sum(one.count for one in dropped)
    still = text.count(sum(one.count for one in (*kept, *rest)), "finding")
    typer.echo(f"{text.count(gone, 'finding')} dropped from {file}; {still} accepted in it")


def _diagnose(
    paths: list[str], select: list[str] | None, ignore: list[str] | None,
    param: list[str] | None, rules: list[Path] | None, parsers: list[Path] | None,
    config: Path | None, baseline: str | None,
) -> Diagnosis:  # fmt: skip
    settings = diagnosing.settings_of(
        config, rules, parsers, param, select=select, ignore=ignore
    )  # fmt: skip
    settings.require = []  # that is for a check
    result, _ = diagnosing.diagnose(paths, settings, [baseline] if baseline else None)
    if result.broken:
        raise SpecdiagError(
            "nothing was written: not every rule and parser could be used",
            help="mend what is named above",
        )
    return result


def _findings(result: Diagnosis) -> list[Finding]:
    """Those of logs that nothing in the settings suppresses."""
    from specdiag import suppress

    return [
        one for one in result.findings if one.accepted is None and one.rule not in suppress.RULES
    ]  # fmt: skip


def _given(reason: str) -> str:
    if not reason.strip():
        raise SpecdiagError("the reason is empty", "--reason", "say why the findings are accepted")
    return reason.strip()


def _day(given: str | None) -> str:
    from datetime import date

    if given is None:
        return date.today().isoformat()
    try:
        return date.fromisoformat(given).isoformat()
    except ValueError:
        raise SpecdiagError(
            f"{given!r} is no date", "--date", "write it as 2026-12-31"
        ) from None  # fmt: skip


def _times(count: int) -> str:
    return "" if count == 1 else f"{count} times "
