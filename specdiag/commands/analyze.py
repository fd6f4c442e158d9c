"""`specdiag analyze` and `specdiag check`: what is wrong, for people and for CI."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag.commands import ci, diagnosing, outputs, tokens
from specdiag.commands.options import (
    Baseline,
    ConfigFile,
    Ignore,
    MaybeHtml,
    Memory,
    NoCache,
    Param,
    Parsers,
    Paths,
    Quiet,
    Require,
    Rules,
    Select,
    ShowTimings,
    Threads,
    Tokenizer,
)
from specdiag.errors import WRONG_USE, SpecdiagError

if TYPE_CHECKING:
    from specdiag.commands.outputs import Target
    from specdiag.config import Config
    from specdiag.diagnosis import Diagnosis

FINDINGS = 1
REPORT = Path("specdiag-report.html")

Html = Annotated[Path, typer.Option(help="Where to write the HTML report.")]
NoHtml = Annotated[bool, typer.Option("--no-html", help="Write no HTML report.")]
Output = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND=PATH",
        help="Also write html, json, markdown, junit, sarif, github, gitlab, openmetrics, duckdb; "
        "PATH - is stdout.",
    ),
]
FailOn = Annotated[
    str | None,
    typer.Option(help="Exit with 1 for findings of this severity or worse (or: never)."),
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Never exit with 1 for findings.")]
NoCi = Annotated[
    bool, typer.Option("--no-ci", help="Say nothing more on GitHub or GitLab; or SPECDIAG_NO_CI=1.")
]
PresetName = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="What to demand: ci, strict or smoke."),
]


def analyze(
    paths: Paths, html: Html = REPORT, no_html: NoHtml = False, output: Output = None,
    fail_on: FailOn = None, require: Require = None, select: Select = None, ignore: Ignore = None,
    param: Param = None, rules: Rules = None, parsers: Parsers = None, config: ConfigFile = None,
    baseline: Baseline = None, tokenizer: Tokenizer = None, threads: Threads = None,
    memory: Memory = "", no_cache: NoCache = False, timings: ShowTimings = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Say what is wrong in logs and traces, with the lines that prove it.

    Prints the verdict and the findings, and writes specdiag-report.html.

    Example: specdiag analyze sample_logs/
    """
    settings = diagnosing.settings_of(
        config, rules, parsers, param, require, fail_on, select, ignore, threads, memory, no_cache
    )
    wanted = _wanted(output, None if no_html else html)
    raise typer.Exit(
        _run(paths, wanted, settings, baseline, tokenizer, timed=timings, quiet=quiet)
    )  # fmt: skip


def check(
    paths: Paths, html: MaybeHtml = None, output: Output = None, fail_on: FailOn = None,
    exit_zero: ExitZero = False, require: Require = None, select: Select = None,
    ignore: Ignore = None, param: Param = None, rules: Rules = None, parsers: Parsers = None,
    config: ConfigFile = None, baseline: Baseline = None, tokenizer: Tokenizer = None,
    preset: PresetName = None, no_ci: NoCi = False, threads: Threads = None, memory: Memory = "",
    no_cache: NoCache = False, timings: ShowTimings = False, quiet: Quiet = False,
) -> None:  # fmt: skip
    """The same for CI: exits with 1 for a high or critical finding, or an assertion that fails.

    Findings that are accepted do not count: see `specdiag baseline`. On GitHub Actions it also
    annotates and writes the step's summary.

    Example: specdiag check sample_logs/healthy*
    """
    settings = diagnosing.settings_of(
        config, rules, parsers, param, require, fail_on, select, ignore, threads, memory, no_cache
    )
    settings.preset = preset or settings.preset
    wanted = _wanted(output, html)
    code = _run(paths, wanted, settings, baseline, tokenizer, True, not no_ci, timings, quiet)
    raise typer.Exit(0 if exit_zero and code == FINDINGS else code)


def _wanted(output: list[str] | None, html: Path | None) -> list[Target]:
    from specdiag import report

    return outputs.targets(output, html, report.KINDS)


def _run(
    paths: list[str], wanted: list[Target], settings: Config, baseline: list[str] | None,
    tokenizer: Path | None, held: bool = False, in_ci: bool = False, timed: bool = False,
    quiet: bool = False,
) -> int:  # fmt: skip
    """The exit code. `held`: to what `check` demands, assertions and presets included."""
    from specdiag import outcome, progress
    from specdiag.timings import Timings

    line = progress.on_terminal(quiet)
    timings = Timings(timed, line.tell)
    text_of = tokens.read(tokenizer)
    result, origin = diagnosing.diagnose(paths, settings, baseline, wanted, line, timings)
    with ci.told(result, wanted) if in_ci else nullcontext():
        outputs.write(wanted, result, result.tables, origin, text_of, line, timings)
    if timed:
        typer.echo(str(timings), err=True)
    fail_on = result.fail_on if held else settings.fail_on or "never"
    code = outcome.exit_code(result, fail_on, held)
    if code == WRONG_USE and not result.broken:
        _raise_unmatched(result)
    return code


def _raise_unmatched(result: Diagnosis) -> None:
    """Raises SpecdiagError: what checks nothing must not be green."""
    for one in result.assertions:
        if one.result == "unmatched":
            raise SpecdiagError(
                f"{one.name}: {one.message}", one.where, "`specdiag facts PATH` lists what there is"
            )
