"""The report that `specdiag analyze` prints: verdict, runs, findings, what is undecided."""

from __future__ import annotations

import io
import shutil
import textwrap
from collections import defaultdict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specdiag.diagnosis import Diagnosis, Finding
from specdiag.report.text import notes, runs_table, verdict, visible

STYLES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "blue"}
ALIKE = 3  # from this many runs on, the same finding is told once


def width() -> int:
    """Columns of the terminal; 100 where the output is none."""
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def render(diagnosis: Diagnosis, colour: bool = False, width: int = 100) -> str:
    """The whole report as text."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False,
        emoji=False, markup=False, color_system="standard" if colour else None,
    )  # fmt: skip
    worst = diagnosis.causes[0].severity if diagnosis.causes else ""
    console.print(Text(verdict(diagnosis), style=STYLES.get(worst, "bold green")))
    _runs(console, diagnosis)
    for group in _groups(diagnosis.causes):
        _finding(console, diagnosis, group)
    _undecided(console, diagnosis)
    counts: dict[str, int] = defaultdict(int)
    for one in diagnosis.results:
        counts[one.result] += 1
    passed, idle = counts["pass"], counts["not applicable"]
    console.print(
        f"\nPassed: {passed} of {passed + counts['finding']} decided checks; {idle} do not apply."
    )
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _runs(console: Console, diagnosis: Diagnosis) -> None:
    headers, rows = runs_table(diagnosis)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for number, header in enumerate(headers):
        table.add_column(header, overflow="fold", min_width=12 if number == 0 else None)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console.print(table)
    for run in diagnosis.runs:
        for note in notes(run):
            console.print(Text(f"note: {visible(run.name)}: {note}", style="dim"))


def _groups(findings: list[Finding]) -> list[list[Finding]]:
    """Findings of one rule on many runs belong together; few stay single."""
    by_rule: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        by_rule[finding.rule.name, finding.severity].append(finding)
    groups: list[list[Finding]] = []
    for finding in findings:
        alike = by_rule[finding.rule.name, finding.severity]
        if len(alike) < ALIKE:
            groups.append([finding])
        elif alike[0] is finding:
            groups.append(alike)
    return groups


def _finding(console: Console, diagnosis: Diagnosis, group: list[Finding]) -> None:
    finding = group[0]
    where = f"{finding.run} against {finding.against}" if finding.against else finding.run
    title = Text(f"\n{finding.severity.upper()}  ", style=STYLES[finding.severity])
    title.append(finding.rule.title, style="bold")
    title.append(f"  [{finding.rule.name}]", style="dim")
    console.print(title)
    _say(console, f"  run    {visible(where)}")
    _say(console, f"  {visible(finding.message, 1000)}", "  ")
    if finding.impact:
        _say(console, f"  costs  about {finding.impact:.0%} of the throughput")
    for number, proof in enumerate(finding.evidence):
        console.print(
            Text(f"  {'proof' if number == 0 else '     '}  {proof.path}:{proof.line}", style="dim")
        )
        console.print(Text(f"         {visible(proof.text.strip(), max(40, console.width - 10))}"))
    if len(group) > 1:
        names = ", ".join(visible(other.run) for other in group[1:4])
        more = f" and {len(group) - 4} more" if len(group) > 4 else ""
        _say(console, f"  also   in {len(group) - 1} other runs: {names}{more}")
    for number, step in enumerate(finding.rule.fix, start=1):
        _say(console, f"  {'next' if number == 1 else '    '}   {number}. {step}", " " * 12)
    for other in diagnosis.consequences(finding):
        _say(
            console,
            f"  so     {other.severity} {other.rule.name}: {visible(other.message, 400)}",
            " " * 9,
        )


def _say(console: Console, text: str, indent: str = " " * 9) -> None:
    filled = textwrap.fill(
        text,
        console.width - 1,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    console.print(Text(filled), soft_wrap=True)


def _undecided(console: Console, diagnosis: Diagnosis) -> None:
    open_: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in diagnosis.results:
        if one.result == "undecided":
            open_[one.rule].append((one.run, one.reason))
    if not open_:
        return
    console.print(Text("\nUndecided: the data does not say", style="bold"))
    for rule, runs in sorted(open_.items()):
        name, reason = runs[0]
        more = f" (and {len(runs) - 1} more)" if len(runs) > 1 else ""
        _say(console, f"  {rule}, {visible(name)}{more}: {visible(reason)}", "    ")
