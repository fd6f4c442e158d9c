"""`specdiag analyze` and `specdiag check`: what is wrong, for people and for CI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdiag.commands import outputs, tokens
from specdiag.commands.options import Baseline, MaybeHtml, Parsers, Paths, Rules, Tokenizer
from specdiag.errors import NOTHING_READ, WRONG_USE, SpecdiagError

if TYPE_CHECKING:
    from specdiag.commands.outputs import Target
    from specdiag.config import Config
    from specdiag.diagnosis import Diagnosis
    from specdiag.library import Progress

FINDINGS = 1
REPORT = Path("specdiag-report.html")
BIG = 50_000_000  # bytes of input that earn a progress bar

Html = Annotated[Path, typer.Option(help="Where to write the HTML report.")]
NoHtml = Annotated[bool, typer.Option("--no-html", help="Write no HTML report.")]
Output = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND=PATH",
        help="Also write json, markdown, html or duckdb; PATH - is stdout.",
    ),
]
FailOn = Annotated[
    str | None,
    typer.Option(help="Exit with 1 for findings of this severity or worse (or: never)."),
]
Require = Annotated[
    list[str] | None, typer.Option(metavar="RULE", help="Exit with 3 if this rule is undecided.")
]
Param = Annotated[
    list[str] | None, typer.Option(metavar="RULE.NAME=VALUE", help="Set a threshold of a rule.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Instead of ./specdiag.toml.")]


def analyze(
    paths: Paths, html: Html = REPORT, no_html: NoHtml = False, output: Output = None,
    fail_on: FailOn = None, require: Require = None, param: Param = None, rules: Rules = None,
    parsers: Parsers = None, config: ConfigFile = None, baseline: Baseline = None,
    tokenizer: Tokenizer = None,
) -> None:  # fmt: skip
    """Say what is wrong in logs and traces, with the lines that prove it.

    Prints the verdict and the findings, and writes specdiag-report.html.

    Example: specdiag analyze sample_logs/
    """
    settings = _settings(config, rules, parsers, param, require, fail_on)
    wanted = _wanted(output, None if no_html else html)
    raise typer.Exit(_run(paths, wanted, settings, baseline or "", tokenizer))


def check(
    paths: Paths, html: MaybeHtml = None, output: Output = None, fail_on: FailOn = None,
    require: Require = None, param: Param = None, rules: Rules = None,
    parsers: Parsers = None, config: ConfigFile = None, baseline: Baseline = None,
    tokenizer: Tokenizer = None,
) -> None:  # fmt: skip
    """The same for CI: exits with 1 when a finding is high or critical.

    Example: specdiag check sample_logs/healthy*
    """
    settings = _settings(config, rules, parsers, param, require, fail_on)
    settings.fail_on = settings.fail_on or "high"
    raise typer.Exit(_run(paths, _wanted(output, html), settings, baseline or "", tokenizer))


def _wanted(output: list[str] | None, html: Path | None) -> list[Target]:
    from specdiag import report

    return outputs.targets(output, html, report.KINDS)


def _settings(
    config: Path | None, rules: list[Path] | None, parsers: list[Path] | None,
    param: list[str] | None, require: list[str] | None, fail_on: str | None,
) -> Config:  # fmt: skip
    from specdiag import config as configuration
    from specdiag import library

    params: dict[str, dict[str, Any]] = {}
    for text in param or []:
        rule, name, value = configuration.parameter(text)
        params.setdefault(rule, {})[name] = value
    return library.settings(config, rules or (), parsers or (), params, require or (), fail_on)


def _run(
    paths: list[str], wanted: list[Target], settings: Config, baseline: str, tokenizer: Path | None
) -> int:
    from specdiag import library

    text_of = tokens.read(tokenizer)
    traced = any(one.kind in outputs.TRACED for one in wanted)
    result, origin = library.analyze(
        paths, settings, baseline, _progress(),
        [one.temporary for one in wanted if one.temporary], sys.argv[1:] if traced else None,
    )  # fmt: skip
    for notice in (*result.notices, *result.broken):
        typer.echo(str(notice), err=True)
    outputs.write(wanted, result, result.tables, origin, text_of)
    return _exit_code(result, settings)


def _exit_code(result: Diagnosis, settings: Config) -> int:
    from specdiag.rule import SEVERITIES

    if result.broken:
        return WRONG_USE
    known = {rule.name for rule in result.rules}
    for name in settings.require:
        if name not in known:
            raise SpecdiagError(f"no rule is called {name}", "--require", "see `specdiag rules`")
    if any(one.rule in settings.require and one.result == "undecided" for one in result.results):
        return NOTHING_READ
    if settings.fail_on in SEVERITIES:
        limit = SEVERITIES.index(settings.fail_on)
        if any(SEVERITIES.index(cause.severity) <= limit for cause in result.causes):
            return FINDINGS
    return 0


def _progress() -> Progress | None:
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(transient=True, console=Console(stderr=True))
    task = bar.add_task("reading")

    def show(done: int, total: int) -> None:
        if total < BIG or bar.finished:
            return
        bar.start()
        bar.update(task, completed=done, total=total)
        if bar.finished:
            bar.stop()

    return show
