"""The specdiag command: options in, one library call, text out.

Nothing but typer is imported at module level: `specdiag --help` must answer at once.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdiag import __version__
from specdiag.commands import ledger, stops, tree, whatif
from specdiag.commands.options import Baseline, Parsers, Paths
from specdiag.ddtree import commands as ddtree
from specdiag.errors import NOTHING_READ, WRONG_USE, SpecdiagError

if TYPE_CHECKING:
    from specdiag.config import Config
    from specdiag.diagnosis import Diagnosis
    from specdiag.reading import Progress
    from specdiag.source import Source
    from specdiag.store import Store

FINDINGS, INTERNAL = 1, 101
REPORT = Path("specdiag-report.html")
BIG = 50_000_000  # bytes of input that earn a progress bar

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Find out why speculative decoding is slow or wrong, from its logs and traces.",
)

app.add_typer(ddtree.app, name="ddtree")

Html = Annotated[Path, typer.Option(help="Where to write the HTML report.")]
MaybeHtml = Annotated[Path | None, typer.Option("--html", help="Write an HTML report, too.")]
NoHtml = Annotated[bool, typer.Option("--no-html", help="Write no HTML report.")]
Output = Annotated[
    list[str] | None,
    typer.Option(metavar="KIND=PATH", help="Also write json, markdown or html; PATH - is stdout."),
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
Rules = Annotated[list[Path] | None, typer.Option(help="A folder (or file) with more rules.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Instead of ./specdiag.toml.")]


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Find out why speculative decoding is slow or wrong, from its logs and traces."""
    if show:
        typer.echo(f"specdiag {__version__}")
        raise typer.Exit


@app.command()
def analyze(
    paths: Paths, html: Html = REPORT, no_html: NoHtml = False, output: Output = None,
    fail_on: FailOn = None, require: Require = None, param: Param = None, rules: Rules = None,
    parsers: Parsers = None, config: ConfigFile = None, baseline: Baseline = None,
) -> None:  # fmt: skip
    """Say what is wrong in logs and traces, with the lines that prove it.

    Prints the verdict and the findings, and writes specdiag-report.html.

    Example: specdiag analyze sample_logs/
    """
    settings = _settings(config, rules, parsers, param, require, fail_on)
    outputs = _outputs(output) + ([] if no_html else [("html", str(html))])
    raise typer.Exit(_run(paths, outputs, settings, baseline or ""))


@app.command()
def check(
    paths: Paths, html: MaybeHtml = None, output: Output = None, fail_on: FailOn = None,
    require: Require = None, param: Param = None, rules: Rules = None,
    parsers: Parsers = None, config: ConfigFile = None, baseline: Baseline = None,
) -> None:  # fmt: skip
    """The same for CI: exits with 1 when a finding is high or critical.

    Example: specdiag check sample_logs/healthy*
    """
    settings = _settings(config, rules, parsers, param, require, fail_on)
    settings.fail_on = settings.fail_on or "high"
    outputs = _outputs(output) + ([("html", str(html))] if html else [])
    raise typer.Exit(_run(paths, outputs, settings, baseline or ""))


@app.command("rules")
def list_rules(
    rules: Rules = None,
    format: Annotated[str, typer.Option(help="text, markdown or json.")] = "text",
    output: Annotated[
        Path | None, typer.Option(help="A folder: a Markdown page a rule, and an index.")
    ] = None,
) -> None:
    """List every rule with its severity, or all that their headers say.

    Example: specdiag rules
    """
    from specdiag import diagnosis
    from specdiag.report import catalogue, files

    _, found, broken = diagnosis.definitions([], rules or [])
    _raise_first(broken)
    text = catalogue.rules_as(found, format)
    if output is None:
        typer.echo(text)
        return
    output.mkdir(parents=True, exist_ok=True)
    for name, page in catalogue.documents(found).items():
        files.write(output / name, page)


@app.command()
def explain(
    rule: Annotated[str, typer.Argument(help="Name of the rule.")], rules: Rules = None
) -> None:
    """Say what a rule means, what it needs and what to do about its findings.

    Example: specdiag explain step_time_superlinear
    """
    from specdiag import diagnosis
    from specdiag.report import catalogue

    _, found, _ = diagnosis.definitions([], rules or [])
    typer.echo(catalogue.explain(found, rule))


@app.command("parsers")
def list_parsers(
    name: Annotated[str | None, typer.Argument(help="Show what this parser reads.")] = None,
    parsers: Parsers = None,
) -> None:
    """List the formats that are read, or the names and samples of one.

    Example: specdiag parsers flat_steps
    """
    from specdiag import diagnosis
    from specdiag.report import catalogue

    found, _, broken = diagnosis.definitions(parsers or [], [])
    _raise_first(broken)
    typer.echo(catalogue.parser(found, name) if name else catalogue.parsers(found))


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="One SELECT; see `DESCRIBE` and `SHOW TABLES`.")],
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATH]...")] = None,
    format: Annotated[str, typer.Option(help="table, csv or json.")] = "table",
    parsers: Parsers = None,
) -> None:
    """Ask your own question of the tables that the rules read.

    Example: specdiag query "SELECT run, count(*) FROM decode GROUP BY run" sample_logs/
    """
    from specdiag import diagnosis, source
    from specdiag.report import catalogue

    found, _, broken = diagnosis.definitions(parsers or [], [])
    _raise_first(broken)
    files = source.find(paths) if paths else []
    try:
        filled = diagnosis.fill(files, found)
        _warn(filled)
        typer.echo(catalogue.table(filled, sql, format))
    finally:
        source.discard(files)


app.command()(tree.tree)
app.command()(whatif.whatif)
app.command()(stops.stops)
app.command()(ledger.ledger)


# What analyze and check share


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


def _outputs(given: list[str] | None) -> list[tuple[str, str]]:
    from specdiag import report

    found = []
    for text in given or []:
        kind, equals, path = text.partition("=")
        if kind not in report.KINDS or not equals or not path:
            raise SpecdiagError(
                f"{text!r} is no output",
                "--output",
                f"KIND=PATH, KIND one of {', '.join(report.KINDS)}",
            )
        found.append((kind, path))
    return found


def _run(paths: list[str], outputs: list[tuple[str, str]], settings: Config, baseline: str) -> int:
    from specdiag import diagnosis, report, source
    from specdiag.report import files, terminal

    parsers, rules, broken = diagnosis.definitions(settings.parsers, settings.rules)
    path = baseline if baseline and source.exists(baseline) else ""
    sources = source.find(paths, path)
    try:
        result, filled = diagnosis.analyze(
            sources, parsers, rules, settings.params, _progress(sources),
            "" if path else baseline,
        )  # fmt: skip
    finally:
        source.discard(sources)
    result.broken[:0] = broken
    for notice in (*result.notices, *result.broken):
        typer.echo(str(notice), err=True)
    to_stdout = [kind for kind, path in outputs if path == "-"]
    if not to_stdout:
        typer.echo(terminal.render(result, colour=_colour(), width=terminal.width()))
    for kind, path in outputs:
        text = report.render(kind, result, filled)
        if path == "-":
            typer.echo(text, nl=not text.endswith("\n"))
        else:
            files.write(Path(path), text)
            if kind == "html" and not to_stdout:
                typer.echo(f"\nReport: {path}")
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


def _colour() -> bool:
    import os

    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _warn(filled: Store) -> None:
    for notice in filled.notices:
        typer.echo(str(notice), err=True)


def _raise_first(broken: list[SpecdiagError]) -> None:
    if broken:
        raise broken[0]


def main() -> None:
    """Run the command; a user's mistake is three lines, a traceback is always our fault."""
    try:
        app()
    except SpecdiagError as error:
        typer.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except Exception:
        traceback.print_exc()
        typer.echo(
            "error: specdiag made a mistake\nhelp: please report the lines above with the command",
            err=True,
        )
        sys.exit(INTERNAL)
