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
    Param,
    Parsers,
    Paths,
    Require,
    Rules,
    Select,
    Tokenizer,
)
from specdiag.errors import NOTHING_READ, WRONG_USE

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


def analyze(
    paths: Paths, html: Html = REPORT, no_html: NoHtml = False, output: Output = None,
    fail_on: FailOn = None, require: Require = None, select: Select = None, ignore: Ignore = None,
    param: Param = None, rules: Rules = None, parsers: Parsers = None, config: ConfigFile = None,
    baseline: Baseline = None, tokenizer: Tokenizer = None,
) -> None:  # fmt: skip
    """Say what is wrong in logs and traces, with the lines that prove it.

    Prints the verdict and the findings, and writes specdiag-report.html.

    Example: specdiag analyze sample_logs/
    """
    settings = diagnosing.settings_of(
        config, rules, parsers, param, require, fail_on, select, ignore
    )
    wanted = _wanted(output, None if no_html else html)
    raise typer.Exit(_run(paths, wanted, settings, baseline, tokenizer))


def check(
    paths: Paths, html: MaybeHtml = None, output: Output = None, fail_on: FailOn = None,
    exit_zero: ExitZero = False, require: Require = None, select: Select = None,
    ignore: Ignore = None, param: Param = None, rules: Rules = None, parsers: Parsers = None,
    config: ConfigFile = None, baseline: Baseline = None, tokenizer: Tokenizer = None,
    no_ci: NoCi = False,
) -> None:  # fmt: skip
    """The same for CI: exits with 1 when a finding is high or critical.

    On GitHub Actions it also annotates and writes the step's summary.
    Findings that are accepted do not count: see `specdiag baseline`.

    Example: specdiag check sample_logs/healthy*
    """
    settings = diagnosing.settings_of(
        config, rules, parsers, param, require, fail_on, select, ignore
    )
    settings.fail_on = settings.fail_on or "high"
    wanted = _wanted(output, html)
    code = _run(paths, wanted, settings, baseline, tokenizer, in_ci=not no_ci)
    raise typer.Exit(0 if exit_zero and code == FINDINGS else code)


def _wanted(output: list[str] | None, html: Path | None) -> list[Target]:
    from specdiag import report

    return outputs.targets(output, html, report.KINDS)


def _run(
    paths: list[str], wanted: list[Target], settings: Config, baseline: list[str] | None,
    tokenizer: Path | None, in_ci: bool = False,
) -> int:  # fmt: skip
    from specdiag import accepted

    text_of = tokens.read(tokenizer)
    known = diagnosing.baselines(baseline)
    made = diagnosing.diagnose(paths, settings, known.against, wanted)
    accepted.mark(made.result.findings, known.accepted)
    with ci.told(made.result, wanted) if in_ci else nullcontext():
        outputs.write(wanted, made.result, made.store, made.origin, text_of)
    return _exit_code(made.result, settings)


def _exit_code(result: Diagnosis, settings: Config) -> int:
    from specdiag.rule import SEVERITIES

    if result.broken:
        return WRONG_USE
    if any(one.rule in settings.require and one.result == "undecided" for one in result.results):
        return NOTHING_READ
    if settings.fail_on in SEVERITIES:
        limit = SEVERITIES.index(settings.fail_on)
        if any(SEVERITIES.index(cause.severity) <= limit for cause in result.counted):
            return FINDINGS
    return 0
