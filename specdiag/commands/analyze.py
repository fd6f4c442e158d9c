"""`specdiag analyze` and `specdiag check`: what is wrong, for people and for CI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag.commands import outputs, tokens
from specdiag.commands.options import Baseline, MaybeHtml, Parsers, Paths, Rules, Tokenizer
from specdiag.errors import NOTHING_READ, WRONG_USE, SpecdiagError

if TYPE_CHECKING:
    from specdiag.commands.outputs import Target
    from specdiag.config import Config
    from specdiag.diagnosis import Diagnosis
    from specdiag.reading import Progress
    from specdiag.source import Source

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
PresetName = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="What to demand: ci, strict or smoke."),
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
    tokenizer: Tokenizer = None, preset: PresetName = None,
) -> None:  # fmt: skip
    """The same for CI: exits with 1 for a high or critical finding, or an assertion that fails.

    Example: specdiag check sample_logs/healthy*
    """
    settings = _settings(config, rules, parsers, param, require, fail_on)
    settings.preset = preset or settings.preset
    wanted = _wanted(output, html)
    raise typer.Exit(_run(paths, wanted, settings, baseline or "", tokenizer, held=True))


def _wanted(output: list[str] | None, html: Path | None) -> list[Target]:
    from specdiag import report

    return outputs.targets(output, html, report.KINDS)


def _settings(
    config: Path | None, rules: list[Path] | None, parsers: list[Path] | None,
    param: list[str] | None, require: list[str] | None, fail_on: str | None,
) -> Config:  # fmt: skip
    from specdiag import config as configuration
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
    return settings


def _run(
    paths: list[str], wanted: list[Target], settings: Config, baseline: str, tokenizer: Path | None,
    held: bool = False,
) -> int:  # fmt: skip
    """The exit code. `held`: to the assertions and the preset, else they are only told."""
    from specdiag import assertions, diagnosis, presets, provenance, source

    asserted = assertions.parse(settings.asserts, str(settings.file))
    preset = presets.find(settings.preset) if settings.preset else None
    if held:
        settings.fail_on = settings.fail_on or (preset.fail_on if preset else "high")
    text_of = tokens.read(tokenizer)
    parsers, rules, broken = diagnosis.definitions(settings.parsers, settings.rules)
    path = baseline if baseline and source.exists(baseline) else ""
    sources = source.find(paths, path)
    origin = None
    try:
        result, filled = diagnosis.analyze(
            sources, parsers, rules, settings.params, _progress(sources),
            "" if path else baseline, [one.temporary for one in wanted if one.temporary],
        )  # fmt: skip
        result.assertions = assertions.judge(asserted, filled)
        if preset:
            result.assertions += presets.judge(preset, result, filled)
        if any(one.kind in outputs.TRACED for one in wanted):  # every file is read once more
            origin = provenance.collect(filled.readings, settings, sys.argv[1:], baseline)
    finally:
        source.discard(sources)
    result.broken[:0] = broken
    for notice in (*result.notices, *result.broken):
        typer.echo(str(notice), err=True)
    outputs.write(wanted, result, filled, origin, text_of)
    code = _exit_code(result, settings)
    if code == WRONG_USE or not held:
        return code
    _raise_unmatched(result)
    return max(code, _held(result))


def _raise_unmatched(result: Diagnosis) -> None:
    """Raises SpecdiagError: what checks nothing must not be green."""
    for one in result.assertions:
        if one.result == "unmatched":
            raise SpecdiagError(
                f"{one.name}: {one.message}", one.where, "`specdiag facts PATH` lists what there is"
            )


def _held(result: Diagnosis) -> int:
    if any(one.required and one.result == "undecided" for one in result.assertions):
        return NOTHING_READ
    return FINDINGS if any(one.result == "failed" for one in result.assertions) else 0


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
